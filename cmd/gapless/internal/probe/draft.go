package probe

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// noMethod is the error of a server that has not the draft.
const noMethod = -32601

// draftUnknown asks for a stream that does not exist.
func draftUnknown(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	const id, token = "00000000-0000-4000-8000-000000000000", "gapless"
	for row, method := range map[string]string{"draft-unknown": "stream/resume", "draft-poll": "stream/poll"} {
		st, err := x.reply(ctx, s, method, map[string]any{
			"streamId": id, "resumeToken": token, "stream": map[string]any{"streamId": id, "resumeToken": token},
		})
		if err != nil {
			return err
		}
		r := st.response()
		switch {
		case r != nil && errorCode(r.data) == noMethod:
			x.sheet.set(row, NotOffered, "%s", st.short())
		case r == nil && st.status != 200:
			x.sheet.set(row, NotOffered, "%s", st.short())
		default:
			x.sheet.yes(row, r != nil && errorCode(r.data) != 0, "%s", st.short())
		}
	}
	return nil
}

// draftCreate calls the tool as a client that says it knows streams.
func draftCreate(ctx context.Context, x *run) error {
	h, err := x.initializeWith(ctx, middle, map[string]any{"streams": map[string]any{}})
	if err != nil {
		return err
	}
	if h.revision == "" {
		return absentError("initialize with streams is refused: " + h.st.short())
	}
	defer x.drop(ctx, h)
	if err := x.initialized(ctx, h); err != nil {
		return err
	}
	st, err := x.send(ctx, client.Request{Fields: h.fields(), Body: []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":` +
		quoted(x.tool.name) + `,"arguments":` + string(x.tool.args) + `,"_meta":{"progressToken":"gapless-draft"}}}`)})
	if err != nil {
		return err
	}
	defer st.close()
	created := func(e event) bool { return strings.HasSuffix(e.method, "stream/create") }
	n := 0
	st.read(time.Now().Add(firstWithin), func(e event) bool { n += b2i(e.message()); return created(e) || e.response() || n > someMessages })
	if st.count(created) == 0 {
		x.account(st)
		return absentError("no stream is announced")
	}
	x.sheet.set("draft-create", Conforming, "announced after %s", several(len(st.carried())-1, "message"))
	st.drain(x.Quiet, st.began.Add(callWithin))
	x.account(st)
	end := slices.IndexFunc(st.all, func(e event) bool { return strings.HasSuffix(e.method, "stream/end") })
	answer := slices.IndexFunc(st.all, event.response)
	switch {
	case end < 0:
		x.sheet.set("draft-end", Deviating, "it never came")
	default:
		x.sheet.yes("draft-end", answer >= 0 && answer < end && end == len(st.all)-1, "response as message %d, end as %d of %d", answer+1, end+1, len(st.all))
	}
	return nil
}
