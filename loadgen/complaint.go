package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// maxComplaint bounds the text that is kept of an error, in bytes.
const maxComplaint = 200

// Complaints are what targets answered instead of a result: JSON-RPC errors, and
// results that say isError. The text is the target's: whoever shows it has to clean it.
type Complaints struct {
	Count int64
	First string // of the first one, at most 200 bytes
}

// complaints collects them from all streams; each stream brings one per response.
type complaints struct {
	mu sync.Mutex
	c  Complaints
}

// hear takes the data of a response that belongs to its stream.
func (c *complaints) hear(m *wire.Message, data []byte) {
	if m.Kind != wire.KindError && !bytes.Contains(data, []byte(`"isError"`)) {
		return
	}
	text := complaint(data)
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c.Count++; c.c.Count == 1 {
		c.c.First = text
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
		Error *struct {
			Code    int
			Message string
		}
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
		text = fmt.Sprintf("%d %s", m.Error.Code, m.Error.Message)
	case m.Result.IsError && len(m.Result.Content) > 0:
		text = "isError: " + m.Result.Content[0].Text
	case m.Result.IsError:
		text = "isError"
	}
	return text[:min(len(text), maxComplaint)]
}
