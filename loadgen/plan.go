package loadgen

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// WhenFree is the Due of an arrival that has no instant of its own: it is due as
// soon as one of the open streams is settled.
const WhenFree time.Duration = -1

// An Arrival is one planned start of a stream.
type Arrival struct {
	// Stream and Session count from 1.
	Stream, Session uint32
	// Due is the planned instant since the start of the load, or [WhenFree].
	Due time.Duration
	// Kind tells planned load from control calls, the canary and GET streams.
	Kind history.StreamKind
	// Call is what it calls: an index into Config.Calls. Canary and GET streams make the
	// first call.
	Call int
	// Again tells a call that is made again since it was cut for good. No plan has it.
	Again bool
}

// extra reports whether the arrival comes besides the load: it takes no place among
// the open streams and is counted apart.
func (a Arrival) extra() bool {
	return a.Kind == history.StreamCanary || a.Kind == history.StreamGet
}

// maxCalls is how many streams have a number, with some left for canary and control calls.
const maxCalls = 1<<32 - 1<<20

// maxOpen bounds what a plan keeps open at once, so that a slip of the finger does not
// take all memory: a stream costs 16 KB, and no machine has so many ports.
const maxOpen = 1_000_000

// PlanConfig says how much load a [Plan] holds: in the closed model by Streams, Calls
// and Ramp, in the open model by Rate, Duration and Stages.
type PlanConfig struct {
	// Seed keys every draw.
	Seed uint64
	// Streams is how many streams are open at once: the closed model.
	Streams int
	// Calls is how many streams start in all; 0 means as many as Streams.
	Calls int
	// Sessions share the streams: stream n is in session 1+(n-1) mod Sessions. 0
	// means one for every ten streams that may be open.
	Sessions int
	// Ramp spreads the first Streams arrivals over this long; 0 starts them at once.
	Ramp time.Duration
	// Rate is the number of arrivals per second for Duration: the open model. Without
	// a Duration it is where the first stage starts from.
	Rate     float64
	Duration time.Duration
	// Stages follow, each from the rate before it, the first from Rate.
	Stages []Stage
	// MaxOpen bounds the open model: an arrival that finds so many streams open is
	// dropped and counted. 0 means 20,000.
	MaxOpen int
	// GetStreams is how many standalone GET streams each session gets, besides the
	// load. They are due at once, take no place among the open streams, and those of one
	// session come one after the other. They are numbered behind all others: from 1 +
	// the larger of the last stream of the load and Canary, the k-th (from 0) in session
	// 1 + k mod Sessions.
	GetStreams int
	// Weights tell how often each of several calls is drawn, compared with the others; nil
	// means that there is one call. A plan of control calls takes them in turn instead, so
	// that its streams have to be a multiple of them for each to come equally often.
	Weights []int
	// Kind is the kind of all arrivals but the canary and the GET streams.
	Kind history.StreamKind
	// First is the number of the first stream; 0 means 1.
	First uint32
	// Canary, if not 0, is the stream number of one canary, which is due at once and
	// takes no place among the Streams.
	Canary uint32
}

// Validate reports everything that is wrong with the settings.
func (c PlanConfig) Validate() error {
	var errs []error
	if c.Sessions < 0 {
		errs = append(errs, fmt.Errorf("sessions must not be negative: %d", c.Sessions))
	}
	if c.Sessions > maxOpen {
		errs = append(errs, fmt.Errorf("sessions (%d) must be at most %d", c.Sessions, maxOpen))
	}
	if c.GetStreams < 0 {
		errs = append(errs, fmt.Errorf("get streams must not be negative: %d", c.GetStreams))
	}
	for i, w := range c.Weights {
		if w < 1 || w > maxWeight {
			errs = append(errs, fmt.Errorf("weight of call %d: must be from 1 to %d, not %d", i+1, maxWeight, w))
		}
	}
	if len(c.Weights) > maxCallKinds {
		errs = append(errs, fmt.Errorf("%d calls are more than %d", len(c.Weights), maxCallKinds))
	}
	model := c.validateClosed
	if c.open() {
		model = c.validateOpen
	}
	return errors.Join(append(errs, model())...)
}

