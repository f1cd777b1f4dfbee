package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// A handshake is what initialize was answered.
type handshake struct {
	st       *stream
	revision string // "" if it was refused
	id       string
	hasID    bool
}

// initialize asks for a revision and says nothing of the answer.
func (x *run) initialize(ctx context.Context, revision string) (handshake, error) {
	return x.initializeWith(ctx, revision, map[string]any{})
}

// initializeWith does so as a client of some capabilities.
func (x *run) initializeWith(ctx context.Context, revision string, capabilities map[string]any) (handshake, error) {
	params, err := json.Marshal(map[string]any{
		"protocolVersion": revision, "capabilities": capabilities,
		"clientInfo": map[string]any{"name": "gapless", "version": client.Version},
	})
	if err != nil {
		return handshake{}, err
	}
	st, err := x.send(ctx, client.Request{
		Fields: []wire.Field{{Name: "Accept", Value: "application/json, text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
		Body:   fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}`, params),
	})
	if err != nil {
		return handshake{}, err
	}
	defer st.close()
	st.read(st.began.Add(x.Client.Timeout), event.response)
	h := handshake{st: st, id: st.a.Get("Mcp-Session-Id"), hasID: st.a.Count("Mcp-Session-Id") > 0}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(resultOf(st.response()), &result) == nil {
		h.revision = result.ProtocolVersion
	}
	return h, nil
}

// fields are the headers of a request of the session.
func (h handshake) fields() []wire.Field {
	return []wire.Field{
		{Name: "Accept", Value: "application/json, text/event-stream"}, {Name: "Content-Type", Value: "application/json"},
		{Name: "Mcp-Session-Id", Value: h.id}, {Name: "MCP-Protocol-Version", Value: h.revision},
	}
}

// handshakes asks for each revision and for one that does not exist.
func handshakes(ctx context.Context, x *run) error {
	var ids []string
	for _, revision := range []string{newest, middle, oldest, revision2024, client.Modern, never} {
		name := "revision-" + revision
		if revision == never {
			name = "revision-unknown"
		}
		h, err := x.initialize(ctx, revision)
		if x.spared(err, name) {
			continue
		}
		if err != nil {
			return err
		}
		x.negotiated(name, revision, h)
		if revision == newest && h.st.status == 200 {
			x.sheet.yes("initialize-answer", h.st.sse || h.st.json, "%s", kindOf(h.st))
		}
		if h.revision == "" {
			continue
		}
		if revision == newest {
			if err := x.initialized(ctx, h); err != nil {
				return err
			}
		}
		if h.hasID {
			ids = append(ids, h.id)
		}
		if h.id != "" && visible(h.id) {
			x.drop(ctx, h)
		}
	}
	x.judgeIDs(ids)
	return nil
}

// negotiated fills the row of one revision.
func (x *run) negotiated(row, asked string, h handshake) {
	real := asked != never && asked != client.Modern
	switch {
	case h.revision == "":
		x.sheet.set(row, Deviating, "refused: %s; it must answer a revision it speaks", h.st.short())
	case h.revision == asked && asked == never:
		x.sheet.set(row, Deviating, "it says that it speaks %s", never)
	case h.revision == asked && asked == client.Modern:
		x.sheet.set(row, Open, "served, with a handshake that this revision has not")
	case h.revision == asked:
		x.sheet.set(row, Conforming, "served")
	case real:
		x.sheet.set(row, NotOffered, "it answers %s", plain(h.revision))
	default:
		x.sheet.set(row, Conforming, "it answers %s", plain(h.revision))
	}
}

// initialized sends the notification that ends a handshake.
func (x *run) initialized(ctx context.Context, h handshake) error {
	st, err := x.send(ctx, client.Request{Fields: h.fields(), Body: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)})
	if err != nil {
		return err
	}
	defer st.close()
	seen := st.short()
	if st.size > 0 {
		seen += fmt.Sprintf(", a body of %d bytes", st.size)
	}
	x.sheet.yes("initialized-202", st.status == 202 && st.size == 0 && !st.sse, "%s", seen)
	return nil
}

// drop deletes the session of a handshake.
func (x *run) drop(ctx context.Context, h handshake) {
	st, err := x.send(ctx, client.Request{Method: "DELETE", Fields: h.fields()}, field("Content-Type", ""))
	if err == nil {
		st.close()
	}
	if err != nil || st.status/100 != 2 && st.status != 404 {
		x.leave("sessions of handshakes that the server did not delete")
	}
}

// guessable is how short an id is that can be guessed: 2^64 needs 11 characters of 64 kinds.
const guessable = 11

func (x *run) judgeIDs(ids []string) {
	if len(ids) == 0 {
		x.sheet.rest([]string{"session-id", "session-charset", "session-unique"}, NotOffered, "no session ids")
		return
	}
	x.sheet.set("session-id", Conforming, "%d characters", len(ids[0]))
	at := slices.IndexFunc(ids, func(id string) bool { return !visible(id) })
	if at >= 0 {
		x.sheet.set("session-charset", Deviating, "bytes outside 0x21 to 0x7E, or none at all")
	} else {
		x.sheet.set("session-charset", Conforming, "visible ASCII in %d of %d", len(ids), len(ids))
	}
	different := slices.Compact(slices.Sorted(slices.Values(ids)))
	switch {
	case len(ids) < 2:
		x.sheet.set("session-unique", Unsure, "only one id was given")
	case len(different) < len(ids):
		x.sheet.set("session-unique", Deviating, "%d handshakes, %s", len(ids), several(len(different), "different id"))
	case counting(ids):
		x.sheet.set("session-unique", Deviating, "ids are numbers that count up")
	case len(ids[0]) < guessable:
		x.sheet.set("session-unique", Deviating, "%d characters can be guessed", len(ids[0]))
	default:
		x.sheet.set("session-unique", Conforming, "%d handshakes, all different, %d characters", len(ids), len(ids[0]))
	}
}

// counting tells ids that are the same text before numbers that lie close together.
func counting(ids []string) bool {
	const close = 1000
	var last uint64
	for i, id := range ids {
		n := len(id)
		for n > 0 && '0' <= id[n-1] && id[n-1] <= '9' {
			n--
		}
		v, err := strconv.ParseUint(id[n:], 10, 64)
		if err != nil || len(id) < n || i > 0 && (id[:n] != ids[0][:min(n, len(ids[0]))] || max(v, last)-min(v, last) > close) {
			return false
		}
		last = v
	}
	return true
}

func kindOf(st *stream) string {
	switch {
	case st.sse:
		return fmt.Sprintf("%d, an event stream", st.status)
	case st.json:
		return fmt.Sprintf("%d, JSON", st.status)
	}
	return fmt.Sprintf("%d, neither JSON nor an event stream", st.status)
}

// plain makes a text of the server's fit a cell.
func plain(s string) string {
	out := make([]byte, 0, 48)
	for i := 0; i < len(s) && len(out) < cap(out); i++ {
		if s[i] >= ' ' && s[i] < 0x7f {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""` // no text fails to be written
	}
	return string(raw)
}
