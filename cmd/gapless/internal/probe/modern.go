package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// modern asks a server of 2026-07-28 on its own wire, if it is one.
func modern(ctx context.Context, x *run) error {
	s, err := x.c.Initialize(ctx, client.Modern)
	var status *client.StatusError
	var rpc *client.RPCError
	switch {
	case errors.As(err, &status), errors.As(err, &rpc):
		return x.undiscovered(ctx)
	case limited(err):
		return err
	case err != nil:
		return absentError("server/discover: " + client.Words(err))
	}
	var result struct {
		Supported []string `json:"supportedVersions"`
		Type      string   `json:"resultType"`
	}
	_ = json.Unmarshal(s.Result(), &result) // then it is empty
	if !slices.Contains(result.Supported, client.Modern) {
		return absentError(fmt.Sprintf("server/discover is answered, but %s is not among its %s", client.Modern, several(len(result.Supported), "version")))
	}
	x.sheet.set("modern-discover", Conforming, "%s supported", several(len(result.Supported), "version"))
	x.sheet.yes("modern-result-type", result.Type != "", "%s", map[bool]string{true: "there", false: "missing"}[result.Type != ""])
	if err := x.modernSession(ctx, s); err != nil {
		return err
	}
	if err := x.modernErrors(ctx, s); err != nil {
		return err
	}
	return x.modernCall(ctx, s)
}

// undiscovered judges a server without server/discover.
func (x *run) undiscovered(ctx context.Context) error {
	speaks, err := x.speaksModern(ctx)
	if err != nil {
		return err
	}
	if !speaks {
		return absentError("the server does not speak it")
	}
	x.sheet.set("modern-discover", Deviating, "refused, and tools/list is answered as this revision wants it")
	return errors.New("server/discover is refused")
}

// speaksModern tells whether a request is answered as this revision wants it. The error
// says that the server limits the rate.
func (x *run) speaksModern(ctx context.Context) (bool, error) {
	raw, err := x.c.Unasked(client.Modern).Call(ctx, "tools/list", nil)
	var result struct {
		Type string `json:"resultType"`
	}
	if limited(err) {
		return false, err
	}
	return err == nil && json.Unmarshal(raw, &result) == nil && result.Type != "", nil
}

// modernSession asks for what this revision has not.
func (x *run) modernSession(ctx context.Context, s *client.Session) error {
	st, err := x.reply(ctx, s, "server/discover", nil, field("Mcp-Session-Id", "gapless-0123456789"))
	if err != nil {
		return err
	}
	x.sheet.yes("modern-no-session", st.a.Count("Mcp-Session-Id") == 0 && st.status == 200, "%s, %s in the answer", st.short(),
		several(st.a.Count("Mcp-Session-Id"), "session header"))
	if st, err = x.reply(ctx, s, "server/discover", nil, field("Last-Event-ID", "gapless")); err != nil {
		return err
	}
	x.sheet.yes("modern-last-event-id", resultOf(st.response()) != nil, "%s", st.short())
	for row, method := range map[string]string{"modern-get": "GET", "modern-delete": "DELETE"} {
		st, err := x.send(ctx, client.Request{Method: method, Fields: append(s.Fields(), wire.Field{Name: "Content-Type"})})
		if err != nil {
			return err
		}
		st.close()
		if x.revision != "" {
			x.sheet.set(row, NotOffered, "%s: the server speaks older revisions too", kindWords(st))
			continue
		}
		x.sheet.yes(row, st.status == 405, "%s", kindWords(st))
	}
	st, err = x.requestAs(ctx, s, "", "notifications/gapless", nil)
	if err != nil {
		return err
	}
	st.close()
	x.sheet.yes("modern-notification", st.status == 202 || st.status/100 == 4, "%s", st.short())
	return nil
}

// modernErrors makes requests that must be refused in a way of their own.
func (x *run) modernErrors(ctx context.Context, s *client.Session) error {
	const version = `"io.modelcontextprotocol/protocolVersion":"` + client.Modern + `"`
	replace := func(from, to string) edit {
		return func(r *client.Request) { r.Body = bytes.Replace(r.Body, []byte(from), []byte(to), 1) }
	}
	other := `"io.modelcontextprotocol/protocolVersion":"` + farOff + `"`
	for _, q := range []struct {
		row, method string
		edits       []edit
		status      int
		code        int64
	}{
		{"modern-unknown-method", "gapless/no-such-method", nil, 404, -32601},
		{"modern-unknown-version", "server/discover", []edit{field("MCP-Protocol-Version", farOff), replace(version, other)}, 400, -32022},
		{"modern-header-mismatch", "server/discover", []edit{field("Mcp-Method", "tools/list")}, 400, -32020},
		{"modern-header-missing", "server/discover", []edit{field("Mcp-Method", "")}, 400, -32020},
		{"modern-meta-missing", "server/discover", []edit{replace(version+",", ""), replace(","+version, "")}, 400, -32602},
	} {
		st, err := x.reply(ctx, s, q.method, nil, q.edits...)
		if x.spared(err, q.row) {
			continue
		}
		if err != nil {
			return err
		}
		x.sheet.yes(q.row, st.status == q.status && st.code == q.code, "%s", st.short())
	}
	return nil
}

// modernCall cuts a call and looks at what there is of it afterwards.
func (x *run) modernCall(ctx context.Context, s *client.Session) error {
	x.sheet.rest([]string{"modern-silent-after-cut"}, Unsure, "nothing that is sent after a cut can be seen from outside")
	t := x.tool
	if x.revision == "" {
		var err error
		if t, err = x.discover(ctx, s); err != nil {
			return err
		}
	}
	if t.name == "" {
		return errors.New(t.why)
	}
	id := fmt.Sprint(x.ids.Add(1) + 100)
	st, err := x.requestAs(ctx, s, id, "tools/call", map[string]any{
		"name": t.name, "arguments": t.args, "_meta": map[string]any{"progressToken": "gapless-" + id},
	})
	if err != nil {
		return err
	}
	defer st.close()
	st.read(time.Now().Add(x.Quiet), event.response)
	x.account(st)
	if !st.sse {
		return absentError("the call is answered " + st.short())
	}
	n := st.count(func(e event) bool { return e.hasID })
	x.sheet.yes("modern-no-ids", n == 0, "%d of %s have an id", n, several(len(st.all), "event"))
	return nil
}