func (c PlanConfig) validateClosed() error {
	var errs []error
	if c.MaxOpen != 0 {
		errs = append(errs, errors.New("max open belongs to the open model"))
	}
	if c.Streams < 1 {
		errs = append(errs, fmt.Errorf("streams must be at least 1, not %d", c.Streams))
	}
	if c.Streams > maxOpen {
		errs = append(errs, fmt.Errorf("streams (%d) must be at most %d", c.Streams, maxOpen))
	}
	if c.Calls < 0 {
		errs = append(errs, fmt.Errorf("calls must not be negative: %d", c.Calls))
	}
	if c.Calls > 0 && c.Calls < c.Streams {
		errs = append(errs, fmt.Errorf("calls (%d) are fewer than streams (%d): so many are never open at once", c.Calls, c.Streams))
	}
	if c.Ramp < 0 {
		errs = append(errs, fmt.Errorf("ramp must not be negative: %v", c.Ramp))
	}
	if last := uint64(max(c.First, 1)) + uint64(max(c.Calls, c.Streams, 0)); last > maxCalls {
		errs = append(errs, fmt.Errorf("%d calls are more than there are stream numbers", c.Calls))
	}
	return errors.Join(errs...)
}

// A Plan is the arrival plan: a pure function of its settings that computes any
// arrival from its ordinal, so that it takes no memory however long the run is.
type Plan struct {
	c        PlanConfig
	segments []segment // of the open model
	gets     int       // GET streams in all
	weight   int       // of all calls together
}

// NewPlan checks the settings and fills in their defaults.
func NewPlan(c PlanConfig) (Plan, error) {
	if err := c.Validate(); err != nil {
		return Plan{}, fmt.Errorf("arrival plan: %w", err)
	}
	p := Plan{c: c}
	if c.open() {
		var hits float64
		p.segments, hits = segments(c)
		p.c.Calls = int(hits)
		if c.MaxOpen == 0 {
			p.c.MaxOpen = 20_000
		}
		p.c.Streams = min(p.c.MaxOpen, p.c.Calls)
	}
	if p.c.Calls == 0 {
		p.c.Calls = p.c.Streams
	}
	if p.c.Sessions == 0 {
		p.c.Sessions = (p.c.Streams + 9) / 10
	}
	p.c.First = max(p.c.First, 1)
	if most := maxOpen / p.c.Sessions; p.c.GetStreams > most {
		return Plan{}, fmt.Errorf("arrival plan: %d GET streams in each of %d sessions: all are due at once, so at most %d", p.c.GetStreams, p.c.Sessions, most)
	}
	p.gets = p.c.GetStreams * p.c.Sessions
	for _, w := range c.Weights {
		p.weight += w
	}
	return p, nil
}

// maxWeight keeps the sum of all weights a small number.
const maxWeight = 1_000_000

// choices is the number of calls that arrivals draw from.
func (p Plan) choices() int { return max(len(p.c.Weights), 1) }

// call says what an arrival of the load calls: the n-th of the plan, with this stream's
// number. A draw depends on the number alone, so that a stream that runs by itself makes
// the call that it would make among the others.
func (p Plan) call(n int, stream uint32) int {
	switch {
	case len(p.c.Weights) < 2:
		return 0
	case p.c.Kind == history.StreamControl:
		return n % len(p.c.Weights)
	}
	at := int(draw(p.c.Seed, stream, 0, drawCall) * float64(p.weight))
	for i, w := range p.c.Weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(p.c.Weights) - 1
}

// Len is the number of arrivals, canary and GET streams included.
func (p Plan) Len() int { return p.c.Calls + p.besides() }

// Total is the number of arrivals of the load alone.
func (p Plan) Total() int { return p.c.Calls }

// Gets is the number of standalone GET streams.
func (p Plan) Gets() int { return p.gets }

// besides is how many arrivals come before those of the load.
func (p Plan) besides() int {
	if p.c.Canary != 0 {
		return 1 + p.gets
	}
	return p.gets
}

// Open is the number of streams of the load that may be open at once.
func (p Plan) Open() int { return p.c.Streams }

// Sessions is the number of sessions.
func (p Plan) Sessions() int { return p.c.Sessions }

// Lasts is the time from the start in which the open model has its arrivals, 0 in the
// closed model.
func (p Plan) Lasts() time.Duration {
	if len(p.segments) == 0 {
		return 0
	}
	last := p.segments[len(p.segments)-1]
	return last.start + last.took
}

