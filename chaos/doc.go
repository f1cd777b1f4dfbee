// Package chaos cuts the links of a load at positions of the protocol that were
// drawn beforehand, and states every cut as a fact.
//
//	Fault mix ─► Plan ─► Victim (one per stream: which faults are still to come)
//	                        │
//	reader ◄── Link.Read ◄── decide ◄── scan.Scanner ◄── net.Conn ══ TCP ══ target
//	                 └─► OnInjection (before the reader sees the end)
//
// A [Plan] is a pure function of its configuration: what is drawn for a stream
// depends on (seed, stream, fault) and on nothing that happens in the run. Places
// are positions, never instants. A [Link] decides on the bytes that arrive; what it
// delivers is exactly what lay before the position, and nothing after it.
//
// All faults of a stream that are still to come are watched at once and the first
// position reached strikes, so that one that turns out to be unreachable (a replay
// that has nothing to replay) does not keep the others from happening. It is then
// planned and not injected: nothing is guessed.
//
// A kind says how a link ends and lies in a file of its own (rst.go, fin.go, …); a
// place says where, and is a row of the table in place.go. What cannot be combined
// is said by [Impossible].
package chaos
