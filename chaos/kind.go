package chaos

import (
	"fmt"
	"net"
)

// Kind is a way to hurt a link (DESIGN §5).
type Kind uint8

// The kinds.
const (
	None Kind = iota
	RST
	FIN
	ChunkEnd
)

// kinds is the catalogue; the index is the Kind.
var kinds = [...]kindSpec{None: none, RST: rst, FIN: fin, ChunkEnd: chunkEnd}

// kindSpec is one row of the catalogue.
type kindSpec struct {
	name string
	// about is a sentence for the help topic.
	about string
	end   End
	// insideOnly: it needs the inside of an event, elsewhere it would be the end that
	// the target may choose itself.
	insideOnly bool
}

// End says how a link ends, so that a link never asks which kind has struck it.
// The zero End is a FIN: everything before the position, then the end of the file.
type End struct {
	// Reset discards what is in flight and resets the connection.
	Reset bool
	// Legal ends the body as its framing says before the connection closes. The body
	// must have been re-framed from its start, since the size of the current chunk is
	// long announced.
	Legal bool
}

// close ends the real connection.
func (e End) close(conn net.Conn) {
	if e.Reset {
		conn = innermost(conn)
		if c, ok := conn.(interface{ SetLinger(sec int) error }); ok {
			_ = c.SetLinger(0) // it fails only on a connection that is gone already
		}
	} else {
		drain(conn)
	}
	_ = conn.Close() // nothing is left to be lost: the link is given up
}

// innermost looks through TLS, whose Close would send an alert first.
func innermost(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}

// AllKinds returns every kind in the order of the catalogue.
func AllKinds() []Kind {
	all := make([]Kind, len(kinds))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the kind's name as it is written in profiles and results.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// About returns a sentence that says what the kind does.
func (k Kind) About() string { return kinds[k].about }

// ParseKind returns the kind of that name; the error lists what is allowed.
func ParseKind(name string) (Kind, error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		if k.name == name {
			return Kind(i), nil
		}
		names[i] = k.name
	}
	return None, unknown("kind", name, names)
}
