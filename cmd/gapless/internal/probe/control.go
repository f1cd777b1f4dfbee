package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// control is what one whole call without any cut has shown.
type control struct {
	s       *client.Session
	all     []event // over all its connections
	numbers bool    // progress counts 1, 2, 3 …
	took    time.Duration
	done    time.Time // when the response came
	early   []closed  // connections that the server ended before the response
}

// closed is a connection that ended before the response.
type closed struct {
	id    bool // it carried an id
	retry bool // a reconnection time was announced
}

// controlCall makes one call and reads it to its end. What needs to know of it is told
// why there is none.
func controlCall(ctx context.Context, x *run) error {
	err := x.oneCall(ctx)
	var none absentError
	if err != nil && !errors.As(err, &none) && ctx.Err() == nil {
		x.uncontrolled = err
	}
	return err
}

func (x *run) oneCall(ctx context.Context) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	c, err := x.call(ctx, s, "")
	if err != nil {
		return err
	}
	defer func() { c.close() }()
	if !c.sse {
		x.account(c.stream)
		if c.status == 200 && !c.json {
			x.sheet.set("stream-type", Deviating, "%s", kindOf(c.stream))
		}
		if c.response() == nil {
			return fmt.Errorf("the call was answered %s", c.short())
		}
		return absentError("the call is answered with JSON, not with a stream")
	}
	parts, err := x.follow(ctx, c, callWithin)
	x.account(parts...)
	if err != nil {
		return err
	}
	x.streamHeaders(c.stream)
	k := learn(s, parts)
	x.idRows(k)
	if err := c.complaint(); err != nil {
		return err
	}
	x.messageRows(c, k)
	x.delayRow(k)
	x.primingRow(c.stream, s.Revision())
	x.endRows(parts[len(parts)-1])
	if k.done.IsZero() {
		return fmt.Errorf("the call was not answered in %s", callWithin)
	}
	x.control = k
	return nil
}

