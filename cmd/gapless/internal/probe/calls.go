package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

const kindResult = wire.KindResult

func rawID(id string) json.RawMessage { return json.RawMessage(id) }

// pollingArgs make emit close its connection twice.
const pollingArgs = `{"messages":12,"interval_ms":50,"polling_closes":2}`

// pollingClose looks at connections that the server ends before the response.
func pollingClose(ctx context.Context, x *run) error {
	if x.revision < newest {
		return absentError(x.revision + " has no polling")
	}
	k, err := x.known(ctx)
	if x.tool.emit {
		k, err = x.polled(ctx)
	}
	if err != nil {
		return err
	}
	if len(k.early) == 0 {
		return absentError("no connection ended before the response")
	}
	withID, withRetry := 0, 0
	for _, c := range k.early {
		withID += b2i(c.id)
		withRetry += b2i(c.retry)
	}
	x.sheet.set("polling-close", Conforming, "%d of the connections of a call ended early", len(k.early))
	x.sheet.yes("polling-close-id", withID == len(k.early), "%d of %d", withID, len(k.early))
	x.sheet.yes("polling-close-retry", withRetry == len(k.early), "%d of %d", withRetry, len(k.early))
	missing, disorder := gaps(k.all, true)
	switch {
	case k.done.IsZero():
		x.sheet.set("polling-resume", Deviating, "the response never came")
	case missing+disorder > 0 && x.tool.emit:
		x.sheet.set("polling-resume", Deviating, "%s missing, %d out of order", several(missing, "message"), disorder)
	default:
		x.sheet.set("polling-resume", Conforming, "%s over %d connections, and the response", several(count(k.all, event.message), "message"), len(k.early)+1)
	}
	return nil
}

// polled makes a call whose connections the server ends.
func (x *run) polled(ctx context.Context) (*control, error) {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return nil, err
	}
	c, err := x.call(ctx, s, pollingArgs)
	if err != nil {
		return nil, err
	}
	defer func() { c.close() }()
	parts, err := x.follow(ctx, c, callWithin)
	x.account(parts...)
	if err == nil {
		err = c.complaint()
	}
	if err != nil {
		return nil, err
	}
	return learn(s, parts), nil
}

// earlyClose looks whether a connection lasts until the response where it should.
func earlyClose(ctx context.Context, x *run) error {
	s, err := x.session(ctx, middle)
	if err != nil {
		return err
	}
	if s.Revision() != middle {
		return absentError("the server does not speak " + middle)
	}
	args := ""
	if x.tool.emit {
		args = pollingArgs
	}
	c, err := x.call(ctx, s, args)
	if err != nil {
		return err
	}
	defer c.close()
	if !c.sse {
		return absentError("the call is answered " + c.short())
	}
	c.read(c.began.Add(callWithin), event.response)
	x.account(c.stream)
	switch {
	case c.complaint() != nil:
		return c.complaint()
	case c.response() != nil:
		x.sheet.set("early-close-2025-06-18", Conforming, "one connection up to the response")
	case c.ended == io.EOF:
		x.sheet.set("early-close-2025-06-18", Deviating, "ended after %s without the response", several(c.count(event.message), "message"))
	default:
		return errors.New("the response did not come: " + c.short())
	}
	return nil
}

const (
	// stallArgs make emit send more than the buffers between us hold.
	stallArgs = `{"messages":400,"bytes":65536,"interval_ms":0}`
	pings     = 5
	// slowdown is how many times longer a ping may take beside a stalled reader, and
	// slowest what is always quick enough.
	slowdown = 4
	slowest  = time.Second
)

