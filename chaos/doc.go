// Package chaos hurts the links of a load at positions of the protocol that were
// drawn beforehand, and states every injury as a fact.
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
// What only slows a link down begins at a position as well and lasts for a time; it
// changes no byte. Storms have no position: a [Nemesis] lets them go by the run's clock,
// and the reader of each link that went down reports where it was. The nemesis also
// knows the window in which faults strike, and heals.
//
// A kind says how a link is hurt and lies in a file of its own (rst.go, fin.go, …); a
// place says where, and is a row of the table in place.go. What cannot be combined
// is said by [Impossible].
package chaos
