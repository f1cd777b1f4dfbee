package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// How a resume that is refused with 409 is tried again.
const (
	retryEvery  = 20 * time.Millisecond
	retryWithin = 6 * time.Second
)

// A resumed is a connection that came behind a cut.
type resumed struct {
	*stream
	tries  int           // answers 409 before
	waited time.Duration // from the cut until it was accepted
	spared bool          // the server limited the rate meanwhile
}

// resume asks for what follows the cursor of a stream until it is not answered 409.
func (x *run) resume(ctx context.Context, s *client.Session, cursor string) (*resumed, error) {
	began, spared := time.Now(), false
	for tries := 0; ; tries++ {
		st, err := x.get(ctx, s, cursor)
		if err != nil {
			return nil, err
		}
		spared = spared || st.a.Waited > 0
		waited := time.Since(began)
		if st.status != 409 || waited > retryWithin {
			return &resumed{stream: st, tries: tries, waited: waited, spared: spared}, nil
		}
		st.close()
		if !pause(ctx, retryEvery) {
			return nil, ctx.Err()
		}
	}
}

// window says how long resumes were refused.
func (x *run) window(row string, r *resumed) {
	switch {
	case r.status == 409:
		x.sheet.set(row, Open, "409 for %s", took(retryWithin))
	case r.spared:
		x.sheet.set(row, Unsure, "the server limits the rate, and accepted the resume after %s", took(r.waited))
	case r.tries == 0:
		x.sheet.set(row, Open, "none: the first resume is accepted")
	default:
		x.sheet.set(row, Open, "409 for %s", took(r.waited))
	}
}

// cutAndResume runs two calls and a GET stream in one session, cuts both calls, one by RST
// and one by FIN, resumes them at once and compares what came with what must have been sent.
func cutAndResume(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	live, err := x.get(ctx, s, "")
	if err != nil {
		return err
	}
	defer live.close()
	a, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	b, err := x.begun(ctx, s, "")
	if err != nil {
		a.close()
		return err
	}
	a.reset()
	first, err := x.resume(ctx, s, a.cursor())
	if err != nil {
		b.close()
		return err
	}
	defer first.close()
	b.close()
	second, err := x.resume(ctx, s, b.cursor())
	if err != nil {
		return err
	}
	defer second.close()
	x.window("window-rst", first)
	x.window("window-fin", second)
	if !first.sse {
		x.account(a.stream)
		x.account(b.stream)
		if first.status == 405 {
			return absentError("GET is answered 405")
		}
		x.sheet.set("resume", NotOffered, "%s", first.short())
		return absentError("resumes are refused: " + first.short())
	}
	until := time.Now().Add(callWithin)
	for _, r := range []*resumed{first, second} {
		r.read(until, event.response)
		r.drain(x.Quiet/3, until)
	}
	if live.sse {
		live.drain(x.Quiet/3, until)
	}
	x.account(a.stream, first.stream)
	x.account(b.stream, second.stream)
	return x.compare(ctx, s, live, [2]*call{a, b}, [2]*resumed{first, second})
}

