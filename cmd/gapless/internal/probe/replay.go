package probe

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
)

// finishedCall asks in every way for what follows a place of a call that is over.
func finishedCall(ctx context.Context, x *run) error {
	k, done, err := x.replaying(ctx)
	if err != nil {
		return err
	}
	defer done()
	var ids []int // places of events with an id
	for i, e := range k.all {
		if e.hasID && e.id != "" {
			ids = append(ids, i)
		}
	}
	if len(ids) == 0 {
		return absentError("events have no ids")
	}
	mid := ids[len(ids)/3]
	want := carried(k.all[mid+1:])
	r, err := x.resume(ctx, k.s, k.all[mid].id)
	if err != nil {
		return err
	}
	r.drain(x.Quiet, time.Now().Add(firstWithin))
	r.close()
	x.againRows(ctx, k, k.all[mid].id, want, r)
	if err := x.finalRow(ctx, k, k.all[ids[len(ids)-1]].id); err != nil {
		return err
	}
	return x.strangeCursors(ctx, k, k.all[mid].id)
}

// againRows judge the replay of a finished call.
func (x *run) againRows(ctx context.Context, k *control, cursor string, want []event, r *resumed) {
	got := r.carried()
	same := slices.EqualFunc(got, want, func(a, b event) bool { return a.hash == b.hash })
	switch {
	case !r.sse:
		x.sheet.rest([]string{"resume-after-response", "resume-ends", "resume-idempotent", "ids-stable"}, NotOffered, "refused: %s", r.short())
		return
	case same:
		x.sheet.set("resume-after-response", Conforming, "%s, with the response", several(len(got), "message"))
	default:
		x.sheet.set("resume-after-response", Deviating, "%d of %s, response: %s", len(got)-lacking(want, got), several(len(want), "message"), yesNo(r.response() != nil))
	}
	switch {
	case r.response() == nil:
		x.sheet.set("resume-ends", Unsure, "no response was replayed")
	case r.ended == io.EOF:
		x.sheet.set("resume-ends", Conforming, "ends")
	default:
		x.sheet.set("resume-ends", Deviating, "%s after the response", map[bool]string{true: "left open", false: "no clean end"}[r.open()])
	}
	hashes := map[string]uint64{}
	for _, e := range want {
		hashes[e.id] = e.hash
	}
	changed, compared := 0, 0
	for _, e := range got {
		old, ok := hashes[e.id]
		compared += b2i(e.hasID && ok)
		changed += b2i(e.hasID && ok && old != e.hash)
	}
	if compared > 0 {
		x.sheet.yes("ids-stable", changed == 0, "%d of %d carry another message", changed, compared)
	} else {
		x.sheet.set("ids-stable", Unsure, "no id of the call came again")
	}
	again, err := x.resume(ctx, k.s, cursor)
	if err != nil {
		x.spared(err, "resume-idempotent")
		return
	}
	defer again.close()
	again.drain(x.Quiet, time.Now().Add(firstWithin))
	x.sheet.yes("resume-idempotent", slices.EqualFunc(got, again.carried(), func(a, b event) bool { return a.hash == b.hash }),
		"first %s, then %d", several(len(got), "message"), len(again.carried()))
}

// finalRow asks for what follows the last id of a finished call.
func (x *run) finalRow(ctx context.Context, k *control, id string) error {
	r, err := x.resume(ctx, k.s, id)
	if err != nil {
		return err
	}
	defer r.close()
	r.drain(x.Quiet, time.Now().Add(2*x.Quiet))
	seen := strings.Replace(r.short(), "stays open", "left open", 1)
	x.sheet.yes("resume-final", len(r.carried()) == 0 && r.ended == io.EOF && r.status < 500 && r.status != 404, "%s", seen)
	return nil
}
