package probe

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// waitForExpiry asks in the end for a session that was left alone.
func waitForExpiry(ctx context.Context, x *run) error {
	if !x.sessions {
		return absentError("no session ids")
	}
	if err := x.wait(ctx); err != nil {
		return err
	}
	idle := took(time.Since(x.began))
	st, err := x.reply(ctx, x.idle, "ping", nil)
	if err != nil {
		return err
	}
	if st.status == 404 {
		x.sheet.set("session-expiry", Conforming, "404 after at most %s without a request", idle)
		return nil
	}
	x.sheet.set("session-expiry", Unsure, "still answered after %s: %s", idle, st.short())
	return nil
}

// wait waits until nothing else is asked any more.
func (x *run) wait(ctx context.Context) error {
	select {
	case <-x.asked:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !pause(ctx, x.Watch-time.Since(x.began)) {
		return ctx.Err()
	}
	return nil
}

// waitForRetention asks in the end for the control call, which is long over.
func waitForRetention(ctx context.Context, x *run) error {
	k, err := x.known(ctx)
	if err != nil {
		return err
	}
	if err := x.wait(ctx); err != nil {
		return err
	}
	for _, e := range k.all {
		if !e.hasID {
			continue
		}
		age := took(time.Since(k.done))
		r, err := x.resume(ctx, k.s, e.id)
		if err != nil {
			return err
		}
		defer r.close()
		r.read(time.Now().Add(x.Quiet), event.response)
		if r.response() != nil {
			x.sheet.set("retention-time", Open, "still replayed %s after the response", age)
		} else {
			x.sheet.set("retention-time", Open, "%s after the response: %s", age, r.short())
		}
		return nil
	}
	return absentError("events have no ids")
}

// deleteSession ends a session and asks for it.
func deleteSession(ctx context.Context, x *run) error {
	if !x.sessions {
		return absentError("no session ids")
	}
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.send(ctx, deleting(s), field("Mcp-Session-Id", mutate(s.ID())))
	if err != nil {
		return err
	}
	st.close()
	x.sheet.set("delete-unknown", Open, "%s", st.short())
	if st, err = x.send(ctx, deleting(s)); err != nil {
		return err
	}
	st.close()
	switch {
	case st.status == 405:
		x.sheet.set("delete", NotOffered, "405")
		return absentError("DELETE is answered 405")
	case st.status/100 != 2:
		x.sheet.set("delete", NotOffered, "%s", st.short())
	default:
		x.sheet.set("delete", Conforming, "%s", st.short())
		x.forget(s)
	}
	if st, err = x.reply(ctx, s, "ping", nil); err != nil {
		return err
	}
	x.sheet.yes("deleted-404", st.status == 404, "%s", st.short())
	return nil
}

func deleting(s *client.Session) client.Request {
	return client.Request{Method: "DELETE", Fields: append(s.Fields(), wire.Field{Name: "Content-Type"})}
}

// deleteWithStream ends a session while a call runs in it.
func deleteWithStream(ctx context.Context, x *run) error {
	if !x.sessions {
		return absentError("no session ids")
	}
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	defer c.close()
	st, err := x.send(ctx, deleting(s))
	if err != nil {
		return err
	}
	st.close()
	x.account(c.stream)
	if st.status/100 != 2 {
		return errors.New("DELETE is answered " + st.short())
	}
	at := time.Now()
	c.drain(x.Quiet, at.Add(x.Quiet))
	switch {
	case c.response() != nil:
		x.sheet.set("delete-streams", Conforming, "the stream ends with a response")
	case c.open():
		x.sheet.set("delete-streams", NotOffered, "the stream stays open")
	case c.ended == io.EOF:
		x.sheet.set("delete-streams", Conforming, "the stream ends")
	default:
		x.sheet.set("delete-streams", Conforming, "the stream: %s", endWords(c.ended))
	}
	r, err := x.resume(ctx, s, c.cursor())
	if err != nil {
		return err
	}
	defer r.close()
	r.drain(x.Quiet/3, time.Now().Add(x.Quiet))
	x.sheet.yes("deleted-cursor", len(r.carried()) == 0, "%s", r.short())
	return nil
}
