package probe

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// elsewhere is a host that cannot exist (RFC 6761 §6.4).
const elsewhere = "gapless.invalid"

// basics asks what every server must answer.
func basics(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.reply(ctx, s, "ping", nil)
	if err != nil {
		return err
	}
	x.sheet.yes("ping", emptyObject(resultOf(st.response())), "%s, after %s", st.short(), took(st.head))
	if st, err = x.reply(ctx, s, "tools/list", nil); err != nil {
		return err
	}
	x.sheet.yes("request-answer", st.status == 200 && (st.sse || st.json) && st.response() != nil, "%s", answered(st))
	st, err = x.requestAs(ctx, s, `"gapless-id"`, "ping", nil)
	if err != nil {
		return err
	}
	st.read(st.began.Add(x.Quiet), event.response)
	st.close()
	if r := st.response(); r == nil {
		x.sheet.set("response-id", Deviating, "no response to a request whose id is a string: %s", st.short())
	} else {
		x.sheet.yes("response-id", r.rpcID == `"gapless-id"`, "a string comes back as %s", idWords(r.rpcID))
	}
	if err := x.errorRows(ctx, s); err != nil {
		return err
	}
	return x.bodies(ctx, s)
}

func idWords(id string) string {
	switch {
	case id == `"gapless-id"`:
		return "it was"
	case id == "":
		return "null"
	}
	return "another id"
}

func answered(st *stream) string {
	text := kindOf(st)
	if st.response() == nil {
		text += ", no response in it"
	}
	return text
}

// errorRows ask for what does not exist.
func (x *run) errorRows(ctx context.Context, s *client.Session) error {
	st, err := x.reply(ctx, s, "gapless/no-such-method", nil)
	if err != nil {
		return err
	}
	r := st.response()
	x.sheet.yes("unknown-method", r != nil && errorCode(r.data) == -32601, "%s", st.short())
	if st, err = x.reply(ctx, s, "tools/call", map[string]any{"name": "gapless-no-such-tool", "arguments": map[string]any{}}); err != nil {
		return err
	}
	r = st.response()
	switch {
	case r == nil:
		x.sheet.set("unknown-tool", Deviating, "no response: %s", st.short())
	case bytes.Contains(bytes.ReplaceAll(r.data, []byte(" "), nil), []byte(`"isError":true`)):
		x.sheet.set("unknown-tool", Conforming, "%d, a result with isError", st.status)
	default:
		x.sheet.yes("unknown-tool", errorCode(r.data) != 0, "%s", st.short())
	}
	return nil
}

// bodies post what is no request.
func (x *run) bodies(ctx context.Context, s *client.Session) error {
	st, err := x.reply(ctx, s, "ping", nil, body(`{"jsonrpc":"2.0","id":987654321,"result":{}}`))
	if err != nil {
		return err
	}
	x.sheet.yes("response-202", st.status == 202 && st.size == 0 || st.status/100 == 4, "%s", st.short())
	if st, err = x.reply(ctx, s, "ping", nil, body(`{"jsonrpc":`)); err != nil {
		return err
	}
	x.sheet.yes("malformed-body", st.status/100 == 4 || st.status == 200 && st.code != 0, "%s", st.short())
	return nil
}

// headers asks with headers that are wrong or missing.
func headers(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		row  string
		edit edit
	}{
		{"accept-post", field("Accept", "application/json")},
		{"content-type", field("Content-Type", "text/plain")},
		{"cursor-on-post", field("Last-Event-ID", "gapless")},
		{"version-other", field("MCP-Protocol-Version", other(s.Revision()))},
	} {
		st, err := x.reply(ctx, s, "ping", nil, q.edit)
		if x.spared(err, q.row) {
			continue
		}
		if err != nil {
			return err
		}
		x.sheet.set(q.row, Open, "%s", st.short())
	}
	st, err := x.get(ctx, s, "", field("Accept", "application/json"))
	if err != nil {
		return err
	}
	st.close()
	x.sheet.set("accept-get", Open, "%s", st.short())
	return x.versions(ctx, s)
}

func other(revision string) string {
	if revision == middle {
		return oldest
	}
	return middle
}

// versions asks with a revision that does not exist, and without one.
func (x *run) versions(ctx context.Context, s *client.Session) error {
	if s.Revision() < middle {
		x.sheet.rest([]string{"version-bad", "version-absent"}, NotOffered, "%s has no such header", s.Revision())
		return nil
	}
	st, err := x.reply(ctx, s, "ping", nil, field("MCP-Protocol-Version", never))
	if err != nil {
		return err
	}
	x.sheet.yes("version-bad", st.status == 400, "%s", st.short())
	if st, err = x.reply(ctx, s, "ping", nil, field("MCP-Protocol-Version", "")); err != nil {
		return err
	}
	x.sheet.yes("version-absent", resultOf(st.response()) != nil, "%s", st.short())
	return nil
}

