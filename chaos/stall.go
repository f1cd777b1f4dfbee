package chaos

import "time"

// stall is a reader that has stopped reading: what the target sends fills the buffers
// on the way until its writes block. The link keeps its own receive buffer small for
// it (see [Link.Begin]).
var stall = kindSpec{
	name:      "stall",
	about:     "The reader reads nothing from the link for a while (1 s unless for says otherwise), through small buffers.",
	at:        []Place{BetweenEvents, MidEvent, MidReplay, AtLive, Headers, GetStream},
	elsewhere: whereLasting,
	lasts:     func(s *suffering, _ *Planned, until time.Time) { s.notBefore = later(s.notBefore, until) },
	usual:     time.Second,
	takes:     parameters{lasting: true},
}

// whereLasting says why what slows a link down is kept to a few places.
const whereLasting = "what only slows a link down shows where more of the stream is still to come, and not here"
