package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func legalFramesInvariant() invariant {
	return invariant{
		name:   "legal-frames",
		claim:  "every frame is legal HTTP, SSE, UTF-8 and JSON-RPC",
		source: "WHATWG HTML 9.2.5; JSON-RPC 2.0; 2025-11-25 transports (MUST be UTF-8)",
		level:  LevelMust,
		role:   always,
		event: func(s *Stream, r *history.Record) {
			s.check(legalFrames, 1)
			switch illegal := r.Event.Illegal &^ history.IllegalSize; illegal { // no protocol bounds sizes, see oversize
			case 0:
			case history.IllegalID, history.IllegalDupKeys:
				// Legal in SSE, though a header may not carry it back; and keys should be unique
				// (RFC 8259, 4), but need not.
				s.find(legalFrames, finding{first: r.Event.Seq, last: r.Event.Seq, what: illegalText(illegal), soft: true})
			default:
				s.findMessage(legalFrames, r.Event.Seq, illegalText(illegal))
			}
		},
		fact: func(s *Stream, r *history.Record) {
			// A frame that our own fault cut short is not the target's, and one that an event
			// already reported counts once.
			if r.Kind == history.KindEnd && r.End == history.EndFrame && !s.ex.injected && !s.ex.illegal {
				s.check(legalFrames, 1)
				s.find(legalFrames, finding{what: "broken HTTP or SSE framing"})
			}
		},
	}
}

// illegalText names the first reason of a set.
func illegalText(set history.Illegal) string {
	for i, text := range []string{"not valid UTF-8", "not well-formed JSON", "no JSON-RPC 2.0 message",
		"an event id outside visible ASCII", "", "broken HTTP framing",
		"a batch, which the revision does not have", "a key twice"} {
		if set>>i&1 == 1 {
			return text
		}
	}
	return "not legal"
}
