package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// refusedByError stands for the status of a resume that was refused by an error of
// JSON-RPC, as the draft of streams has it.
const refusedByError = -1

// framing notes an event that tells of a stream and is no message of it (dialect streams);
// true: it is an answer to a resume, and nothing that the stream brings.
func (s *Stream) framing(r *history.Record) (answer bool) {
	e := &r.Event
	if e.Late || e.Owner != history.OwnerSelf {
		return false
	}
	switch e.Class {
	case history.ClassCreate:
		s.created = s.created || e.Illegal == 0
	case history.ClassEnd:
		s.ends++
		s.ex.ended = true
	case history.ClassRefusal:
		if s.ex.resume && !s.ex.injected && s.refused != refusedByError {
			s.resumes.succeeded--
			s.resumes.refused++
			s.refused = refusedByError
			s.cutAge = r.At - s.cursorAt
		}
		s.now.own = true
		return true
	}
	return false
}
