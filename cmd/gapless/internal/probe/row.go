package probe

import (
	"fmt"
	"slices"
	"sync"
)

// A Level is how strongly the source of a clause speaks.
type Level string

// Levels. Derived: no sentence says it, but it follows from some. Unspecified: no sentence
// says anything, and servers differ.
const (
	Must        Level = "MUST"
	Should      Level = "SHOULD"
	May         Level = "MAY"
	Derived     Level = "derived"
	Unspecified Level = "unspecified"
)

// A Status is what was found about a clause.
type Status string

// Statuses. A row whose level is Unspecified is neither Conforming nor Deviating.
const (
	Conforming Status = "conforming"
	Deviating  Status = "deviating"
	Open       Status = "unspecified"
	NotOffered Status = "not offered"
	Unsure     Status = "could not tell"
)

// A Row is one clause and what was seen of it.
type Row struct {
	Name   string `json:"name"` // stable
	Group  string `json:"group"`
	Level  Level  `json:"level"`
	Clause string `json:"clause"` // the source, and where in it
	Asks   string `json:"asks"`   // the clause in a few words
	Status Status `json:"status"`
	Seen   string `json:"seen"` // one line of facts
}

// A sheet collects what experiments find. It may be used by several goroutines.
type sheet struct {
	// over, if set, tells that time is up: what is seen then was cut short by us.
	over func() bool

	mu   sync.Mutex
	rows map[string]Row
}

func newSheet() *sheet { return &sheet{rows: map[string]Row{}} }

// set fills a row. What deviates stands against anything else; apart from that the first
// finding counts.
func (s *sheet) set(name string, status Status, seen string, args ...any) {
	if s.over != nil && s.over() && status != Unsure {
		return
	}
	at := slices.IndexFunc(catalog(), func(r Row) bool { return r.Name == name })
	if at < 0 {
		panic("probe: no row " + name)
	}
	row := catalog()[at]
	if row.Level == Unspecified && (status == Conforming || status == Deviating) {
		status = Open // there is nothing to conform to
	}
	row.Status, row.Seen = status, seen
	if len(args) > 0 {
		row.Seen = fmt.Sprintf(seen, args...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, filled := s.rows[name]; filled && (old.Status == Deviating || status != Deviating) {
		return
	}
	s.rows[name] = row
}

// filled tells whether a row has its finding.
func (s *sheet) filled(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.rows[name]
	return ok
}

// rest fills rows that are still empty.
func (s *sheet) rest(names []string, status Status, seen string, args ...any) {
	for _, name := range names {
		if !s.filled(name) {
			s.set(name, status, seen, args...)
		}
	}
}

// list returns all rows in the order of the catalog.
func (s *sheet) list() []Row {
	all := catalog()
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.Name
	}
	s.rest(names, Unsure, "it was not asked")
	for i, r := range all {
		all[i] = s.rows[r.Name]
	}
	return all
}

// yes fills a row by a fact that either conforms or deviates.
func (s *sheet) yes(name string, conforms bool, seen string, args ...any) {
	status := Deviating
	if conforms {
		status = Conforming
	}
	s.set(name, status, seen, args...)
}
