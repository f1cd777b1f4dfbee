package chaos

import "time"

// throttle is a narrow way. Reads are kept to what it lets through in a twentieth of a
// second, so that it trickles rather than gushes.
var throttle = kindSpec{
	name:      "throttle",
	about:     "For a while (1 s unless for says otherwise) the link delivers no more bytes per second than rate says.",
	at:        []Place{BetweenEvents, MidEvent, MidReplay, AtLive, Headers, GetStream},
	elsewhere: whereLasting,
	lasts:     func(s *suffering, f *Planned, until time.Time) { s.rate, s.throttled = f.Rate, until },
	usual:     time.Second,
	takes:     parameters{lasting: true, rate: true},
}
