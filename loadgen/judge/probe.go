package judge

import (
	"github.com/gapless-dev/gapless/loadgen/history"
)

// A probeWord is what a probe's answer says of the target.
type probeWord uint8

const (
	probeUntold probeWord = iota
	probeConforms
	probeDeviates
)

// probing is what a stream knows of its probes.
type probing struct {
	struck  bool // a fault of ours ended the link of the next probe
	usable  bool // the one at hand
	first   history.Probe
	told    bool // first holds a replay that said something
	more    bool // which brought other messages than the first time
	counts  *[probeCount]probeTally
	sampled bool
}

const probeCount = int(history.ProbeReissue) + 1

// A probeTally counts the probes of one name.
type probeTally struct{ Asked, Conforming, Deviating int64 }

// begin decides whether the answer can tell anything: not if the question could not
// be asked, or if we are to blame for how it ended.
func (p *probing) begin(r *history.Record) {
	x := &r.Probe
	p.usable = x.Offered && !p.struck && x.End != history.EndStopped && x.End != history.EndUnreachable
	p.struck = false
}

// note counts the probe. The folds have given their word.
func (p *probing) note(r *history.Record, word probeWord) {
	name := int(r.Probe.Name)
	p.sampled = p.sampled || r.Probe.Name != history.ProbeReissue
	if !r.Probe.Offered || name >= probeCount {
		return
	}
	if p.counts == nil {
		p.counts = new([probeCount]probeTally)
	}
	p.counts[name].Asked++
	p.settle(r.Probe.Name, word)
}

// settle counts the word of a probe that was asked.
func (p *probing) settle(name history.ProbeName, word probeWord) {
	c := &p.counts[name]
	switch word {
	case probeConforms:
		c.Conforming++
	case probeDeviates:
		c.Deviating++
	}
}

// asked returns the probe of a record if it bears one of the names and can tell
// something.
func (s *Stream) asked(r *history.Record, names ...history.ProbeName) *history.Probe {
	if r.Kind != history.KindProbe || !s.probes.usable {
		return nil
	}
	p := &r.Probe
	if (p.Status == 429 || p.Status == 503) && p.Name != history.ProbeReissue {
		return nil // it asks for patience, which a probe has none of
	}
	for _, name := range names {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// conforms notes that a probe was answered as an invariant wants it.
func (s *Stream) conforms(inv ident) {
	s.check(inv, 1)
	if s.now.probe == probeUntold {
		s.now.probe = probeConforms
	}
}

// deviates notes that it was not. What waits for the generator's alibi is neither.
func (s *Stream) deviates(inv ident, f finding) {
	if !f.pending {
		s.check(inv, 1)
		s.now.probe = probeDeviates
	}
	s.find(inv, f)
}

// silence says that no head came, and whether the target was silent for long enough to
// blame it for that.
func silence(p *history.Probe) (silent, long bool) {
	if p.Status != 0 {
		return false, false
	}
	switch p.End {
	case history.EndIdle, history.EndDeadline, history.EndOpen:
		return true, p.Took >= silenceLimit
	}
	return false, false
}

// judgeStatus settles what any probe has in common: it returns false when the status has
// said everything. Nothing at all is a hang, 5xx a fault of the target's own.
func (s *Stream) judgeStatus(inv ident, p *history.Probe) bool {
	silent, long := silence(p)
	switch {
	case silent && long:
		s.deviates(inv, finding{what: probeName(p.Name) + ": no answer", pending: true})
	case silent:
	case p.Status == 0:
		s.deviates(inv, finding{what: probeName(p.Name) + ": no answer, " + endName(p.End)})
	case p.Status >= 500:
		s.deviates(inv, finding{what: probeName(p.Name) + ": answered " + statusText(p.Status)})
	default:
		return true
	}
	return false
}

// mergeProbes takes over what a stream's probes counted.
func (j *Judge) mergeProbes(s *Stream) {
	if s.probes.sampled {
		j.sampled++
	}
	if s.probes.counts == nil {
		return
	}
	for i, c := range s.probes.counts {
		j.probes[i].Asked += c.Asked
		j.probes[i].Conforming += c.Conforming
		j.probes[i].Deviating += c.Deviating
	}
}

func (j *Judge) probeCounts() []ProbeCount {
	var out []ProbeCount
	for i, c := range j.probes {
		if c.Asked > 0 {
			out = append(out, ProbeCount{probeName(history.ProbeName(i)), c.Asked, c.Conforming, c.Deviating})
		}
	}
	return out
}

// A ProbeCount says how the probes of one name went. What is in neither Conforming nor
// Deviating could not be told.
type ProbeCount struct {
	Name                         string
	Asked, Conforming, Deviating int64
}
