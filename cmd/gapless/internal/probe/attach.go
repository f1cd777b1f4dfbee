package probe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
)

// overlap is how long two connections of one stream are read side by side.
const overlap = 700 * time.Millisecond

// resumeAttached resumes a call whose connection is alive and being read.
func resumeAttached(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	defer c.close()
	had := len(c.all)
	cursor := c.cursor()
	var reading guard.Group
	var enough atomic.Bool
	reading.Go(func() {
		for c.open() && c.response() == nil && !enough.Load() {
			c.read(time.Now().Add(overlap/10), event.response)
		}
	})
	st, err := x.get(ctx, s, cursor)
	if err == nil {
		defer st.close()
		st.read(time.Now().Add(overlap), event.response)
	}
	enough.Store(true)
	if err := errors.Join(err, reading.Wait()); err != nil {
		return err
	}
	x.account(c.stream, st)
	if r := c.response(); r != nil && c.began.Add(r.at).Before(st.began) {
		return errors.New("the call was over before the second connection was answered")
	}
	if !st.sse {
		x.sheet.set("attached", Open, "%s", st.short())
		x.sheet.set("one-consumer", Conforming, "the second connection is refused")
		return nil
	}
	// What was under way when the second connection was accepted may come on both.
	old := map[uint64]bool{}
	for _, e := range c.all[had:] {
		old[e.hash] = !e.empty && c.open() && c.began.Add(e.at).After(st.began.Add(st.head+overlap/5))
	}
	both := st.count(func(e event) bool { return !e.empty && old[e.hash] })
	fresh, more := len(carried(c.all[had:])), len(st.carried())
	switch {
	case c.ended != nil:
		x.sheet.set("attached", Open, "200, takes over: the first connection ends (%s)", endWords(c.ended))
	case both > 0:
		x.sheet.set("attached", Open, "200, both connections go on")
	case more > 0:
		x.sheet.set("attached", Open, "200, takes over: the first connection stays open, silent")
	default:
		x.sheet.set("attached", Open, "200, nothing comes on the second connection")
	}
	switch {
	case both > 0:
		x.sheet.set("one-consumer", Deviating, "%s came on both", several(both, "message"))
	case fresh+more == 0:
		x.sheet.set("one-consumer", Unsure, "nothing came meanwhile")
	default:
		x.sheet.set("one-consumer", Conforming, "%d on the first connection, %d on the second", fresh, more)
	}
	return nil
}

// silence is how long a peer reads nothing before it comes back.
func (x *run) silence() time.Duration { return x.Quiet * 2 / 3 }

// goSilent leaves the link of a call open, reads it no more, and resumes on another.
func goSilent(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	defer c.close()
	if !pause(ctx, x.silence()) {
		return ctx.Err()
	}
	r, err := x.resume(ctx, s, c.cursor())
	if err != nil {
		return err
	}
	defer r.close()
	x.window("half-open", r)
	if r.sse {
		r.read(time.Now().Add(firstWithin), event.response)
	}
	x.account(c.stream, r.stream)
	switch {
	case r.status == 409:
		return x.stillHeld(ctx, c)
	case !r.sse:
		return errors.New("the resume was refused: " + r.short())
	case r.response() != nil:
		x.sheet.set("stalled-resume", Conforming, "resumed after %s, and the response came", took(x.silence()+r.waited))
	default:
		x.sheet.set("stalled-resume", Deviating, "resumed, but the response never came: %s", r.short())
	}
	return nil
}

// stillHeld asks again when the call is over: nothing is left to be written to the silent
// connection.
func (x *run) stillHeld(ctx context.Context, c *call) error {
	k, err := x.known(ctx)
	if err != nil {
		return err
	}
	if !pause(ctx, k.took-time.Since(c.began)+x.silence()) {
		return ctx.Err()
	}
	st, err := x.get(ctx, c.s, c.cursor())
	if err != nil {
		return err
	}
	defer st.close()
	if st.status == 409 {
		x.sheet.set("stalled-resume", Deviating, "409 even when the call was over")
		return nil
	}
	x.sheet.set("stalled-resume", Conforming, "409 until the call was over, then %s", st.short())
	return nil
}

// cancelCall cancels a call that runs.
func cancelCall(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.streaming(ctx, s, "")
	if err != nil {
		return err
	}
	defer c.close()
	st, err := x.requestAs(ctx, s, "", "notifications/cancelled", map[string]any{"requestId": rawID(c.id), "reason": "gapless probe"})
	if err != nil {
		return err
	}
	st.close()
	had, at := len(c.all), time.Since(c.began)
	k, err := x.known(ctx)
	switch {
	case err != nil:
		x.account(c.stream)
		return err
	case at > k.took-x.Quiet/3:
		x.account(c.stream)
		return errors.New("the call was all but over when the cancellation was taken")
	}
	c.read(c.began.Add(k.took+x.Quiet), event.response)
	c.drain(x.Quiet/3, time.Now().Add(x.Quiet))
	x.account(c.stream)
	all, more, r := c.count(event.message), count(c.all[had:], event.message), c.response()
	seen := fmt.Sprintf("%d, then %s", st.status, several(more, "message"))
	switch {
	case r != nil && r.kind == kindResult:
		x.sheet.set("cancel", Deviating, "%s and the result", seen)
	case more > 0 && all >= count(k.all, event.message):
		x.sheet.set("cancel", Deviating, "%s: it went on to its end", seen)
	case r != nil:
		x.sheet.set("cancel", Conforming, "%s, error %d", seen, errorCode(r.data))
	default:
		x.sheet.set("cancel", Conforming, "%s, no response, the stream %s", seen, map[bool]string{true: "stays open", false: "ends"}[c.open()])
	}
	return nil
}

// reuseID makes a request under the id of a call that runs.
func reuseID(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.streaming(ctx, s, "")
	if err != nil {
		return err
	}
	defer c.close()
	st, err := x.requestAs(ctx, s, c.id, "ping", nil)
	if err != nil {
		return err
	}
	defer st.close()
	st.read(time.Now().Add(x.Quiet), event.response)
	c.read(time.Now().Add(firstWithin), event.response)
	x.account(c.stream)
	if st.a.Waited > 0 {
		return errors.New("the server limits the rate, so that the call may have been over")
	}
	fate := "the call goes on to its response"
	switch r := c.response(); {
	case r == nil && c.open():
		fate = "the call is not answered"
	case r == nil:
		fate = "the call's stream " + endWords(c.ended)
	case emptyObject(resultOf(r)):
		fate = "the call gets the other's answer"
	}
	x.sheet.set("duplicate-id", Open, "%s; %s", st.short(), fate)
	return nil
}
