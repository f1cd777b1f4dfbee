package proxy

import (
	"bytes"
	"hash/maphash"
)

const (
	// keptCursors is how many of a link's latest ids can be told again: a client whose
	// link was reset may have seen fewer than were sent.
	keptCursors = 16
	// maxIDLine bounds an id line; a longer id cannot be told again.
	maxIDLine = 512
)

// cursors notes the ids of the events that pass, as hashes.
type cursors struct {
	seed    maphash.Seed
	session []byte
	line    []byte // the beginning of a line that has not ended
	id      []byte // of the open event
	last    [keptCursors]uint64
	n       int
}

// feed follows payload bytes of an event stream.
func (c *cursors) feed(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p[:max(i, 0)]
		if i < 0 {
			part = p
		}
		if i < 0 || len(c.line) > 0 {
			c.line = append(c.line, part[:min(len(part), max(0, maxIDLine-len(c.line)))]...)
			part = c.line
		}
		if i < 0 {
			return
		}
		c.endLine(part)
		c.line = c.line[:0]
		p = p[i+1:]
	}
}

func (c *cursors) endLine(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if id, ok := bytes.CutPrefix(line, []byte("id:")); ok && bytes.IndexByte(id, 0) < 0 {
		c.id = append(c.id[:0], bytes.TrimPrefix(id, []byte(" "))...)
	}
}

// commit is called at the blank line of an event with an id that counts.
func (c *cursors) commit() {
	c.last[c.n%keptCursors] = cursorHash(c.seed, c.session, c.id)
	c.n++
}

// kept returns the cursors that are remembered.
func (c *cursors) kept() []uint64 { return c.last[:min(c.n, keptCursors)] }
