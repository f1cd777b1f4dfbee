package probe

import (
	"context"
	"time"
)

// umcpArgs stream 5 messages over half a second, which the tool of the reference server is
// asked for: whatever is called is waited for to its end.
const umcpArgs = `{"messages":5,"interval_ms":100}`

// sessionStream looks where the messages of a call come if not with its answer: in the
// dialect umcp they have the event stream of the session.
func sessionStream(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	get, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	defer get.close()
	if !get.sse {
		return absentError("there is no such stream: " + get.short())
	}
	args := ""
	if x.tool.emit && string(x.tool.args) == emitArgs {
		args = umcpArgs
	}
	c, err := x.call(ctx, s, args)
	if err != nil {
		return err
	}
	defer c.close()
	defer x.account(c.stream, get)
	if c.sse {
		return absentError("the call is answered with an event stream of its own")
	}
	get.drain(x.Quiet, time.Now().Add(4*x.Quiet))
	came := get.count(func(e event) bool { return e.message() && e.token == c.token })
	switch ids := get.count(func(e event) bool { return e.hasID }); {
	case came == 0:
		x.sheet.set("umcp-stream", NotOffered, "the call is answered with JSON, and none of its messages comes on the GET stream")
	case ids > 0:
		x.sheet.set("umcp-stream", NotOffered, "%s on the GET stream, where events have ids", several(came, "message"))
	default:
		x.sheet.set("umcp-stream", Conforming, "%s on the GET stream, without ids; the response as JSON on the POST", several(came, "message"))
	}
	return nil
}

// dialects are those in which the rows found the server to speak; see --dialect of
// gapless run.
func dialects(rows []Row) []string {
	found := map[string]Status{}
	for _, r := range rows {
		found[r.Name] = r.Status
	}
	all := []string{}
	for _, d := range []struct{ name, row string }{
		{"resume", "resume"}, {"streams", "draft-create"}, {"umcp", "umcp-stream"}, {"modern", "modern-discover"},
	} {
		if found[d.row] == Conforming {
			all = append(all, d.name)
		}
	}
	return all
}
