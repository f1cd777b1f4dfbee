package proxy

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gapless-dev/gapless/chaos"
)

// Injection is a fault that fired at this seat.
type Injection struct {
	chaos.Injection
	// Client is the client's HOST:PORT.
	Client string
}

// Account is what passed over one link.
type Account struct {
	// Link counts the links accepted, from 1; Client is the other end's HOST:PORT.
	Link   uint64
	Client string
	// Ordinal is the number of the latest stream it carried among those of its role, 0
	// when nobody counted.
	Ordinal uint64
	// FromClient and FromServer count the bytes that arrived, ToClient those passed on.
	FromClient, FromServer, ToClient int64
	// Count is how many exchanges began; Exchanges holds the latest of them.
	Count     int
	Exchanges []Exchange
	// Injections are the faults that fired on the link, in order.
	Injections []Injection
	// End says how the link ended.
	End End
}

// maxExchanges bounds the exchanges of a link that are kept.
const maxExchanges = 16

// Exchange is what passed in one exchange of a link.
type Exchange struct {
	Method Method
	Role   Role
	// Resume: a GET with Last-Event-ID. Status is 0 until a head has come.
	Resume bool
	Status int
	// Stream: the response is an event stream. Of its events, those delivered whole are
	// counted; Messages are those that carry anything but a response, Answered tells that
	// a response was among them.
	Stream   bool
	Events   uint32
	Messages int
	Answered bool
	// Complete: the response came to its end.
	Complete bool
}

// Method is the kind of request, as far as it matters.
type Method uint8

// The methods.
const (
	OtherMethod Method = iota
	Get
	Post
)

// String returns the method's name.
func (m Method) String() string { return [...]string{"other", "GET", "POST"}[m] }

// Role is what an exchange is for, as far as its bytes say.
type Role uint8

// The roles.
const (
	NoRole    Role = iota
	Call           // a POST, or the resume of one
	GetStream      // a standalone GET stream
	Handshake      // initialize
)

// String returns the role's name.
func (r Role) String() string { return [...]string{"", "call", "get-stream", "handshake"}[r] }

// End is how a link ended.
type End uint8

// The ends.
const (
	EndNone     End = iota
	EndClient       // the client closed or reset it
	EndServer       // the server closed or reset it
	EndCut          // a fault struck
	EndRefused      // the request or the upstream was no good
	EndShutdown     // the proxy was closed
)

// String returns the end's name.
func (e End) String() string {
	return [...]string{"", "client", "server", "cut", "refused", "shutdown"}[e]
}

// ring keeps the accounts of the latest links.
type ring struct {
	keep int
	mu   sync.Mutex
	at   int
	list []*Account
}

func (r *ring) add(a *Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < r.keep {
		r.list = append(r.list, a)
		return
	}
	r.list[r.at] = a
	r.at = (r.at + 1) % r.keep
}

func (r *ring) all() []*Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.list[r.at:], r.list[:r.at])
}

// Snapshot is the proxy's counters at one moment. All but Open only grow.
type Snapshot struct {
	// Links accepted and Open now; Exchanges begun, Streams among their responses.
	Links, Open, Exchanges, Streams int64
	// Events delivered whole, Resumes asked for.
	Events, Resumes int64
	// FromClient, FromServer and ToClient count bytes.
	FromClient, FromServer, ToClient int64
	// Refused counts requests that the proxy answered itself.
	Refused int64
	// Cells is the injections by cell, in the order of the catalogues; Approximate is how
	// many of them were.
	Cells       []Cell
	Approximate int64
}

// Cell counts the injections of one kind at one place.
type Cell struct {
	Kind  chaos.Kind
	Place chaos.Place
	Count int64
}

// Injected sums the cells.
func (s Snapshot) Injected() (n int64) {
	for _, c := range s.Cells {
		n += c.Count
	}
	return n
}

// counters move as things happen.
type counters struct {
	links, open, exchanges, streams  atomic.Int64
	events, resumes                  atomic.Int64
	fromClient, fromServer, toClient atomic.Int64
	refused, approximate             atomic.Int64

	mu    sync.Mutex
	cells map[Cell]int64 // Count is 0 in the keys
}

func (c *counters) struck(in *Injection) {
	if in.Approximate {
		c.approximate.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cells == nil {
		c.cells = map[Cell]int64{}
	}
	c.cells[Cell{Kind: in.Kind, Place: in.Place}]++
}

func (c *counters) snapshot() Snapshot {
	s := Snapshot{
		Links: c.links.Load(), Open: c.open.Load(), Exchanges: c.exchanges.Load(), Streams: c.streams.Load(),
		Events: c.events.Load(), Resumes: c.resumes.Load(), Refused: c.refused.Load(), Approximate: c.approximate.Load(),
		FromClient: c.fromClient.Load(), FromServer: c.fromServer.Load(), ToClient: c.toClient.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for cell, n := range c.cells {
		cell.Count = n
		s.Cells = append(s.Cells, cell)
	}
	slices.SortFunc(s.Cells, func(a, b Cell) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return int(a.Place) - int(b.Place)
	})
	return s
}
