package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func pollTruthfulInvariant() invariant {
	return invariant{
		name:   "poll-truthful",
		claim:  "what stream/poll says agrees with what the next resume brings",
		source: "derived from the draft of streams (pull request 899), Polling (status, pendingMessages, hasRequest, hasError)",
		level:  LevelDerived,
		role:   whenDrafted(Watched), // how many resumes are polled before is drawn
		event:  polledEvent,
		fact:   judgePoll,
	}
}

// whenDrafted is the role of a promise that the draft of streams alone makes.
func whenDrafted(r Role) func(Setup) (Role, string) {
	return func(s Setup) (Role, string) {
		if !s.drafted() {
			return NotApplicable, "it belongs to dialect streams"
		}
		return r, ""
	}
}

// polling is what a stream knows of its polls.
type polling struct {
	last      history.Poll
	fresh     bool // no exchange has begun since
	completed bool // one said so
	binds     bool // last foretells the exchange at hand
	brought   bool // which brought a message
	lied      bool // and belied it
}

// judgePoll holds a poll against itself and what is known already. A stream that was said
// to be completed gets no more messages, so what it said of those cannot be overtaken;
// that of a live one can.
func judgePoll(s *Stream, r *history.Record) {
	p := &s.polling
	switch r.Kind {
	case history.KindPoll:
		p.fresh = false
		if !r.Poll.Answered {
			return
		}
		s.judgePollAlone(&r.Poll)
		p.last, p.fresh = r.Poll, true
		p.completed = p.completed || r.Poll.Completed
	case history.KindAttempt:
		p.binds = p.fresh && p.last.Completed && r.Exchange.Resume
		p.fresh, p.brought, p.lied = false, false, false
	case history.KindEnd:
		if p.binds && !s.ex.injected && s.ex.ended && r.End == history.EndClean && !p.brought && p.last.Pending && !p.last.HasRequest {
			s.find(pollTruthful, finding{what: "messages were pending, and the resume brought none"})
		}
		p.binds = false
	}
}

// judgePollAlone finds what needs no resume to be seen.
func (s *Stream) judgePollAlone(now *history.Poll) {
	s.check(pollTruthful, 1)
	wrong := ""
	switch {
	case now.Strange:
		wrong = "the result is of another stream, or has a status that there is not"
	case !now.Pending && (now.HasRequest || now.HasError):
		wrong = "a request or an error is pending, and yet no message"
	case !now.Completed && s.ends > 0:
		wrong = "live after its end was delivered"
	case !now.Completed && s.polling.completed:
		wrong = "live after it was completed"
	}
	if wrong != "" {
		s.find(pollTruthful, finding{what: wrong})
	}
}

// polledEvent compares a message that a resume brings with what the poll before foretold.
func polledEvent(s *Stream, r *history.Record) {
	p, n := &s.polling, &s.now
	if !p.binds || !n.own || !n.message || r.Event.Class == history.ClassJunk {
		return
	}
	p.brought = true
	wrong := ""
	switch {
	case p.lied: // once is enough
	case !p.last.Pending:
		wrong = "completed with nothing pending, and a message came"
	case !p.last.HasRequest && r.Event.Class == history.ClassRequest:
		wrong = "no request was pending, and one came"
	case !p.last.HasError && r.Event.Class == history.ClassError:
		wrong = "no error was pending, and one came"
	}
	if wrong != "" {
		p.lied = true
		s.find(pollTruthful, finding{what: wrong})
	}
}
