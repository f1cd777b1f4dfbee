package refserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// batchMessages is the most that a batch may hold: a short text can name a great many.
const batchMessages = 1000

func isBatch(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// batch serves several messages in one body, which 2025-03-26 has and later revisions
// have not. If there are requests among them, one stream carries all their responses,
// each as an event of its own, and ends with the last ("2025-03-26 transports, Sending
// Messages to the Server 5"). A batch with anything wrong in it is refused as a whole.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, body []byte, hold *hold) *refusal {
	s, refused := h.session(r)
	if refused != nil {
		return refused
	}
	if !s.batches() {
		return &refusal{http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "a batch needs a session of revision " + revisionOldest}
	}
	messages, err := decodeBatch(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, jsonrpc.CodeInvalidRequest, err.Error()}
	}
	if len(requestIDs(messages)) > 0 {
		return h.call(w, r, s, hold, messages...)
	}
	for _, m := range messages {
		if !s.take(r, m) {
			return unknownSession()
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// batches tells whether the session is of the one revision that has them.
func (s *session) batches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision == revisionOldest
}

func decodeBatch(body []byte) ([]jsonrpc.Message, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil {
		return nil, errors.New("the batch is not a JSON array")
	}
	if len(parts) == 0 || len(parts) > batchMessages {
		return nil, fmt.Errorf("a batch holds 1 to %d messages, this one %d", batchMessages, len(parts))
	}
	all := make([]jsonrpc.Message, 0, len(parts))
	for i, part := range parts {
		m, err := decode(part)
		if err != nil {
			return nil, fmt.Errorf("message %d of the batch: %w", i+1, err)
		}
		if request, ok := m.(*jsonrpc.Request); ok && request.Method == "initialize" {
			return nil, errors.New("initialize may not be part of a batch")
		}
		all = append(all, m)
	}
	return all, nil
}

// requestIDs returns the ids of the requests among messages.
func requestIDs(messages []jsonrpc.Message) []jsonrpc.ID {
	var ids []jsonrpc.ID
	for _, m := range messages {
		if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() {
			ids = append(ids, request.ID)
		}
	}
	return ids
}

// describe adds to the requests and notifications of one body what the SDK is told
// beside their text.
func (s *Stream) describe(messages []jsonrpc.Message, r *http.Request) {
	for _, m := range messages {
		request, ok := m.(*jsonrpc.Request)
		switch {
		case ok && request.IsCall():
			extra := extraOf(r)
			if len(messages) > 1 {
				extra.Header = extra.Header.Clone() // each names its own call
			}
			s.lead(request.ID, extra)
			request.Extra = extra
		case ok:
			request.Extra = extraOf(r)
		}
	}
}

// answers counts the responses that a stream still has to carry, when it has to carry
// more than one.
type answers struct {
	mu        sync.Mutex
	missing   int
	appending sync.WaitGroup // responses, other than the last
}

// next returns whether the response that is about to be appended is the last. In this
// case all others are in the log, which nothing can be added to behind it. In the other
// case done must follow.
func (a *answers) next() (last bool) {
	if a == nil {
		return true
	}
	a.mu.Lock()
	a.missing--
	if last = a.missing == 0; !last {
		a.appending.Add(1)
	}
	a.mu.Unlock()
	if last {
		a.appending.Wait()
	}
	return last
}

func (a *answers) done() { a.appending.Done() }
