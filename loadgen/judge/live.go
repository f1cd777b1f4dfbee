package judge

// Violations counts the findings of deciding invariants in the load's streams that
// are closed so far. It may be called at any time.
func (j *Judge) Violations() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var n int64
	for i := range j.table {
		if j.table[i].level.decides(j.setup.Strict) {
			n += j.tally[i].violated
		}
	}
	return n
}

// Damaged reports whether anything was found in the stream. It is valid after Close.
func (s *Stream) Damaged() bool { return len(s.evidence) > 0 }

// Story is the timeline of a stream, damaged or not: the headline of a healthy one is
// empty, and its steps bear no marks. It is valid after Close.
func (s *Stream) Story() Guilty { return s.accuse() }
