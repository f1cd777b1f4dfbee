package chaos

import "time"

// delay is a long way: whatever arrives while it acts is delivered later. What arrives
// during the wait is delivered with the next read, so bytes are late by one to two
// times By.
var delay = kindSpec{
	name:      "delay",
	about:     "For a while (1 s unless for says otherwise) what arrives is delivered later, by as much as by says.",
	at:        []Place{BetweenEvents, MidEvent, MidReplay, AtLive, Headers, GetStream},
	elsewhere: whereLasting,
	lasts: func(s *suffering, f *Planned, until time.Time) {
		s.by, s.delayed = f.By, until
		s.notBefore = later(s.notBefore, until.Add(f.By-f.For)) // what has arrived is late as well
	},
	usual: time.Second,
	takes: parameters{lasting: true, by: true},
}