// stallReader opens a call, reads nothing of it, and measures what others wait.
func stallReader(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	before, err := x.pingTime(ctx, s)
	if err != nil {
		return err
	}
	args := ""
	if x.tool.emit {
		args = stallArgs
	}
	c, err := x.call(ctx, s, args)
	if err != nil {
		return err
	}
	defer func() {
		c.close()
		x.account(c.stream)
	}()
	if !c.sse {
		return errors.New("the call is answered " + c.short())
	}
	if !pause(ctx, x.silence()) {
		return ctx.Err()
	}
	beside, err := x.pingTime(ctx, s)
	if limited(err) {
		return err
	}
	if err != nil {
		x.sheet.set("head-of-line", Deviating, "beside an unread stream, ping: %s", client.Words(err))
		return nil
	}
	full := "all of it fitted the buffers"
	if x.tool.emit {
		full = "26 MB unread"
	}
	x.sheet.yes("head-of-line", beside < slowest || beside < slowdown*before, "ping takes %s, beside an unread stream %s (%s)", took(before), took(beside), full)
	return nil
}

// pingTime returns the median time of a ping.
func (x *run) pingTime(ctx context.Context, s *client.Session) (time.Duration, error) {
	var all []time.Duration
	for range pings {
		st, err := x.reply(ctx, s, "ping", nil)
		if err != nil {
			return 0, err
		}
		r := st.response()
		if resultOf(r) == nil {
			return 0, errors.New("ping is answered " + st.short())
		}
		all = append(all, max(st.head, r.at))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// manyMessages is more than servers usually keep of one stream.
const manyMessages = 12_000

// overflow makes a call of very many messages and looks how many of them are replayed.
func overflow(ctx context.Context, x *run) error {
	var k *control
	var err error
	if x.tool.emit {
		k, err = x.burst(ctx)
	} else {
		var done func()
		if k, done, err = x.replaying(ctx); err == nil {
			defer done()
		}
	}
	if err != nil {
		return err
	}
	var at []int
	for i, e := range k.all {
		if e.hasID && e.id != "" {
			at = append(at, i)
		}
	}
	if len(at) < 2 {
		return absentError("events have no ids")
	}
	// What follows at[i] is replayed from some i on.
	skipped, refused := "", ""
	low, high := 0, len(at)-1
	for low < high {
		i := (low + high) / 2
		here, what, err := x.follows(ctx, k, at[i], at[i+1])
		switch {
		case err != nil:
			return err
		case here:
			high = i
			continue
		case what[0] == '2':
			skipped = what
		default:
			refused = what
		}
		low = i + 1
	}
	x.frontier(len(at), low, skipped, refused)
	return nil
}

// follows asks for what follows one event and tells whether the next is among it; if not,
// what there was instead.
func (x *run) follows(ctx context.Context, k *control, after, next int) (here bool, instead string, err error) {
	r, err := x.resume(ctx, k.s, k.all[after].id)
	if err != nil {
		return false, "", err
	}
	defer r.close()
	if r.read(time.Now().Add(x.Quiet), func(e event) bool { return e.id == k.all[next].id || e.response() }) && r.all[len(r.all)-1].id == k.all[next].id {
		return true, "", nil
	}
	if n := len(r.carried()); n > 0 {
		return false, fmt.Sprintf("200, %s, but not the next", several(n, "message")), nil
	}
	return false, r.short(), nil
}

func (x *run) frontier(all, low int, skipped, refused string) {
	switch n := all - 1; {
	case low == n:
		x.sheet.set("retention-events", NotOffered, "nothing of a finished call is replayed")
	case low == 0:
		x.sheet.set("retention-events", Open, "all of %s", several(n, "event"))
	default:
		x.sheet.set("retention-events", Open, "the last %d of %d", n-low, n)
	}
	switch {
	case skipped != "":
		x.sheet.set("retention-overrun", Deviating, "%s", skipped)
	case refused != "":
		x.sheet.set("retention-overrun", Conforming, "%s", refused)
	default:
		x.sheet.set("retention-overrun", Unsure, "a call of %s was not enough to pass it", several(all-1, "event"))
	}
}

// burst makes a call of very many messages.
func (x *run) burst(ctx context.Context) (*control, error) {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return nil, err
	}
	c, err := x.call(ctx, s, fmt.Sprintf(`{"messages":%d,"interval_ms":0}`, manyMessages))
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.read(c.began.Add(callWithin), event.response)
	x.account(c.stream)
	if c.response() == nil {
		return nil, errors.New("a call of very many messages came to no end: " + c.short())
	}
	return learn(s, []*stream{c.stream}), nil
}
