package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// A target may answer each call as it likes, with an event stream or with one JSON body
// (2025-11-25 transports, Sending Messages 5). A JSON body holds the response alone: the
// messages of its call have no stream on which they could come, so nothing tells of them.

// answers count how the calls of a run were answered, all kinds of streams together.
type answers struct {
	// Streams and JSON count the answers to POSTs of either kind.
	Streams, JSON int64
	// Bare calls are those answered with JSON though their messages were to be judged.
	Bare int64
	// Canary: the canary was one of them, so there was nothing to drop.
	Canary bool
}

func (a *answers) add(s *Stream) {
	switch s.body {
	case history.BodySSE:
		a.Streams++
	case history.BodyJSON:
		a.JSON++
	}
	if s.bare() {
		a.Bare++
		a.Canary = a.Canary || s.kind == history.StreamCanary
	}
}

// onlyJSON tells a target that never answered with an event stream.
func (a *answers) onlyJSON() bool { return a.JSON > 0 && a.Streams == 0 }

// answeredBy notes the head of the answer to the call's POST.
func (s *Stream) answeredBy(h *history.Head) {
	if !s.hears() && s.ex.attempt == 0 && !s.ex.injected && h.Status/100 == 2 {
		s.body = h.Body
	}
}

// inJSON tells that the response at hand came in the JSON body that answered its POST.
func (s *Stream) inJSON() bool {
	return !s.hears() && s.ex.attempt == 0 && s.ex.body == history.BodyJSON
}

// bare tells a call that nobody can judge since its answer was a JSON body. One that was
// answered with an error has its own reason, and a batch may have brought every message.
func (s *Stream) bare() bool {
	switch {
	case !s.plain || s.mute || s.errors > 0:
		return false
	case s.judge.setup.Oracle == OracleLedger:
		return s.msgs.Undecided > 0
	}
	return s.msgs.Undecided > 0 || s.acct.distinct == 0
}