// Arrival returns the n-th arrival, 0 ≤ n < Len: the canary, the GET streams, the load.
func (p Plan) Arrival(n int) Arrival {
	if p.c.Canary != 0 {
		if n == 0 {
			return Arrival{Stream: p.c.Canary, Session: p.session(p.c.Canary), Kind: history.StreamCanary}
		}
		n--
	}
	if n < p.gets {
		behind := max(p.c.First+uint32(p.c.Calls), p.c.Canary+1)
		return Arrival{Stream: behind + uint32(n), Session: p.session(uint32(n) + 1), Kind: history.StreamGet}
	}
	n -= p.gets
	stream := p.c.First + uint32(n)
	return Arrival{Stream: stream, Session: p.session(stream), Due: p.due(n, stream), Kind: p.c.Kind, Call: p.call(n, stream)}
}

func (p Plan) session(stream uint32) uint32 {
	return 1 + (stream-1)%uint32(p.c.Sessions)
}

func (p Plan) due(n int, stream uint32) time.Duration {
	switch {
	case len(p.segments) > 0:
		return p.paced(n)
	case n >= p.c.Streams:
		return WhenFree
	}
	// One slice of the ramp for each stream and a drawn point within it: no two runs
	// with different seeds beat against the target's own timers in the same way.
	slice := float64(p.c.Ramp) / float64(p.c.Streams)
	return time.Duration(slice * (float64(n) + draw(p.c.Seed, stream, 0, drawDue)))
}

// head is the first line of the plan's text.
func (p Plan) head() string {
	model := fmt.Sprintf("%d open at once, %d sessions, ramp %v", p.c.Streams, p.c.Sessions, p.c.Ramp)
	if len(p.segments) > 0 {
		model = fmt.Sprintf("%s, at most %d open, %d sessions", p.c.shape(), p.c.MaxOpen, p.c.Sessions)
	}
	if p.gets > 0 {
		model += fmt.Sprintf(", %d GET streams", p.gets)
	}
	if len(p.c.Weights) > 1 {
		model += fmt.Sprintf(", weights %v", p.c.Weights)
	}
	return fmt.Sprintf("arrivals: %d calls, %s, seed %d\n", p.c.Calls, model, p.c.Seed)
}

// WriteTo writes the plan as text, one line for each arrival: what --plan prints.
func (p Plan) WriteTo(w io.Writer) (int64, error) {
	b := bufio.NewWriter(w)
	var total int64
	line := []byte(p.head())
	for n := 0; ; n++ {
		k, err := b.Write(line)
		total += int64(k)
		if err != nil {
			return total, err
		}
		if n == p.Len() {
			return total, b.Flush()
		}
		a := p.Arrival(n)
		line = a.append(line[:0])
		if len(p.c.Weights) > 1 {
			line = append(line, " call "...)
			line = strconv.AppendInt(line, int64(a.Call)+1, 10)
		}
		line = append(line, '\n')
	}
}

// Hash is the SHA-256 of the plan's text in hexadecimal.
func (p Plan) Hash() string {
	h := sha256.New()
	_, _ = p.WriteTo(h) // a hash takes every write
	return hex.EncodeToString(h.Sum(nil))
}

func (a Arrival) append(b []byte) []byte {
	b = append(b, "stream "...)
	b = strconv.AppendUint(b, uint64(a.Stream), 10)
	b = append(b, " session "...)
	b = strconv.AppendUint(b, uint64(a.Session), 10)
	switch {
	case a.Due == WhenFree:
		b = append(b, " when free"...)
	default:
		b = append(b, " due "...)
		b = append(b, a.Due.String()...)
	}
	switch a.Kind {
	case history.StreamControl:
		b = append(b, " control"...)
	case history.StreamCanary:
		b = append(b, " canary"...)
	case history.StreamGet:
		b = append(b, " get"...)
	}
	return b
}

// The uses of a draw, so that two draws for one attempt are independent.
const (
	drawDue uint64 = iota
	drawJitter
	drawCancel
	drawProbe
	drawCall
	drawReissue
	drawPoll
)

// draw returns a number in [0,1) that depends on nothing but its key: no order of
// goroutines can change it.
func draw(seed uint64, stream uint32, attempt int, use uint64) float64 {
	x := mix(seed ^ 0x9e3779b97f4a7c15)
	x = mix(x ^ uint64(stream))
	x = mix(x ^ uint64(attempt)<<8 ^ use)
	return float64(x>>11) / (1 << 53)
}

// mix is a bijection of 64 bits in which every input bit changes about half of the
// output: two rounds of multiply and shift.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
