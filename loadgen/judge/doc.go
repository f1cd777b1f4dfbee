// Package judge folds the records of a run into verdicts.
//
// A run holds only if somebody looked. So every verdict here starts as
// inconclusive, and three things have to happen before it says "holds": each
// invariant that the run demands has seen something, everything that the run
// wanted to meet was met, and the canary, a stream that was damaged on purpose,
// was convicted.
//
//	Setup ── fixed before the first arrival ──► roles (demanded, watched, not applicable)
//	                                              │
//	record ─► Stream.Observe ─► account ─► folds of the invariants      one goroutine,
//	                            (shared facts:  (one file each, inv_*.go) no lock
//	                             fresh, repeated,
//	                             behind, foreign)
//	                            (also of the probes that a sampled stream is asked)
//	          Stream.Close ───► fate ─► settles ─► counters of the Judge  one lock
//	          Judge.Finish ───► reach ─► verdict, sentence, evidence
//
// The package imports history and the standard library, does no I/O, reads no
// clock and starts no goroutine. The same records give the same verdict, in
// whatever order the streams were interleaved.
//
// What remains of a stream after its Close is counters, its event ids as 64-bit
// hashes (at most [MaxIDs] per run, the covered share is in the verdict) and, for
// the first damaged streams, their evidence. That is what [Judge.Snapshot] writes
// down: a run that is judged in parts gets the verdict of the whole.
//
// What a run may lose or repeat is the [Contract]'s business. It is counted apart and
// said in the verdict, but violates nothing.
package judge