// follow reads a call to its response and a little longer, over all its connections. The
// error says that the server limits the rate.
func (x *run) follow(ctx context.Context, c *call, within time.Duration) ([]*stream, error) {
	until := c.began.Add(within)
	parts := []*stream{c.stream}
	for st := c.stream; ; {
		st.read(until, event.response)
		if st.response() != nil {
			st.drain(x.Quiet, until)
			return parts, nil
		}
		if st.ended != io.EOF || st.cursor() == "" || len(parts) > 20 {
			return parts, nil
		}
		wait, _ := st.rd.Retry()
		if !pause(ctx, min(wait, 5*time.Second)) {
			return parts, nil
		}
		next, err := x.get(ctx, c.s, st.cursor())
		if limited(err) {
			return parts, err
		}
		if err != nil || !next.sse {
			return parts, nil
		}
		st.close()
		c.stream, st = next, next
		parts = append(parts, next)
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// learn makes the control of the connections of a call.
func learn(s *client.Session, parts []*stream) *control {
	k := &control{s: s, numbers: true}
	progress := 0.0
	for _, st := range parts {
		for _, e := range st.all {
			if e.counts {
				k.numbers = k.numbers && e.progress == progress+1
				progress = e.progress
			}
			if e.response() && k.done.IsZero() {
				k.done = st.began.Add(e.at)
				k.took = k.done.Sub(parts[0].began)
			}
		}
		k.all = append(k.all, st.all...)
		if st.response() == nil && st.ended == io.EOF {
			_, retry := st.rd.Retry()
			k.early = append(k.early, closed{id: st.rd.Committed() > 0, retry: retry})
		}
	}
	k.numbers = k.numbers && progress > 0
	return k
}

// replaying waits for what the control call has shown, and until nobody else resumes it.
// done lets the next one.
func (x *run) replaying(ctx context.Context) (k *control, done func(), err error) {
	if k, err = x.known(ctx); err != nil {
		return nil, nil, err
	}
	select {
	case x.replays <- struct{}{}:
		return k, func() { <-x.replays }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// known waits for what the control call has shown.
func (x *run) known(ctx context.Context) (*control, error) {
	select {
	case <-x.learned:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.uncontrolled != nil {
		return nil, x.uncontrolled
	}
	if x.control == nil {
		return nil, errors.New("no whole call was seen")
	}
	return x.control, nil
}

func (x *run) streamHeaders(st *stream) {
	a := st.a
	x.sheet.set("stream-type", Conforming, "%s", plain(a.Get("Content-Type")))
	for _, h := range []struct{ row, name string }{{"stream-cache", "Cache-Control"}, {"stream-buffering", "X-Accel-Buffering"}} {
		if v := a.Get(h.name); v != "" {
			x.sheet.set(h.row, Open, "%s", plain(v))
		} else {
			x.sheet.set(h.row, Open, "no such header")
		}
	}
	connection, framing := plain(a.Get("Connection")), "ended by the link"
	if connection == "" {
		connection = "kept"
	}
	if a.Get("Transfer-Encoding") != "" {
		framing = "chunked"
	}
	x.sheet.set("stream-connection", Open, "%s, %s", connection, framing)
	encoding := plain(a.Get("Content-Encoding"))
	if encoding == "" {
		encoding = "none"
	}
	x.sheet.yes("stream-encoding", encoding == "none" || strings.EqualFold(encoding, "identity"), "%s", encoding)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *run) primingRow(st *stream, revision string) {
	switch {
	case revision < newest:
		x.sheet.set("priming", NotOffered, "%s has none", revision)
	case len(st.all) == 0:
		x.sheet.set("priming", Deviating, "no event came")
	case st.all[0].hasID && st.all[0].empty:
		x.sheet.set("priming", Conforming, "after %s, event type %s", took(st.all[0].at), plain(st.all[0].typ))
	case st.all[0].empty:
		x.sheet.set("priming", Deviating, "the first event is empty and has no id")
	default:
		x.sheet.set("priming", Deviating, "the first event is a message")
	}
	if retry, ok := st.rd.Retry(); ok {
		x.sheet.set("retry", Conforming, "%s", took(retry))
	} else {
		x.sheet.set("retry", NotOffered, "none was announced")
	}
}

func (x *run) idRows(k *control) {
	with, safe, without := 0, 0, 0
	var illegal wire.Illegal
	for _, e := range k.all {
		switch {
		case e.hasID:
			with++
			safe += b2i(headerSafe(e.id) && e.id != "")
		case !e.empty:
			without++
		}
		illegal |= e.illegal
	}
	x.sheet.yes("frames", illegal&^wire.IllegalID == 0, "%s", frameWords(illegal, len(k.all)))
	if with == 0 {
		x.sheet.rest([]string{"ids", "ids-all", "ids-charset", "ids-unique", "ids-name-stream"}, NotOffered, "events have no ids")
		return
	}
	x.sheet.set("ids", Conforming, "%d of %s", with, several(len(k.all), "event"))
	x.sheet.yes("ids-all", without == 0, "%s without an id", several(without, "message"))
	x.sheet.yes("ids-charset", safe == with, "%d of %d survive", safe, with)
}

func frameWords(illegal wire.Illegal, n int) string {
	if illegal &^= wire.IllegalID; illegal == 0 {
		return several(n, "event") + ", all legal"
	}
	var all []string
	for bit, name := range map[wire.Illegal]string{
		wire.IllegalUTF8: "UTF-8", wire.IllegalJSON: "JSON", wire.IllegalRPC: "JSON-RPC", wire.IllegalBatch: "a single message",
		wire.IllegalSize: "of a size that is read", wire.IllegalHTTP: "HTTP", wire.IllegalDupKeys: "without doubled keys",
	} {
		if illegal&bit != 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return "some are not " + strings.Join(all, ", not ")
}

// messageRows look at the messages of a call.
func (x *run) messageRows(c *call, k *control) {
	last, rising, counted, foreign, late := 0.0, true, 0, 0, 0
	answered := false
	for _, e := range k.all {
		answered = answered || e.response()
		if !e.counts {
			continue
		}
		rising = rising && (counted == 0 || e.progress > last)
		last = e.progress
		counted++
		foreign += b2i(e.token != c.token)
		late += b2i(answered)
	}
	if counted == 0 {
		x.sheet.rest([]string{"progress-increases", "progress-token"}, NotOffered, "the tool reports no progress")
	} else {
		x.sheet.yes("progress-increases", rising, "%s", several(counted, "notification"))
		x.sheet.yes("progress-token", foreign == 0 && late == 0, "%d of %s name another or a finished request", max(foreign, late), several(counted, "notification"))
	}
	n := 0
	for _, e := range k.all {
		n += b2i(e.response())
	}
	x.sheet.yes("one-response", n == 1, "%s", several(n, "response"))
	if count(k.all, event.message) > 0 {
		x.sheet.set("progress-on-call", Conforming, "%s before the response", several(count(k.all, event.message), "message"))
	} else {
		x.sheet.set("progress-on-call", Unsure, "the tool sent nothing on the stream of its call")
	}
}

// longCall is how long a call takes at least that tells when its events are sent on.
const longCall = 400 * time.Millisecond

// delayRow looks whether something keeps events back until the end of the call.
func (x *run) delayRow(k *control) {
	var at []time.Duration
	for _, e := range k.all {
		if e.message() || e.response() {
			at = append(at, e.at)
		}
	}
	switch {
	case len(at) <= someMessages || k.took < longCall || len(k.early) > 0:
		x.sheet.set("unbuffered", Unsure, "%s in %s are too few to tell", several(len(at), "message"), took(k.took))
	case at[len(at)-1]-at[0] < k.took/8:
		x.sheet.set("unbuffered", Deviating, "%s come together after %s", several(len(at), "message"), took(at[0]))
	default:
		x.sheet.set("unbuffered", Conforming, "the first message after %s, the last after %s", took(at[0]), took(at[len(at)-1]))
	}
}

func count(all []event, is func(event) bool) int {
	n := 0
	for _, e := range all {
		n += b2i(is(e))
	}
	return n
}

// endRows look at what follows the response.
func (x *run) endRows(st *stream) {
	at := slices.IndexFunc(st.all, event.response)
	if at < 0 {
		return
	}
	behind := count(st.all[at+1:], func(e event) bool { return !e.empty })
	x.sheet.yes("silent-after-response", behind == 0, "%s", several(behind, "message"))
	switch {
	case st.open():
		x.sheet.set("response-ends-stream", Deviating, "still open %s later", took(x.Quiet))
	case st.ended == io.EOF:
		x.sheet.set("response-ends-stream", Conforming, "%s", endsAfter(st.endAt-st.all[at].at))
	default:
		x.sheet.set("response-ends-stream", Deviating, "%s", endWords(st.ended))
	}
}

func endsAfter(d time.Duration) string {
	if d < time.Millisecond {
		return "ends with it"
	}
	return "ends " + took(d) + " later"
}
