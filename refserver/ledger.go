package refserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// LedgerConfig bounds a [Ledger]. Zero fields mean the default.
type LedgerConfig struct {
	Calls int   // calls kept at once; default 200,000
	Bytes int64 // of what is kept of their messages; default 256 MiB
}

// Validate reports all that is wrong with the configuration.
func (c LedgerConfig) Validate() error {
	var errs []error
	if c.Calls < 0 {
		errs = append(errs, fmt.Errorf("limit of calls is negative: %d", c.Calls))
	}
	if c.Bytes < 0 {
		errs = append(errs, fmt.Errorf("limit of bytes is negative: %d", c.Bytes))
	}
	return errors.Join(errs...)
}

// callBytes is what a call costs in a ledger beside its messages.
const callBytes = 256

// Ledger is the server's own account of what its fixture tools emitted and
// executed, by progress token. The intent to emit a message is entered before the
// message is given to its stream, the result after.
type Ledger struct {
	cfg LedgerConfig

	mu      sync.Mutex
	bytes   int64
	dropped int64
	entries map[string]*entry
}

// entry is the account of one call.
type entry struct {
	ledger  *Ledger
	token   string
	running int  // executions that have not returned
	taken   bool // to be forgotten when none runs any more

	hashes             []byte // 8 bytes for each message
	settled            int    // messages whose result is entered
	unstored, unknown  []int64
	executions, answer int
	requests           int // of the server, answered by the client
	cancelled          bool
}

// Call is the account of one call, as /ledger/take gives it out.
type Call struct {
	Call  string `json:"call"`
	Known bool   `json:"known"`
	// Emitted is the number of messages that were meant to be emitted.
	Emitted    int `json:"emitted"`
	Executions int `json:"executions"`
	// Responses counts the responses that were given to the stream of the call.
	Responses int `json:"responses"`
	// Answers counts the requests of the server to the client that were answered.
	Answers   int  `json:"answers"`
	Cancelled bool `json:"cancelled"`
	// Hashes are the xxhash64 of message 1..Emitted, 8 bytes each, big-endian.
	Hashes []byte `json:"hashes"`
	// Unstored are the messages that the store did not take: they were sent without an
	// id to the client that was connected, if one was. Unknown are those of which nobody
	// knows: they may arrive once or not at all.
	Unstored []int64 `json:"unstored"`
	Unknown  []int64 `json:"unknown"`
}

// NewLedger returns an empty ledger.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if cfg.Calls == 0 {
		cfg.Calls = 200_000
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 256 << 20
	}
	return &Ledger{cfg: cfg, entries: make(map[string]*entry)}, nil
}

// Take returns the account of the calls named, in their order, and forgets them; a
// call that still runs is forgotten when it ends.
func (l *Ledger) Take(calls []string) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Call, 0, len(calls))
	for _, token := range calls {
		e := l.entries[token]
		if e == nil {
			out = append(out, Call{Call: token, Hashes: []byte{}, Unstored: []int64{}, Unknown: []int64{}})
			continue
		}
		out = append(out, e.call())
		e.taken = true
		e.forgetLocked()
	}
	return out
}

// Dropped returns the number of calls and messages that did not fit.
func (l *Ledger) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// call copies the account. A message without a result is unknown, the running
// call's last one included.
func (e *entry) call() Call {
	emitted := len(e.hashes) / 8
	c := Call{
		Call: e.token, Known: true, Emitted: emitted, Executions: e.executions,
		Responses: e.answer, Answers: e.requests, Cancelled: e.cancelled,
		Hashes:   append([]byte{}, e.hashes...),
		Unstored: append([]int64{}, e.unstored...),
		Unknown:  append([]int64{}, e.unknown...),
	}
	for seq := e.settled + 1; seq <= emitted; seq++ {
		c.Unknown = append(c.Unknown, int64(seq))
	}
	return c
}

func (e *entry) forgetLocked() {
	l := e.ledger
	if e.taken && e.running == 0 && l.entries[e.token] == e {
		delete(l.entries, e.token)
		l.bytes -= int64(cap(e.hashes)) + callBytes + 8*int64(len(e.unstored)+len(e.unknown))
	}
}

// begin enters that a tool begins to run for a call. It returns nil, which is an
// entry that keeps nothing, when the ledger is full or the call has no token.
func (l *Ledger) begin(token string) *entry {
	if l == nil || token == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[token]
	if e == nil {
		if len(l.entries) >= l.cfg.Calls || l.bytes+callBytes > l.cfg.Bytes {
			l.dropped++
			return nil
		}
		e = &entry{ledger: l, token: token}
		l.entries[token] = e
		l.bytes += callBytes
	}
	e.running++
	e.executions++
	return e
}

// intend enters that message seq is about to be emitted.
func (e *entry) intend(hash uint64) {
	if e == nil {
		return
	}
	l := e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(e.hashes)+8 > cap(e.hashes) {
		grown := int64(max(cap(e.hashes), 64))
		if l.bytes+grown > l.cfg.Bytes {
			l.dropped++
			return
		}
		wider := make([]byte, len(e.hashes), cap(e.hashes)+int(grown))
		copy(wider, e.hashes)
		e.hashes = wider
		l.bytes += grown
	}
	e.hashes = binary.BigEndian.AppendUint64(e.hashes, hash)
}

// emitted enters the result of the message that was intended last.
func (e *entry) emitted(err error) {
	if e == nil {
		return
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	e.settled = len(e.hashes) / 8
	switch {
	case errors.Is(err, ErrUnstored):
		e.unstored = e.note(e.unstored)
	case err != nil:
		e.unknown = e.note(e.unknown)
	}
}

// note adds the message that was settled last, if there is room.
func (e *entry) note(to []int64) []int64 {
	l := e.ledger
	if l.bytes+8 > l.cfg.Bytes {
		l.dropped++
		return to
	}
	l.bytes += 8
	return append(to, int64(e.settled))
}

// answered changes the number of responses that were given to the stream.
func (e *entry) answered(by int) {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	e.answer += by
}

// answeredRequest enters that the client answered a request of the server.
func (e *entry) answeredRequest() {
	if e == nil {
		return
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	e.requests++
}

// ended enters that the tool has returned.
func (e *entry) ended(cancelled bool) {
	if e == nil {
		return
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	e.running--
	e.cancelled = e.cancelled || cancelled
	e.forgetLocked()
}
