package profiles

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Explicit tells whether the profile, what it extends, or a flag named the
// field at path, such as "load.streams", or anything below it.
func (p Profile) Explicit(path string) bool {
	if p.explicit[path] {
		return true
	}
	for k := range p.explicit {
		if strings.HasPrefix(k, path+".") || strings.HasPrefix(k, path+"[") {
			return true
		}
	}
	return false
}

// Mark records that a flag set the field at path. The command marks what it
// changes and then calls [Profile.Resolve] and [Profile.Validate].
func (p *Profile) Mark(path string) {
	marked := map[string]bool{path: true}
	for k := range p.explicit {
		marked[k] = true
	}
	p.explicit = marked // copies of p share the old one
}

// Forget makes the section at path one that nobody named: it belongs to another target.
func (p *Profile) Forget(path string) {
	left := map[string]bool{}
	for k := range p.explicit {
		if k != path && !strings.HasPrefix(k, path+".") && !strings.HasPrefix(k, path+"[") {
			left[k] = true
		}
	}
	p.explicit = left
}

// Resolve fills what follows from other fields and was not named itself: the
// dialect from the protocol, the protocol from the dialect, the contract from
// both. It can be called again after a change.
func (p *Profile) Resolve() {
	t := &p.Target
	switch {
	case p.Explicit("target.dialect"):
	case t.Protocol == modernRevision && p.Explicit("target.protocol"):
		t.Dialect = "modern"
	default:
		t.Dialect = "resume"
	}
	if !p.Explicit("target.protocol") || t.Protocol == "" {
		if r := revisions(t.Dialect); len(r) > 0 {
			t.Protocol = r[len(r)-1]
		}
	}
	if !p.Explicit("judge.contract") {
		p.Judge.Contract = defaultContract(t.Dialect, t.Transport)
	}
	p.resolveCalls()
}

// resolveCalls takes back the defaults of a tool call and of progress notifications
// where something else was named.
func (p *Profile) resolveCalls() {
	p.Calls = slices.Clone(p.Calls) // copies of p share them
	plain := DefaultCall()
	for i := range p.Calls {
		c, path := &p.Calls[i], fmt.Sprintf("calls[%d].", i)
		if (c.Resource != "" || c.Prompt != "") && c.Tool == plain.Tool && !p.explicit[path+"tool"] {
			c.Tool = ""
		}
		if c.Expect.Method == progressMethod {
			continue
		}
		if !p.explicit[path+"expect.sequence"] && c.Expect.Sequence == plain.Expect.Sequence {
			c.Expect.Sequence = ""
		}
		if !p.explicit[path+"expect.total"] && c.Expect.Total == plain.Expect.Total {
			c.Expect.Total = ""
		}
	}
}

// defaultContract is what a dialect promises (VERDICT.md §1).
func defaultContract(dialect, transport string) string {
	switch {
	case dialect == "umcp", dialect == "modern":
		return "none"
	case dialect == "streams" && transport != "http":
		return "at-least-once"
	}
	return "exactly-once"
}

// Reference tells whether the target is the reference server, started by us.
func (p Profile) Reference() bool { return p.Target.URL == "" && p.Target.Exec == "" }

// UseClosed switches to the closed model with this many streams open at once
// and calls in all; 0 calls means as many as streams.
func (l *LoadModel) UseClosed(streams, calls int) {
	l.Streams, l.Calls = streams, calls
	l.Rate, l.Duration, l.Stages = 0, 0, []Stage{}
}

// UseRate switches to the open model with a constant rate.
func (l *LoadModel) UseRate(rate Rate, duration Duration) {
	l.Streams, l.Calls, l.Hold, l.Stages = 0, 0, false, []Stage{}
	l.Rate, l.Duration = rate, duration
}

// UseStages switches to the open model with stages.
func (l *LoadModel) UseStages(stages []Stage) {
	l.Streams, l.Calls, l.Hold, l.Rate, l.Duration = 0, 0, false, 0, 0
	l.Stages = stages
}

func (l LoadModel) open() bool { return l.Rate > 0 || len(l.Stages) > 0 }

// Arrivals is the number of streams that the load starts in all. In the open model
// every stretch of time in which the rate does not change, or changes evenly, begins
// with an arrival, so a begun one counts.
func (l LoadModel) Arrivals() int {
	if !l.open() {
		if l.Calls > 0 {
			return l.Calls
		}
		return l.Streams
	}
	n, from := 0.0, float64(l.Rate)
	stretch := func(to float64, d Duration) {
		n += math.Ceil((from+to)/2*d.Std().Seconds() - 1e-6) // seconds are no exact numbers
		from = to
	}
	stretch(from, l.Duration)
	for _, s := range l.Stages {
		stretch(float64(s.Rate), s.For)
	}
	return int(math.Min(n, 1e12))
}

// SessionCount is the number of sessions that share the streams: as named, else
// one per ten streams that can be open at once, and at least one.
func (l LoadModel) SessionCount() int {
	if l.Sessions > 0 {
		return l.Sessions
	}
	return max(1, (l.most()+9)/10)
}

// most is how many streams can be open at once.
func (l LoadModel) most() int {
	if l.open() {
		return min(l.Arrivals(), l.MaxOpen)
	}
	return l.Streams
}

// maxUMCPSessions is somewhat less than the 1,024 that a target of the dialect umcp keeps:
// it may let go of one later than its client.
const maxUMCPSessions = 1000

// SessionCount is the number of sessions that share the streams. In dialect umcp a session
// has one event stream, so there are as many as streams can be open, the canary's included,
// up to what the contract has room for, whatever is named; further streams wait for theirs.
func (p Profile) SessionCount() int {
	if p.Target.Dialect == "umcp" {
		besides := p.Load.Control*len(p.Calls) + 1 // control calls, and the canary
		return max(1, min(p.Load.most()+besides, maxUMCPSessions))
	}
	return p.Load.SessionCount()
}
