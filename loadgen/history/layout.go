package history

import "math"

// This file says how a record is laid out, once for both directions: the same
// methods write a record and read it back, see [coder]. Every field has a value that
// is foreseen from the records before it in the block; only what differs is
// written, and the shape that opens a record says which fields those are.
//
//	record = shape (varint), what differs, in the order of the methods below
//	shape  = kind (4 bits), one bit per field
//
// The fields of other kinds are zero by contract and are not written. A field that was
// added later is foreseen to be zero and has the next bit, so files of before still say
// what they said.

// Bits of the shape. The common case of an event, only At and Bytes unforeseen,
// fits into one byte.
const (
	kindBits = 4
	kindMask = 1<<kindBits - 1

	bitAt    = 1 << 4
	bitWhere = 1 << 5
)

// Bits of a KindEvent.
const (
	evBytes = 1 << (6 + iota)
	evClass
	evOwner
	evOwnerStream
	evHasID
	evIDHash
	evCursor
	evSeq
	evTotal
	evOrdered
	evProgress
	evHash
	evLate
	evIllegal
	evDigest
)

// Bits of the other kinds.
const (
	bit1 = 1 << (6 + iota)
	bit2
	bit3
	bit4
	bit5
	bit6
	bit7
	bit8
	bit9
	bit10
	bit11
	bit12
)

// Bits of bitWhere's own byte.
const (
	whereSession = 1 << iota
	whereStream
	whereAttempt
	whereLink
)

// reach bounds the search for the event that a ledger message is about.
const reach = 64

// model is what the records so far let foresee.
type model struct {
	where     Record // At, Session, Stream, Attempt, Link of the record before
	class     Class
	hasID     bool
	cursor    uint32
	seq       int64
	total     int64
	bytes     [16]uint32 // by class
	asked     int64
	ledgerSeq int64
	// hashes says where in the block the hashes of events are; next is the first that
	// no ledger message has been about.
	hashes []uint32
	next   int
}

func (m *model) reset(session, stream uint32) {
	*m = model{class: ClassProgress, hasID: true, hashes: m.hashes[:0]}
	m.where.Session, m.where.Stream = session, stream
}

// fields passes through everything of r but its kind.
func (c *coder) fields(r *Record) {
	c.where(r)
	switch r.Kind {
	case KindAttempt:
		c.exchange(&r.Exchange, r.Attempt)
	case KindHead:
		c.head(&r.Head)
	case KindEvent:
		c.event(&r.Event)
	case KindInjection:
		c.injection(&r.Injection)
	case KindEnd:
		c.byte(bit1, (*uint8)(&r.End), uint8(EndClean))
	case KindSettled:
		c.byte(bit1, (*uint8)(&r.Outcome), uint8(OutcomeCompleted))
		c.int(bit2, (*int64)(&r.Exchange.Asked), 0)
	case KindLedgerMessage:
		c.ledgerMessage(&r.Ledger)
	case KindLedgerCall:
		c.ledgerCall(&r.Ledger)
	case KindProbe:
		c.probe(&r.Probe)
	case KindPoll:
		c.poll(&r.Poll)
	default:
		c.fail()
	}
}

// where: records of one exchange differ in At alone.
func (c *coder) where(r *Record) {
	w := &c.model.where
	c.int(bitAt, (*int64)(&r.At), int64(w.At))
	w.At = r.At
	moved := uint8(0)
	if !c.reading {
		moved = differ(whereSession, r.Session != w.Session) | differ(whereStream, r.Stream != w.Stream) |
			differ(whereAttempt, r.Attempt != w.Attempt) | differ(whereLink, r.Link != w.Link)
	}
	c.byte(bitWhere, &moved, 0)
	if c.reading {
		r.Session, r.Stream, r.Attempt, r.Link = w.Session, w.Stream, w.Attempt, w.Link
	}
	if moved == 0 {
		return
	}
	if moved&whereSession != 0 {
		c.plain32(&r.Session)
	}
	if moved&whereStream != 0 {
		c.plain32(&r.Stream)
	}
	if moved&whereAttempt != 0 {
		attempt := uint32(r.Attempt)
		c.plain32(&attempt)
		if attempt > math.MaxUint16 {
			c.fail()
		}
		r.Attempt = uint16(attempt)
	}
	if moved&whereLink != 0 {
		c.near32(&r.Link, w.Link)
	}
	w.Session, w.Stream, w.Attempt, w.Link = r.Session, r.Stream, r.Attempt, r.Link
}

func differ(bit uint8, yes bool) uint8 {
	if yes {
		return bit
	}
	return 0
}

func (c *coder) exchange(x *Exchange, attempt uint16) {
	m := &c.model
	c.flag(bit1, &x.Resume, attempt > 0)
	c.uint32(bit2, &x.Cursor, m.cursor)
	c.int(bit3, (*int64)(&x.Asked), m.asked)
	c.int(bit4, (*int64)(&x.Waited), 0)
	c.byte(bit5, &x.Call, 0)
	m.asked = int64(x.Asked)
}

func (c *coder) head(h *Head) {
	status, missed := int64(h.Status), int64(h.Missed)
	c.int(bit1, &status, 200)
	c.byte(bit2, (*uint8)(&h.Body), uint8(BodySSE))
	c.int(bit3, &missed, -1)
	h.Status, h.Missed = c.toInt(status), c.toInt32(missed)
}

