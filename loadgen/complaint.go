package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// maxComplaint bounds the text that is kept of an error, in bytes.
const maxComplaint = 200

// Complaints are what kept calls from their results: JSON-RPC errors, results that say
// isError or, in revision 2026-07-28, that they are not complete; a status that refused the
// call; a session or a credential that could not be had. The text may be the target's:
// whoever shows it has to clean it.
type Complaints struct {
	Count int64
	First string // of the first one, at most 200 bytes
}

// complaints collects them from all streams; each stream brings one per response.
type complaints struct {
	modern bool
	mu     sync.Mutex
	c      Complaints
}

// hear takes the data of a response that belongs to its stream.
func (c *complaints) hear(m *wire.Message, data []byte) {
	if m.Kind != wire.KindError && !c.modern && !bytes.Contains(data, []byte(`"isError"`)) {
		return
	}
	text := complaint(data)
	if text == "" && m.Kind == wire.KindError {
		text = "an error that cannot be read"
	}
	if text == "" && c.modern {
		text = resultType(data)
	}
	c.add(text)
}

// add counts a complaint; "" is none.
func (c *complaints) add(text string) {
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c.Count++; c.c.Count == 1 {
		c.c.First = text[:min(len(text), maxComplaint)]
	}
}

// complain notes what kept the call of the stream from its result. What happens to the
// canary is not told.
func (s *stream) complain(format string, args ...any) {
	if s.a.Kind != history.StreamCanary {
		s.r.complaints.add(fmt.Sprintf(format, args...))
	}
}

func (c *complaints) report() Complaints {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c
}

// complaint is the text of an error; "" for a response that is none.
func complaint(data []byte) string {
	var m struct {
		Error  *rpcError
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if json.Unmarshal(data, &m) != nil {
		return ""
	}
	text := ""
	switch {
	case m.Error != nil:
		text = m.Error.String()
	case m.Result.IsError && len(m.Result.Content) > 0:
		text = "isError: " + m.Result.Content[0].Text
	case m.Result.IsError:
		text = "isError"
	}
	return text[:min(len(text), maxComplaint)]
}
