package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// revision is the one that every server is asked to speak: the last one whose
// streams resume.
const revision = "2025-11-25"

// kind is a server to measure.
type kind struct {
	name   string // in tables, and to the child
	store  bool   // streams can be resumed
	hidden bool   // not a row of the table
	serve  func(net.Listener) error
	timed  *timed // of a server that times its appends
}

// Names that figures are compared with.
const (
	rawEach     = "raw, write per event"
	rawBatched  = "raw, batched"
	ours        = "gapless"
	oursHandoff = "gapless, handoff"
	goSDKStore  = "go-sdk, store"
)

// kinds lists all servers, in the order of the table.
func kinds() []kind {
	return slices.Concat([]kind{
		{name: rawEach, store: true, serve: raw{}.serve},
		{name: rawBatched, store: true, serve: raw{batch: 60 << 10}.serve},
	}, gaplessKinds(), []kind{
		{name: goSDKStore, store: true, serve: serveGoSDK(true)},
		{name: "go-sdk", serve: serveGoSDK(false)},
		{name: "mcp-go, store", store: true, serve: serveMCPGo(true, true)},
		{name: "mcp-go", serve: serveMCPGo(false, true)},
		{name: "mcp-go, errors ignored", serve: serveMCPGo(false, false)},
		{name: dropping, hidden: true, serve: raw{drop: 10}.serve},
	})
}

// dropping is a server that loses every tenth event: it shows that a table shows it.
const dropping = "drops events"

func kindOf(name string) (kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, usageError{fmt.Errorf("there is no server %q", name)}
}

// serveHTTP serves as the documentation of the peers shows it: net/http with its
// defaults, on loopback.
func serveHTTP(ln net.Listener, endpoint http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(ln)
}

// toolArgs are what the tool emit of every server understands. It sends messages
// progress notifications of so many bytes each, interval_ms apart, then a result.
type toolArgs struct {
	Messages   int     `json:"messages"`
	IntervalMS float64 `json:"interval_ms"`
	Bytes      int     `json:"bytes"`
	// Ahead is how many of them come at once before the pace begins.
	Ahead int `json:"ahead,omitempty"`
}

const toolSchema = `{"type":"object","properties":{"messages":{"type":"integer"},"interval_ms":{"type":"number"},"bytes":{"type":"integer"},"ahead":{"type":"integer"}}}`

func parseArgs(text []byte) (toolArgs, error) {
	var a toolArgs
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("arguments of emit: %w", err)
	}
	if a.Messages < 0 || a.Bytes < 0 || a.IntervalMS < 0 {
		return a, errors.New("arguments of emit are negative")
	}
	return a, nil
}

// paced calls send with 1 to Messages, at instants counted from the first call.
func (a toolArgs) paced(ctx context.Context, send func(k int) error) error {
	interval := time.Duration(a.IntervalMS * float64(time.Millisecond))
	var timer *time.Timer
	begun := time.Now()
	for k := 1; k <= a.Messages; k++ {
		if interval > 0 && k > a.Ahead+1 {
			wait := time.Until(begun.Add(time.Duration(k-1-a.Ahead) * interval))
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			} else {
				timer.Reset(wait)
			}
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := send(k); err != nil {
			return err
		}
	}
	return nil
}

// filler is what makes a message of a peer as long as it should be, less what its
// fields take.
func (a toolArgs) filler() string {
	const fields = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"","progress":1000,"progressToken":"b1","total":1000}}`
	return strings.Repeat("x", max(a.Bytes-len(fields), 0))
}