func (c *coder) event(e *Event) {
	m := &c.model
	c.byte(evClass, (*uint8)(&e.Class), uint8(m.class))
	carries := e.Class > ClassOther
	owner, seq, total := OwnerUnmarked, int64(0), int64(0)
	if carries {
		owner = OwnerSelf
	}
	if e.Class == ClassProgress {
		seq, total = m.seq+1, m.total
	}
	c.byte(evOwner, (*uint8)(&e.Owner), uint8(owner))
	c.uint32(evOwnerStream, &e.OwnerStream, 0)
	c.flag(evHasID, &e.HasID, m.hasID)
	c.hash(evIDHash, &e.IDHash, e.HasID)
	cursor := m.cursor
	if e.HasID {
		cursor++
	}
	c.uint32(evCursor, &e.Cursor, cursor)
	c.int(evSeq, &e.Seq, seq)
	c.int(evTotal, &e.Total, total)
	c.flag(evOrdered, &e.Ordered, e.Class == ClassProgress)
	progress := 0.0
	if e.Ordered {
		progress = float64(e.Seq)
	}
	c.float(evProgress, &e.Progress, progress)
	if at := c.hash(evHash, &e.Hash, carries); at >= 0 {
		m.hashes = append(m.hashes, uint32(at))
	}
	c.uint32(evBytes, &e.Bytes, m.bytes[e.Class&15])
	c.flag(evLate, &e.Late, false)
	illegal := uint32(e.Illegal)
	c.uint32(evIllegal, &illegal, 0)
	if illegal > math.MaxUint16 {
		c.fail()
	}
	e.Illegal = Illegal(illegal)
	c.byte(evDigest, (*uint8)(&e.Digest), uint8(DigestNone))

	m.class, m.hasID, m.cursor, m.bytes[e.Class&15] = e.Class, e.HasID, e.Cursor, e.Bytes
	if e.Seq != 0 {
		m.seq = e.Seq
	}
	if e.Total != 0 {
		m.total = e.Total
	}
}

func (c *coder) injection(i *Injection) {
	c.name(&i.Kind)
	c.name(&i.Place)
	planned := int64(i.Planned)
	c.int(bit1, &planned, 0)
	i.Planned = c.toInt(planned)
	c.uint32(bit2, &i.Event, 0)
	c.uint32(bit3, &i.Offset, 0)
	c.int(bit4, (*int64)(&i.For), 0)
	c.flag(bit5, &i.Opening, false)
	c.flag(bit6, &i.InReplay, false)
	c.flag(bit7, &i.AfterID, true)
	c.flag(bit8, &i.Ends, true)
	c.flag(bit9, &i.Approximate, false)
	c.flag(bit10, &i.RunWide, false)
}

// ledgerMessage: what the target says it emitted has nearly always arrived, in this
// order, so its hash is in the block already.
func (c *coder) ledgerMessage(l *Ledger) {
	m := &c.model
	c.int(bit1, &l.Seq, m.ledgerSeq+1)
	c.byte(bit2, (*uint8)(&l.Fate), uint8(FateAccepted))
	m.ledgerSeq = l.Seq
	at := uint32(0)
	found := false
	if !c.reading {
		at, found = c.find(l.Hash)
	}
	unseen := !found
	c.flag(bit3, &unseen, false)
	if unseen {
		c.raw(&l.Hash)
		return
	}
	c.uint32(bit4, &at, 0)
	if i := int64(m.next) + int64(at); i < int64(len(m.hashes)) {
		l.Hash = c.hashAt(m.hashes[i])
		m.next = int(i) + 1
		return
	}
	c.fail()
}

// find says how many hashes after the next one the given hash is.
func (c *coder) find(hash uint64) (uint32, bool) {
	rest := c.model.hashes[c.model.next:]
	for i, at := range rest[:min(reach, len(rest))] {
		if c.hashAt(at) == hash {
			return uint32(i), true
		}
	}
	return 0, false
}

func (c *coder) ledgerCall(l *Ledger) {
	executions, responses, answers := int64(l.Executions), int64(l.Responses), int64(l.Answers)
	c.flag(bit1, &l.Known, true)
	c.int(bit2, &l.Emitted, c.model.ledgerSeq)
	c.int(bit3, &executions, 1)
	c.int(bit4, &responses, 1)
	c.flag(bit5, &l.Cancelled, false)
	c.int(bit6, &answers, 0)
	c.flag(bit7, &l.CancelSeen, false)
	l.Executions, l.Responses, l.Answers = c.toInt32(executions), c.toInt32(responses), c.toInt32(answers)
}

func (c *coder) probe(p *Probe) {
	c.byte(bit1, (*uint8)(&p.Name), uint8(ProbeReplay))
	c.flag(bit2, &p.Offered, true)
	c.flag(bit3, &p.Response, false)
	status := int64(p.Status)
	c.int(bit4, &status, 200)
	p.Status = c.toInt(status)
	counts := [...]*int32{&p.Want, &p.Events, &p.Messages, &p.Foreign, &p.Wrong}
	for i, v := range counts {
		n := int64(*v)
		c.int(bit5<<i, &n, 0)
		*v = c.toInt32(n)
	}
	c.byte(bit10, (*uint8)(&p.End), uint8(EndClean))
	c.int(bit11, (*int64)(&p.Took), 0)
}

func (c *coder) poll(p *Poll) {
	status := int64(p.Status)
	c.int(bit1, &status, 200)
	p.Status = c.toInt(status)
	c.flag(bit2, &p.Answered, true)
	c.flag(bit3, &p.Refused, false)
	c.flag(bit4, &p.Completed, false)
	c.flag(bit5, &p.Pending, false)
	c.flag(bit6, &p.HasRequest, false)
	c.flag(bit7, &p.HasError, false)
	c.flag(bit8, &p.Strange, false)
}
