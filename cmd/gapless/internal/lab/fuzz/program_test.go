package fuzz

import (
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
)

// An op is one thing that a client does, lawful or not.
type op byte

// The ops. What the four arguments of a step mean is said at the method that takes it.
const (
	opOpen      op = iota // opens a session of any revision
	opCall                // calls emit
	opGetCall             // opens the GET stream and calls emit on it
	opBatch               // calls emit in a batch, which one revision has
	opCut                 // ends a link now
	opArm                 // ends a link later, at an event or a byte
	opResume              // takes a stream up again from its cursor
	opTakeover            // does so while the old link is there
	opTwice               // does so twice at the same time
	opOld                 // asks for what followed an old cursor
	opForeign             // resumes with the cursor of another session
	opFuture              // resumes from an event that is yet to come
	opMalformed           // resumes from what is no id
	opEmpty               // sends an empty Last-Event-ID
	opSecondGet           // opens a GET stream beside the one that is open
	opCancel              // cancels a call
	opDuplicate           // calls with an id that is in flight
	opReuse               // calls with an id that was used before
	opDelete              // ends a session, whatever is in flight
	opDead                // uses a session that has ended
	opGarbage             // sends a body that is no message, or a strange one
	opHeaders             // leaves out or falsifies what a request needs beside its body
	opAnswers             // changes how requests of the server are answered
	opWait                // lets time pass
	opSlow                // reads slowly, or not at all
	opUnasked             // sends what nobody asked for
	opHalf                // sends half a request
	opCrowd               // opens sessions until there is no room
	ops
)

func (o op) String() string {
	return [ops]string{
		"open", "call", "call on GET", "batch", "cut", "arm", "resume", "takeover", "twice", "old cursor", "foreign cursor",
		"future cursor", "malformed cursor", "empty cursor", "second GET", "cancel", "duplicate id", "reused id", "delete",
		"dead session", "garbage", "headers", "answers", "wait", "slow", "unasked", "half a request", "crowd",
	}[o]
}

// A step is an op with its arguments.
type step struct {
	op         op
	a, b, c, d byte
}

const (
	headBytes = 6  // of a program, before its steps
	stepBytes = 5  // of one step
	maxSteps  = 60 // more are ignored: an input should be quick
)

// A program is what one input means: a server, and what its clients do.
type program struct {
	head  [headBytes]byte
	steps []step
}

// decode gives every input a meaning.
func decode(input []byte) program {
	var p program
	n := copy(p.head[:], input)
	for rest := input[n:]; len(rest) >= stepBytes && len(p.steps) < maxSteps; rest = rest[stepBytes:] {
		p.steps = append(p.steps, step{op(rest[0] % byte(ops)), rest[1], rest[2], rest[3], rest[4]})
	}
	return p
}

// encode is the inverse of decode.
func (p program) encode() []byte {
	out := append([]byte(nil), p.head[:]...)
	for _, s := range p.steps {
		out = append(out, byte(s.op), s.a, s.b, s.c, s.d)
	}
	return out
}

// What the head of a program draws from.
const (
	limitNone = iota
	limitFewEvents
	limitEvents
	limitSession
	limitBytes
	limitStreams
	storeLimits
)

func (p program) handedOff() bool { return p.stored() && p.head[4]&4 != 0 }
func (p program) scope() lock.Scope {
	return [4]lock.Scope{lock.Stream, lock.Session, lock.Global, lock.Stream}[p.head[4]>>3&3]
}
func (p program) stored() bool    { return p.head[0]%8 != 7 }
func (p program) limit() int      { return int(p.head[1] % storeLimits) }
func (p program) tight() bool     { return p.stored() && p.limit() != limitNone }
func (p program) refuses() bool   { return p.head[2]&1 != 0 }
func (p program) crowded() bool   { return p.head[3]&1 != 0 }
func (p program) fewCalls() bool  { return p.head[3]&2 != 0 }
func (p program) smallBody() bool { return p.head[3]&4 != 0 }

func (p program) retry() time.Duration {
	return [4]time.Duration{100 * time.Millisecond, 0, 10 * time.Millisecond, 2 * time.Second}[p.head[2]>>1&3]
}

func (p program) idle() time.Duration {
	return [4]time.Duration{30 * time.Minute, 20 * time.Second, 5 * time.Minute, time.Hour}[p.head[2]>>3&3]
}

// Bounds that a client can meet.
const (
	fewSessions = 3
	fewCalls    = 2
	smallBody   = 2000
)

// config is the server of the program, but for its store.
func (p program) config(planted defect.Set) refserver.Config {
	cfg := refserver.Config{Retry: p.retry(), KeepConnections: p.head[4]&1 != 0, Defect: planted}
	cfg.Limits.Idle = p.idle()
	if p.refuses() {
		cfg.OnConflict = refserver.Refuse
	}
	if p.crowded() {
		cfg.Limits.Sessions = fewSessions
	}
	if p.fewCalls() {
		cfg.Limits.Calls = fewCalls
	}
	if p.smallBody() {
		cfg.Limits.Body = smallBody
	}
	if p.head[4]&2 != 0 {
		cfg.WriteTimeout = time.Second
	}
	if p.handedOff() {
		cfg.Delivery, cfg.Lock = refserver.Handoff, p.scope()
	}
	return cfg
}

func (p program) storeLimits() store.Limits {
	return [storeLimits]store.Limits{
		limitFewEvents: {Events: 3},
		limitEvents:    {Events: 16},
		limitSession:   {SessionBytes: 3000},
		limitBytes:     {Bytes: 6000, SessionBytes: 4000},
		limitStreams:   {Streams: 3},
	}[p.limit()]
}

// calm tells the programs whose histories do not depend on how goroutines are scheduled:
// what happens at one virtual instant may happen in any order, and some of it competes.
func (p program) calm() bool {
	cuts, polls := false, false
	for _, s := range p.steps {
		switch s.op {
		case opSlow, opHalf, opBatch: // the requests of a batch are served side by side
			return false
		case opArm:
			if s.b&1 != 0 { // at a byte: chunks are as long as goroutines make them
				return false
			}
			cuts = true
		case opCut, opTakeover, opTwice, opOld:
			cuts = true
		case opCall, opGetCall, opReuse:
			shape := newShape(s)
			if shape.bytes > 1000 { // what does not fit a link waits for its reader
				return false
			}
			if shape.polls > 0 {
				polls = true
				if shape.burst != 1 || shape.interval == 0 {
					return false
				}
			}
		}
	}
	return !p.tight() && !(polls && cuts)
}

// A shape is what a call makes emit do.
type shape struct {
	messages, burst, bytes, polls, requests int
	interval                                time.Duration
}

// newShape reads b to d of a step; a names its session.
func newShape(s step) shape {
	return shape{
		messages: int(s.b % 41),
		interval: [4]time.Duration{10 * time.Millisecond, 0, time.Second, 2 * time.Second}[s.c&3],
		burst:    [4]int{1, 3, 100, 1}[s.c>>2&3],
		polls:    [4]int{0, 0, 1, 3}[s.c>>4&3],
		requests: [4]int{0, 0, 0, 2}[s.c>>6&3],
		bytes:    [4]int{0, 300, 900, 12000}[s.d&3],
	}
}