// sessionHeader asks without a session id and with one that was never given.
func sessionHeader(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	st.close()
	x.sheet.yes("get-answer", st.sse || st.status == 405, "%s", kindWords(st))
	if !x.sessions {
		return absentError("no session ids")
	}
	if st, err = x.reply(ctx, s, "ping", nil, field("Mcp-Session-Id", "")); err != nil {
		return err
	}
	served := resultOf(st.response()) != nil
	x.sheet.yes("session-missing", st.status == 400 || served, "%s", st.short())
	if st, err = x.reply(ctx, s, "ping", nil, field("Mcp-Session-Id", mutate(s.ID()))); err != nil {
		return err
	}
	x.sheet.yes("session-unknown", st.status == 404, "%s", st.short())
	if st, err = x.get(ctx, s, "", field("Mcp-Session-Id", "")); err != nil {
		return err
	}
	st.close()
	x.sheet.yes("get-without-session", st.status == 400 || st.status == 405, "%s", kindWords(st))
	return nil
}

// kindWords says what a GET was answered.
func kindWords(st *stream) string {
	if st.sse {
		return "200, an event stream"
	}
	return st.short()
}

// mutate changes each letter and digit of an id into another of its kind.
func mutate(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case '0' <= r && r <= '9':
			return '0' + (r-'0'+3)%10
		case 'a' <= r && r <= 'f':
			return 'a' + (r-'a'+3)%6
		case 'g' <= r && r <= 'z':
			return 'g' + (r-'g'+3)%20
		case 'A' <= r && r <= 'F':
			return 'A' + (r-'A'+3)%6
		case 'G' <= r && r <= 'Z':
			return 'G' + (r-'G'+3)%20
		}
		return r
	}, id)
}

// origins asks as a page of another site would.
func origins(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	foreign, host := field("Origin", "http://"+elsewhere), func(r *client.Request) { r.Host = elsewhere }
	st, err := x.reply(ctx, s, "ping", nil, foreign)
	if err != nil {
		return err
	}
	if s.Revision() >= newest {
		x.sheet.yes("origin-foreign", st.status == 403, "%s", st.short())
	} else {
		x.sheet.yes("origin-foreign", st.status/100 == 4, "%s; 403 is demanded since %s", st.short(), newest)
	}
	if st, err = x.reply(ctx, s, "ping", nil, foreign, host); err != nil {
		return err
	}
	x.sheet.yes("origin-rebound", st.status/100 == 4, "%s", st.short())
	if st, err = x.reply(ctx, s, "ping", nil, field("Origin", "http://"+x.c.Host())); err != nil {
		return err
	}
	x.sheet.set("origin-own", Open, "%s", st.short())
	if st, err = x.reply(ctx, s, "ping", nil, host); err != nil {
		return err
	}
	x.sheet.set("host-foreign", Open, "%s", st.short())
	return nil
}

// batches posts arrays of messages.
func batches(ctx context.Context, x *run) error {
	for _, revision := range []string{newest, middle, oldest} {
		s, err := x.session(ctx, revision)
		if err != nil {
			return err
		}
		if s.Revision() != revision {
			x.sheet.rest([]string{"batch-" + revision}, NotOffered, "the server does not speak %s", revision)
			continue
		}
		a, b := x.ids.Add(1)+100, x.ids.Add(1)+100
		st, err := x.request(ctx, s, "ping", nil, body(fmt.Sprintf(
			`[{"jsonrpc":"2.0","id":%d,"method":"ping"},{"jsonrpc":"2.0","id":%d,"method":"ping"}]`, a, b)))
		if err != nil {
			return err
		}
		st.drain(x.Quiet/2, st.began.Add(x.Quiet))
		st.close()
		once := func(id int64) bool {
			return st.count(func(e event) bool { return e.response() && e.rpcID == fmt.Sprint(id) }) == 1
		}
		n := st.count(event.response)
		if st.status == 200 {
			x.sheet.yes("batch-"+revision, once(a) && once(b) && n == 2, "accepted: 200, %s", several(n, "answer"))
		} else {
			x.sheet.yes("batch-"+revision, false, "%s", st.short())
		}
		if revision == oldest {
			if err := x.otherBatches(ctx, s); err != nil {
				return err
			}
		}
	}
	return absentError("the server does not speak " + oldest)
}

// unheeded is a notification that every server must take and need not heed.
const unheeded = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"gapless-none"}}`

func (x *run) otherBatches(ctx context.Context, s *client.Session) error {
	st, err := x.reply(ctx, s, "ping", nil, body(`[`+unheeded+`,`+unheeded+`]`))
	if err != nil {
		return err
	}
	x.sheet.yes("batch-notifications", st.status == 202 && st.size == 0, "%s", st.short())
	initialize := fmt.Sprintf(`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"gapless","version":"1"}}}]`, oldest)
	st, err = x.reply(ctx, s, "initialize", nil, body(initialize), field("Mcp-Session-Id", ""))
	if err != nil {
		return err
	}
	x.sheet.yes("batch-initialize", resultOf(st.response()) == nil, "%s", st.short())
	return nil
}
