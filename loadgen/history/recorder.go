package history

import (
	"sync"
	"sync/atomic"
)

// PoolConfig bounds the memory of open streams.
type PoolConfig struct {
	// StreamBytes bounds one stream; 0 means 4 MiB, which is about 200,000 messages.
	StreamBytes int
	// TotalBytes bounds all open streams together; 0 means 256 MiB.
	TotalBytes int64
}

// A Pool lends memory to the recorders of open streams. It may be used
// concurrently.
type Pool struct {
	cfg  PoolConfig
	used atomic.Int64
	free sync.Pool
}

// reuse bounds the memory that a recorder keeps for the next stream.
const reuse = 64 << 10

// NewPool returns a pool. A bound beyond what a history can hold is lowered to that.
func NewPool(cfg PoolConfig) *Pool {
	if cfg.StreamBytes <= 0 {
		cfg.StreamBytes = 4 << 20
	}
	cfg.StreamBytes = min(cfg.StreamBytes, maxBlock-1<<10)
	if cfg.TotalBytes <= 0 {
		cfg.TotalBytes = 256 << 20
	}
	return &Pool{cfg: cfg}
}

// A Recorder collects the records of one open stream, in the form in which they will
// be written. It belongs to one goroutine at a time.
type Recorder struct {
	pool            *Pool
	kind            StreamKind
	session, stream uint32
	coder           coder
	charged         int64 // of the pool's bytes
	records         int64
	dropped         int64
}

// Open returns the recorder of a stream that begins. Give it to [Writer.Put], or
// call [Recorder.Discard].
func (p *Pool) Open(kind StreamKind, session, stream uint32) *Recorder {
	r, _ := p.free.Get().(*Recorder)
	if r == nil {
		r = new(Recorder)
	}
	r.pool, r.kind, r.session, r.stream = p, kind, session, stream
	r.records, r.dropped = 0, 0
	r.coder.reset(false, r.coder.data[:0], session, stream)
	if !r.charge(cap(r.coder.data)) {
		r.coder.data = nil
	}
	return r
}

// Record takes down one fact; rec is not kept. A record for which there is no room,
// or that is of no known kind, is counted as dropped, and so are all that follow:
// what is there never has a hole.
func (r *Recorder) Record(rec *Record) {
	if r.dropped == 0 && r.room() && r.coder.write(rec) {
		r.records++
		return
	}
	r.dropped++
}

// Records counts what was taken down, Dropped what was not.
func (r *Recorder) Records() int64 { return r.records }

// Dropped counts the records that were not taken down.
func (r *Recorder) Dropped() int64 { return r.dropped }

// Discard gives the memory back. The recorder must not be used any more.
func (r *Recorder) Discard() {
	pool := r.pool
	if pool == nil {
		panic("history: a recorder is given back twice")
	}
	pool.used.Add(-r.charged)
	r.pool, r.charged = nil, 0
	if cap(r.coder.data) > reuse {
		r.coder.data, r.coder.model.hashes = nil, nil
	}
	pool.free.Put(r)
}

// room makes sure that one more record fits.
func (r *Recorder) room() bool {
	data := r.coder.data
	if cap(data)-len(data) >= maxRecord {
		return true
	}
	size := min(max(1<<10, 2*cap(data)), r.pool.cfg.StreamBytes)
	if size-len(data) < maxRecord || !r.charge(size) {
		return false
	}
	r.coder.data = append(make([]byte, 0, size), data...)
	return true
}

// charge takes what a buffer of size bytes costs from the pool. Where hashes are needs
// at most half as much again: 4 bytes for at least 9.
func (r *Recorder) charge(size int) bool {
	more := int64(size)*3/2 - r.charged
	if more > 0 && r.pool.used.Add(more) > r.pool.cfg.TotalBytes {
		r.pool.used.Add(-more)
		return false
	}
	if more > 0 {
		r.charged += more
	}
	return true
}
