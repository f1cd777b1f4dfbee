package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// watchGet opens an idle GET stream, a second one beside it, and watches both.
func watchGet(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	defer func() { st.close() }()
	if !st.sse {
		return absentError(st.short())
	}
	x.sheet.set("get-stream", Conforming, "200, the head after %s", took(st.head))
	primed := st.read(time.Now().Add(x.Quiet), func(event) bool { return true })
	switch {
	case primed && st.all[0].hasID && st.all[0].empty:
		x.sheet.set("get-priming", Open, "primed after %s", took(st.all[0].at))
	case primed:
		x.sheet.set("get-priming", Open, "a message comes first")
	case !st.open():
		return errors.New("the GET stream " + endWords(st.ended))
	default:
		x.sheet.set("get-priming", Open, "nothing comes")
	}
	second, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	defer func() { second.close() }()
	switch {
	case !second.sse:
		x.sheet.set("get-second", Open, "%s", second.short())
	case !st.next(time.Now().Add(x.Quiet/3)) && !st.open():
		x.sheet.set("get-second", Open, "200, replaces the first, which ends")
		st, second = second, st
	default:
		x.sheet.set("get-second", Open, "200, both stay open")
	}
	return x.watch(ctx, st)
}

// watch reads an idle stream until the others are done.
func (x *run) watch(ctx context.Context, st *stream) error {
	for st.open() && ctx.Err() == nil {
		st.drain(x.Quiet, time.Now().Add(x.Quiet/2))
		if time.Since(st.began) >= x.Watch {
			select {
			case <-x.asked:
				x.keepAlive(st)
				return nil
			default:
			}
		}
	}
	if ctx.Err() == nil || len(st.tap.comments) > 1 {
		x.keepAlive(st)
	}
	return nil
}

func (x *run) keepAlive(st *stream) {
	c := st.tap.comments
	watched := took(time.Since(st.began))
	switch {
	case !st.open():
		x.sheet.set("keep-alive", Open, "%s, the idle stream %s after %s", several(len(c), "comment"), endWords(st.ended), took(st.endAt))
	case len(c) == 0:
		x.sheet.set("keep-alive", NotOffered, "no comment in %s", watched)
	case len(c) == 1:
		x.sheet.set("keep-alive", Open, "1 comment in %s, after %s", watched, took(c[0].Sub(st.began)))
	default:
		x.sheet.set("keep-alive", Open, "%d comments, one every %s", len(c), took(c[len(c)-1].Sub(c[0])/time.Duration(len(c)-1)))
	}
}

// getArgs make emit send on the GET stream.
const getArgs = `{"messages":20,"interval_ms":60,"on":"get"}`

// resumeGet cuts a GET stream that messages come on, and resumes it.
func resumeGet(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	if !st.sse {
		return absentError("no GET stream: " + st.short())
	}
	args := ""
	if x.tool.emit {
		args = getArgs
	}
	c, err := x.call(ctx, s, args)
	if err != nil {
		st.close()
		return err
	}
	defer c.close()
	n := 0
	enough := st.read(time.Now().Add(firstWithin/2), func(e event) bool { n += b2i(e.message()); return n >= someMessages })
	st.reset()
	defer x.account(c.stream, st)
	switch {
	case !enough:
		c.read(time.Now().Add(firstWithin), event.response)
		return errors.New("nothing that was called makes it send on the GET stream")
	case st.cursor() == "":
		return absentError("events of the GET stream have no ids")
	}
	if !pause(ctx, x.Quiet/3) {
		return ctx.Err()
	}
	r, err := x.resume(ctx, s, st.cursor())
	if err != nil {
		return err
	}
	defer r.close()
	c.read(time.Now().Add(firstWithin), event.response)
	r.drain(x.Quiet, time.Now().Add(firstWithin))
	x.getRows(st, r)
	r.close()
	return x.reopen(ctx, s)
}

// getRows judge what came on a GET stream before and after its cut.
func (x *run) getRows(st *stream, r *resumed) {
	if !r.sse {
		x.sheet.rest([]string{"get-resume", "get-resume-no-loss"}, NotOffered, "refused: %s", r.short())
		return
	}
	after := r.carried()
	x.sheet.set("get-resume", Conforming, "200, %s behind the cursor", several(len(after), "message"))
	all := slices.Concat(st.carried(), after)
	missing, disorder := gaps(all, count(all, func(e event) bool { return e.counts }) > 0)
	ids := map[string]bool{}
	repeats := 0
	for _, e := range all {
		repeats += b2i(ids[e.id])
		ids[e.id] = e.hasID
	}
	switch {
	case len(after) == 0:
		x.sheet.set("get-resume-no-loss", Deviating, "nothing came that was sent meanwhile: %s", r.short())
	default:
		x.sheet.yes("get-resume-no-loss", missing+disorder+repeats == 0, "%d missing, %d repeated, %d out of order of %d", missing, repeats, disorder, len(all))
	}
}

// reopen opens a GET stream without a cursor where messages were sent before.
func (x *run) reopen(ctx context.Context, s *client.Session) error {
	began := time.Now()
	for {
		st, err := x.get(ctx, s, "")
		if err != nil {
			return err
		}
		if st.status == 409 && time.Since(began) < x.Quiet {
			st.close()
			if !pause(ctx, retryEvery) {
				return ctx.Err()
			}
			continue
		}
		st.drain(x.Quiet/3, time.Now().Add(x.Quiet))
		st.close()
		if n := len(st.carried()); n > 0 {
			x.sheet.set("get-reopen", Open, "200, the backlog: %s", several(n, "message"))
		} else {
			x.sheet.set("get-reopen", Open, "%s", fmt.Sprint(st.short()))
		}
		return nil
	}
}
