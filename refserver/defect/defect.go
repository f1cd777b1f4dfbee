// Package defect names the bugs that can be planted in the reference server, to
// show that a judge convicts a server that has them. The server asks a [Set] at
// the few places where a bug lives; the zero Set answers as a correct server does.
package defect

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names a defect.
type ID string

// Defects.
const (
	S03a ID = "S03a" // replay includes the event at the cursor
	S03b ID = "S03b" // replay leaves out the first event after the cursor
	S05a ID = "S05a" // nothing is stored while no client is attached
	S05b ID = "S05b" // the response is not stored while no client is attached
)

// Defect describes a defect that can be planted.
type Defect struct {
	ID    ID
	About string
	// Every tells that k=N may be given: the bug strikes each N-th resume.
	Every bool
}

// All lists what can be planted, in the order of their names.
func All() []Defect {
	return []Defect{
		{S03a, "replay includes the event at the cursor", true},
		{S03b, "replay leaves out the first event after the cursor", true},
		{S05a, "nothing is stored while no client is attached, and the emitter is told that it was", false},
		{S05b, "only the response is not stored while no client is attached", false},
	}
}

// Set is what is planted. The zero Set is a correct server.
type Set struct {
	ID ID
	// Every is k of "each k-th resume", counted over the whole server; 0 means 1.
	Every int
}

// Parse reads "", "S03b" or "S03b,k=10". A name without a letter means variant a.
func Parse(text string) (Set, error) {
	name, options, hasOptions := strings.Cut(text, ",")
	if name == "" && !hasOptions {
		return Set{}, nil
	}
	d, ok := find(name)
	if !ok {
		return Set{}, fmt.Errorf("defect %q: unknown, there are %s", name, names())
	}
	set := Set{ID: d.ID}
	if !hasOptions {
		return set, nil
	}
	value, ok := strings.CutPrefix(options, "k=")
	if !ok || !d.Every {
		return Set{}, fmt.Errorf("defect %q: option %q is not known", name, options)
	}
	k, err := strconv.Atoi(value)
	if err != nil || k < 1 {
		return Set{}, fmt.Errorf("defect %q: k is a number from 1, not %q", name, value)
	}
	set.Every = k
	return set, nil
}

func find(name string) (Defect, bool) {
	for _, d := range All() {
		if strings.EqualFold(name, string(d.ID)) || strings.EqualFold(name+"a", string(d.ID)) {
			return d, true
		}
	}
	return Defect{}, false
}

func names() string {
	var all []string
	for _, d := range All() {
		all = append(all, string(d.ID))
	}
	return strings.Join(all, ", ")
}

// String returns what [Parse] reads; it is empty for a correct server.
func (s Set) String() string {
	if s.Every > 1 {
		return fmt.Sprintf("%s,k=%d", s.ID, s.Every)
	}
	return string(s.ID)
}

// Shift says by how many events the cursor of the n-th resume (from 1) is moved:
// -1 to replay the event at the cursor again, +1 to leave one out.
func (s Set) Shift(n uint64) int {
	if n%uint64(max(s.Every, 1)) != 0 {
		return 0
	}
	switch s.ID {
	case S03a:
		return -1
	case S03b:
		return +1
	}
	return 0
}

// Swallow says whether an event is reported as stored without being stored.
func (s Set) Swallow(attached, response bool) bool {
	if attached {
		return false
	}
	return s.ID == S05a || s.ID == S05b && response
}
