package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// In dialect umcp the messages of a call come on the event stream of its session, which is
// asked for again after a cut, and the response on the POST, which nothing hurts. What falls
// between two links is gone; nothing has an id.

const dialectUMCP = "umcp"

// umcp tells the dialect whose event streams are taken up again without cursors.
func (s Setup) umcp() bool { return s.Dialect == dialectUMCP }

// hears tells a stream whose messages come on a GET and whose response on a POST.
func (s *Stream) hears() bool {
	return s.kind == history.StreamGet || s.judge.setup.umcp()
}

// parted tells that a link ended, or another began, since the last message of a call whose
// messages come on a GET stream: what would have followed it may have fallen between them.
func (s *Stream) parted() bool {
	if !s.ex.numbered {
		return s.ex.attempt > 0
	}
	return s.ex.over && !leftByUs(s.end.last)
}
