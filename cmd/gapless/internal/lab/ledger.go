package lab

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/gapless-dev/gapless/loadgen/history"
)

const (
	// ledgerBatch is the number of calls asked for in one request.
	ledgerBatch = 500
	// ledgerBytes bounds the answer; a message takes 11 bytes of it.
	ledgerBytes = 1 << 30
)

// A ledger asks the reference server what it emitted and executed. It is used by one
// goroutine at a time.
type ledger struct {
	url    string
	client *http.Client
	answer bytes.Buffer // the last answer; kept, since answers are large and many
	size   int          // the most bytes a call took in an answer so far
}

// ledgerAnswer is the reference server's account; see the ledger of package
// refserver for what each field means. Hashes are 8 big-endian bytes a message.
type ledgerAnswer struct {
	Calls   []ledgerCall `json:"calls"`
	Dropped int64        `json:"dropped"`
}

type ledgerCall struct {
	Call       string  `json:"call"`
	Known      bool    `json:"known"`
	Emitted    int64   `json:"emitted"`
	Executions int32   `json:"executions"`
	Responses  int32   `json:"responses"`
	Answers    int32   `json:"answers"`
	Cancelled  bool    `json:"cancelled"`
	Hashes     string  `json:"hashes"`
	Unstored   []int64 `json:"unstored"`
	Unknown    []int64 `json:"unknown"`
}

// take tells observe, for the i-th of the calls, the records of its account in the
// order of history's contract: messages first, the call last. The record is only
// valid during the call. The server forgets the calls. dropped is the number of
// calls that its ledger could not hold so far. Nothing is observed after an error.
func (l *ledger) take(ctx context.Context, calls []string, observe func(i int, r *history.Record)) (dropped int64, err error) {
	answer, err := l.ask(ctx, calls)
	if err != nil {
		return 0, err
	}
	accounts := make([]account, len(calls))
	for i := range answer.Calls {
		if accounts[i], err = newAccount(&answer.Calls[i]); err != nil {
			return 0, err
		}
	}
	for i := range accounts {
		accounts[i].each(func(r *history.Record) { observe(i, r) })
	}
	return answer.Dropped, nil
}

func (l *ledger) ask(ctx context.Context, calls []string) (*ledgerAnswer, error) {
	body, err := json.Marshal(map[string][]string{"calls": calls})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/ledger/take", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, fmt.Errorf("ledger: status %d: %.200q", resp.StatusCode, said)
	}
	answer := new(ledgerAnswer)
	// Read whole: a decoder on the stream would scan the long hashes twice.
	l.answer.Reset()
	l.answer.Grow(len(calls) * l.size)
	_, err = l.answer.ReadFrom(io.LimitReader(resp.Body, ledgerBytes))
	l.size = max(l.size, l.answer.Len()/len(calls)+1)
	if err == nil {
		err = json.Unmarshal(l.answer.Bytes(), answer)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if len(answer.Calls) != len(calls) {
		return nil, fmt.Errorf("ledger: asked for %d calls, got %d", len(calls), len(answer.Calls))
	}
	return answer, nil
}

// An account is what the ledger says of one call.
type account struct {
	call   *ledgerCall
	hashes []byte
	fates  map[int64]history.Fate // of the messages that were not accepted
}

func newAccount(c *ledgerCall) (account, error) {
	hashes, err := base64.StdEncoding.DecodeString(c.Hashes)
	if err != nil || int64(len(hashes)) != 8*c.Emitted {
		return account{}, fmt.Errorf("ledger: %d messages but %d bytes of hashes (%v)", c.Emitted, len(hashes), err)
	}
	a := account{call: c, hashes: hashes, fates: map[int64]history.Fate{}}
	for _, seq := range c.Unstored {
		a.fates[seq] = history.FateUnstored
	}
	for _, seq := range c.Unknown {
		a.fates[seq] = history.FateUnknown
	}
	for seq := range a.fates {
		if seq < 1 || seq > c.Emitted {
			return account{}, fmt.Errorf("ledger: message %d of %d", seq, c.Emitted)
		}
	}
	return a, nil
}

// each goes through the records of the account; they share one piece of memory, since
// a call can have very many.
func (a account) each(observe func(*history.Record)) {
	var r history.Record
	for seq := int64(1); seq <= a.call.Emitted; seq++ {
		fate := history.FateAccepted
		if len(a.fates) > 0 {
			if f, ok := a.fates[seq]; ok {
				fate = f
			}
		}
		r.Kind = history.KindLedgerMessage
		r.Ledger = history.Ledger{Seq: seq, Hash: binary.BigEndian.Uint64(a.hashes[8*(seq-1):]), Fate: fate}
		observe(&r)
	}
	c := a.call
	r.Kind = history.KindLedgerCall
	r.Ledger = history.Ledger{
		Known: c.Known, Emitted: c.Emitted, Executions: c.Executions, Responses: c.Responses, Answers: c.Answers, Cancelled: c.Cancelled,
	}
	observe(&r)
}
