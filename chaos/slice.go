package chaos

import (
	"math"
	"time"
)

// slice is a network that cuts everything small: no read returns more than a drawn
// number of bytes, from one to seven.
var slice = kindSpec{
	name:      "slice",
	about:     "For a while (1 s unless for says otherwise) every read returns one to seven bytes.",
	at:        []Place{BetweenEvents, MidEvent, MidReplay, AtLive, Headers, GetStream},
	elsewhere: whereLasting,
	lasts: func(s *suffering, f *Planned, until time.Time) {
		s.sliced, s.key = until, math.Float64bits(f.K)^math.Float64bits(f.Offset)
	},
	usual: time.Second,
	takes: parameters{lasting: true},
}
