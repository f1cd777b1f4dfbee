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

// ledgerBatch is the number of calls asked for in one request.
const ledgerBatch = 500

// A ledger asks the reference server what it emitted and executed.
type ledger struct {
	url    string
	client *http.Client
}

// ledgerAnswer is the reference server's account; see the ledger of package
// refserver for what each field means. Hashes are 8 big-endian bytes a message.
type ledgerAnswer struct {
	Calls []struct {
		Call       string  `json:"call"`
		Known      bool    `json:"known"`
		Emitted    int64   `json:"emitted"`
		Executions int32   `json:"executions"`
		Responses  int32   `json:"responses"`
		Cancelled  bool    `json:"cancelled"`
		Hashes     string  `json:"hashes"`
		Unstored   []int64 `json:"unstored"`
		Unknown    []int64 `json:"unknown"`
	} `json:"calls"`
	Dropped int64 `json:"dropped"`
}

// take returns, for each call, the records of the ledger in the order of
// history's contract: messages first, the call last. The server forgets the
// calls. dropped is the number of calls that its ledger could not hold so far.
func (l *ledger) take(ctx context.Context, calls []string) (records [][]history.Record, dropped int64, err error) {
	body, err := json.Marshal(map[string][]string{"calls": calls})
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/ledger/take", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ledger: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, 0, fmt.Errorf("ledger: status %d: %.200q", resp.StatusCode, said)
	}
	var answer ledgerAnswer
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, 0, fmt.Errorf("ledger: %w", err)
	}
	if len(answer.Calls) != len(calls) {
		return nil, 0, fmt.Errorf("ledger: asked for %d calls, got %d", len(calls), len(answer.Calls))
	}
	records = make([][]history.Record, len(calls))
	for i := range answer.Calls {
		if records[i], err = answer.records(i); err != nil {
			return nil, 0, err
		}
	}
	return records, answer.Dropped, nil
}

func (a *ledgerAnswer) records(i int) ([]history.Record, error) {
	c := &a.Calls[i]
	hashes, err := base64.StdEncoding.DecodeString(c.Hashes)
	if err != nil || int64(len(hashes)) != 8*c.Emitted {
		return nil, fmt.Errorf("ledger: %d messages but %d bytes of hashes (%v)", c.Emitted, len(hashes), err)
	}
	records := make([]history.Record, c.Emitted, c.Emitted+1)
	for k := range records {
		records[k] = history.Record{Kind: history.KindLedgerMessage, Ledger: history.Ledger{
			Seq: int64(k) + 1, Hash: binary.BigEndian.Uint64(hashes[8*k:]), Fate: history.FateAccepted,
		}}
	}
	for fate, seqs := range map[history.Fate][]int64{history.FateUnstored: c.Unstored, history.FateUnknown: c.Unknown} {
		for _, seq := range seqs {
			if seq < 1 || seq > c.Emitted {
				return nil, fmt.Errorf("ledger: message %d of %d", seq, c.Emitted)
			}
			records[seq-1].Ledger.Fate = fate
		}
	}
	return append(records, history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{
		Known: c.Known, Emitted: c.Emitted, Executions: c.Executions, Responses: c.Responses, Cancelled: c.Cancelled,
	}}), nil
}
