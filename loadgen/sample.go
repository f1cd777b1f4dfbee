package loadgen

import (
	"bytes"
	"slices"
	"sync"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// sampledMax bounds what is kept of a sampled stream, in messages behind its middle.
const sampledMax = 4096

// sample is what a stream that will be probed keeps of itself: an id in the middle, and
// the hashes of what came behind it.
type sample struct {
	cursor   []byte
	behind   []uint64
	response uint64 // hash; 0 before it came
	over     bool   // more than sampledMax
	last     int64  // the highest number kept
}

// sampled reports whether the stream is one of those that are probed: none where nothing
// can be resumed.
func (r *runner) sampled(a Arrival) bool {
	return !r.c.Modern && r.drawn(a, r.c.Probes, drawProbe)
}

// drawn reports whether the arrival is one of n: the load is cut into so many parts, and one
// stream of each is drawn.
func (r *runner) drawn(a Arrival, n int, use uint64) bool {
	probes, total := int64(n), int64(r.c.Plan.Total())
	if a.Kind != history.StreamLoad || probes <= 0 || total == 0 {
		return false
	}
	if probes >= total {
		return true
	}
	at := int64(a.Stream - r.c.Plan.c.First)
	part := at * probes / total
	from, to := ceil(part*total, probes), ceil((part+1)*total, probes)
	return at == from+int64(draw(r.c.Seed, uint32(part), 0, use)*float64(to-from))
}

// ceil divides and rounds up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// note keeps what a dispatched event says, before it counts as seen.
func (p *sample) note(s *stream, e *history.Event) {
	switch e.Class {
	case history.ClassProgress, history.ClassNotification:
	case history.ClassRequest:
		if !e.HasID { // a question of its moment, not one that is kept
			return
		}
	case history.ClassResponse, history.ClassError:
		if p.response == 0 && e.Owner == history.OwnerSelf {
			p.response = e.Hash
		}
		return
	default:
		return
	}
	switch {
	case p.cursor == nil:
		if e.HasID && !s.several && len(s.rd.Cursor()) > 0 && s.seen+1 >= s.of.Expected/2 {
			p.cursor, p.last = bytes.Clone(s.rd.Cursor()), e.Seq
		}
	case e.Owner != history.OwnerSelf && e.Owner != history.OwnerUnmarked:
	case len(p.behind) == sampledMax:
		p.over = true
	case e.Seq > p.last:
		p.last = e.Seq
		p.behind = append(p.behind, e.Hash)
	case e.Seq > 0: // it came before
	case !slices.Contains(p.behind, e.Hash): // what the target repeated is for the judge
		p.behind = append(p.behind, e.Hash)
	}
}

// foreign keeps two cursors of different sessions, so that each sampled stream finds
// one that is not of its own.
type foreign struct {
	mu      sync.Mutex
	session [2]uint32
	cursor  [2][]byte
}

// swap leaves a cursor of this session and returns one of another, nil if there is none.
func (f *foreign) swap(session uint32, cursor []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch session {
	case f.session[0]:
	case f.session[1]:
		f.session[0], f.session[1] = f.session[1], f.session[0]
		f.cursor[0], f.cursor[1] = f.cursor[1], f.cursor[0]
	default:
		f.session[1], f.cursor[1] = f.session[0], f.cursor[0]
	}
	f.session[0], f.cursor[0] = session, cursor
	return f.cursor[1]
}

// unknownCursor returns a cursor of the same form that no target gave out: the letters
// and digits of its first half are others. Half of a short id is soon the half of another
// one, so there is none for it.
func unknownCursor(id []byte) ([]byte, bool) {
	if len(id) < 12 {
		return nil, false
	}
	out, changed := bytes.Clone(id), 0
	for i, c := range out[:len(id)/2] {
		switch {
		case '0' <= c && c <= '9':
			out[i] = '0' + (c-'0'+5)%10
		case 'a' <= c && c <= 'f':
			out[i] = 'a' + (c-'a'+3)%6
		case 'A' <= c && c <= 'F':
			out[i] = 'A' + (c-'A'+3)%6
		case 'g' <= c && c <= 'z':
			out[i] = 'g' + (c-'g'+10)%20
		case 'G' <= c && c <= 'Z':
			out[i] = 'G' + (c-'G'+10)%20
		default:
			continue
		}
		changed++
	}
	return out, changed >= 4
}

// malformedCursor has characters that an id may have and that none is made of.
const malformedCursor = "!~not:a|cursor~!"