// compare judges what two calls have brought before and after their cuts.
func (x *run) compare(ctx context.Context, s *client.Session, live *stream, calls [2]*call, back [2]*resumed) error {
	k, err := x.known(ctx)
	if err != nil {
		k = &control{}
	}
	if s.ID() == "" && len(back[0].all) == 0 {
		return errors.New("nothing came on the resumed connection, and without sessions nobody can tell why")
	}
	x.sheet.set("resume", Conforming, "200, %s behind the cursor, with the response: %s",
		several(back[0].count(event.message), "message"), yesNo(back[0].response() != nil))
	if len(back[0].all) == 0 {
		x.sheet.set("resume", Deviating, "%s", back[0].short())
	}
	x.wholeRows(ctx, s, k, calls[0], back[0])
	x.ownRows(calls, back)
	if first := back[0].all; len(first) > 0 {
		primed := "the first event is a message"
		if first[0].empty {
			primed = "primed again"
		}
		x.sheet.set("resume-priming", Open, "%s", primed)
	}
	x.uniqueRow(live, calls, back)
	x.nameRow(calls)
	x.broadcastRows(live, calls, back)
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// carried returns the events that carry a message.
func carried(all []event) []event {
	var out []event
	for _, e := range all {
		if !e.empty {
			out = append(out, e)
		}
	}
	return out
}

// wholeRows compare a cut call with the numbers of its messages and with a replay of all of
// it.
func (x *run) wholeRows(ctx context.Context, s *client.Session, k *control, c *call, r *resumed) {
	before, after := carried(c.all), r.carried()
	seen := slices.Concat(before, after)
	full := x.replay(ctx, s, c.all)
	repeats := 0
	ids := map[string]bool{}
	for _, e := range before {
		ids[e.id] = e.hasID
	}
	for _, e := range after {
		repeats += b2i(e.hasID && ids[e.id])
		ids[e.id] = e.hasID
	}
	missing, disorder := gaps(seen, k.numbers)
	if len(full) > 0 {
		missing = max(missing, lacking(seen, full))
		disorder = max(disorder, misplaced(after, full))
	}
	x.sheet.yes("resume-no-repeat", repeats == 0, "%d of %s came again", repeats, several(len(after), "message"))
	switch {
	case r.response() == nil:
		x.sheet.set("resume-no-loss", Deviating, "the response never came: %s", r.short())
	case missing > 0:
		x.sheet.set("resume-no-loss", Deviating, "%s missing", several(missing, "message"))
	case !k.numbers && len(full) == 0:
		x.sheet.set("resume-no-loss", Unsure, "messages have no numbers and a replay of the whole call brings none")
	default:
		x.sheet.set("resume-no-loss", Conforming, "%s before the cut, %d after", several(len(before), "message"), len(after))
	}
	x.sheet.yes("resume-in-order", disorder == 0, "%s out of order", several(disorder, "message"))
}

// replay asks for a whole call once more, behind its first id.
func (x *run) replay(ctx context.Context, s *client.Session, all []event) []event {
	at := slices.IndexFunc(all, func(e event) bool { return e.hasID })
	if at < 0 {
		return nil
	}
	r, err := x.resume(ctx, s, all[at].id)
	if err != nil {
		return nil
	}
	defer r.close()
	r.read(time.Now().Add(x.Quiet), event.response)
	if r.response() == nil {
		return nil
	}
	return r.carried()
}

// gaps counts the numbers of progress that are missing, and those that come too late.
func gaps(all []event, numbered bool) (missing, disorder int) {
	if !numbered {
		return 0, 0
	}
	seen := map[float64]bool{}
	most := 0.0
	for _, e := range all {
		if e.counts {
			disorder += b2i(e.progress < most && !seen[e.progress])
			seen[e.progress] = true
			most = max(most, e.progress)
		}
	}
	return max(0, int(most)-len(seen)), disorder
}

// lacking counts the messages of full that all has not.
func lacking(all, full []event) int {
	have := map[uint64]bool{}
	for _, e := range all {
		have[e.hash] = true
	}
	return count(full, func(e event) bool { return !have[e.hash] })
}

// misplaced counts the messages that come before one that full has earlier. Of equal
// messages any may have come, and one that comes again is no matter of order.
func misplaced(all, full []event) int {
	places := map[uint64][]int{}
	for i, e := range full {
		places[e.hash] = append(places[e.hash], i)
	}
	n, last := 0, -1
	for _, e := range all {
		of := places[e.hash]
		switch next, _ := slices.BinarySearch(of, last+1); {
		case next < len(of):
			last = of[next]
		case next > 0:
			n += b2i(of[next-1] != last)
		}
	}
	return n
}

// ownRows look for messages of one call on the resumed connection of the other.
func (x *run) ownRows(calls [2]*call, back [2]*resumed) {
	for i, name := range []string{"resume-own-stream", "cursor-other-stream"} {
		mine, other := calls[i], calls[1-i]
		ids := map[string]bool{}
		for _, e := range other.all {
			ids[e.id] = e.hasID
		}
		foreign := back[i].count(func(e event) bool {
			return e.counts && e.token != mine.token || e.response() && e.rpcID != mine.id || e.hasID && ids[e.id]
		})
		own := back[i].count(func(e event) bool { return e.response() && e.rpcID == mine.id || e.counts && e.token == mine.token })
		switch {
		case foreign > 0:
			x.sheet.set(name, Deviating, "%s of another stream", several(foreign, "message"))
		case own == 0:
			x.sheet.set(name, Unsure, "nothing came that says whose it is")
		default:
			x.sheet.set(name, Conforming, "none of another stream, %s of its own", several(own, "message"))
		}
	}
}

// uniqueRow looks for an id that stands for two messages of a session.
func (x *run) uniqueRow(live *stream, calls [2]*call, back [2]*resumed) {
	type place struct {
		stream int
		hash   uint64
	}
	seen := map[string]place{}
	n, twice := 0, 0
	for i, all := range [][]event{slices.Concat(calls[0].all, back[0].all), slices.Concat(calls[1].all, back[1].all), live.all} {
		for _, e := range all {
			if !e.hasID || e.id == "" {
				continue
			}
			old, ok := seen[e.id]
			if !ok {
				n++
				seen[e.id] = place{i, e.hash}
			}
			twice += b2i(ok && (old.stream != i || old.hash != e.hash && old.hash != 0 && e.hash != 0))
		}
	}
	x.sheet.yes("ids-unique", twice == 0, "%s, %d of them for more than one event", several(n, "id"), twice)
}

// nameRow looks for a part of the ids that all of a stream have and another stream has not.
func (x *run) nameRow(calls [2]*call) {
	var own [2]string
	for i, c := range calls {
		first := true
		for _, e := range c.all {
			if !e.hasID {
				continue
			}
			if first {
				own[i], first = e.id, false
			}
			own[i] = common(own[i], e.id)
		}
	}
	shared := common(own[0], own[1])
	if len(own[0]) > len(shared) && len(own[1]) > len(shared) {
		x.sheet.set("ids-name-stream", Conforming, "ids of a stream share %d characters that others lack", len(own[0])-len(shared))
		return
	}
	x.sheet.set("ids-name-stream", Unsure, "ids of a stream share nothing that others lack; the server may know all the same")
}

func common(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// broadcastRows compare the GET stream of the session with the streams of its calls.
func (x *run) broadcastRows(live *stream, calls [2]*call, back [2]*resumed) {
	if !live.sse {
		x.sheet.rest([]string{"response-not-on-get"}, NotOffered, "no GET stream: %s", live.short())
	} else {
		n := live.count(event.response)
		x.sheet.yes("response-not-on-get", n == 0, "%s on the GET stream", several(n, "response"))
	}
	on := map[uint64]int{}
	both := 0
	streams := [][]event{slices.Concat(calls[0].all, back[0].all), slices.Concat(calls[1].all, back[1].all), live.all}
	for i, all := range streams {
		for _, e := range all {
			if e.token == "" && e.rpcID == "" { // two calls may log the same words
				continue
			}
			at, ok := on[e.hash]
			both += b2i(ok && at != i+1)
			on[e.hash] = i + 1
		}
	}
	x.sheet.yes("one-stream-per-message", both == 0, "%s on two streams, of %d", several(both, "message"), len(on))
	if stray := live.count(func(e event) bool { return e.counts && (e.token == calls[0].token || e.token == calls[1].token) }); stray > 0 {
		x.sheet.set("progress-on-call", Deviating, "%s of calls on the GET stream", several(stray, "message"))
	}
}

// cutThrice cuts a call, its resumed connection, and the next before anything came on it.
func cutThrice(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	parts := []*stream{c.stream}
	defer func() { x.account(parts...) }()
	all, cursor := c.carried(), c.cursor()
	c.reset()
	for cuts := 1; cuts <= 3; cuts++ {
		if !pause(ctx, x.Quiet/5) { // so that there is something to replay
			return ctx.Err()
		}
		r, err := x.resume(ctx, s, cursor)
		if err != nil {
			return err
		}
		if parts = append(parts, r.stream); !r.sse {
			r.close()
			return fmt.Errorf("resume number %d was refused: %s", cuts, r.short())
		}
		switch cuts {
		case 1:
			r.read(time.Now().Add(x.Quiet), event.message)
		case 3:
			r.read(time.Now().Add(callWithin), event.response)
		}
		all, cursor = append(all, r.carried()...), r.cursor()
		r.reset()
	}
	x.thriceRow(ctx, all, parts[len(parts)-1])
	return nil
}

func (x *run) thriceRow(ctx context.Context, all []event, last *stream) {
	numbered := false
	if k, err := x.known(ctx); err == nil {
		numbered = k.numbers
	}
	missing, disorder := gaps(all, numbered)
	ids, repeats := map[string]bool{}, 0
	for _, e := range all {
		repeats += b2i(e.hasID && ids[e.id])
		ids[e.id] = e.hasID
	}
	if last.response() == nil {
		x.sheet.set("resume-thrice", Deviating, "no response after the third cut: %s", last.short())
		return
	}
	x.sheet.yes("resume-thrice", missing+disorder+repeats == 0, "%s: %d missing, %d repeated, %d out of order",
		several(len(all), "message"), missing, repeats, disorder)
}

// leaveAndReturn drops the link of a call, stays away until it would be over, and looks
// whether it ran on.
func leaveAndReturn(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.begun(ctx, s, "")
	if err != nil {
		return err
	}
	c.close()
	k, err := x.known(ctx)
	if err != nil {
		x.account(c.stream)
		return err
	}
	if !pause(ctx, k.took-time.Since(c.began)+x.Quiet/3) {
		return ctx.Err()
	}
	r, err := x.resume(ctx, s, c.cursor())
	if err != nil {
		return err
	}
	defer r.close()
	r.read(time.Now().Add(firstWithin), event.response)
	x.account(c.stream, r.stream)
	answer, more := r.response(), r.count(event.message)
	switch {
	case !r.sse:
		return errors.New("the resume was refused: " + r.short())
	case resultOf(answer) != nil:
		x.sheet.set("disconnect-no-cancel", Conforming, "it ran on: %s and its result came later", several(more, "message"))
	case answer != nil:
		x.sheet.set("disconnect-no-cancel", Deviating, "%s later, then error %d", several(more, "message"), errorCode(answer.data))
	default:
		x.sheet.set("disconnect-no-cancel", Deviating, "%s later and no response: %s", several(more, "message"), r.short())
	}
	return nil
}
