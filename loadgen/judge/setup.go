package judge

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Contract is what delivery the target promises. The same observation is right
// under one contract and wrong under another, so a run declares it.
type Contract string

// Contracts. The zero value stands for ExactlyOnce.
const (
	// ExactlyOnce allows neither loss nor repeats.
	ExactlyOnce Contract = "exactly-once"
	// AtLeastOnce allows repeats after a resume.
	AtLeastOnce Contract = "at-least-once"
	// Bounded allows the loss of what follows a cursor that the target refused with 400
	// or 404.
	Bounded Contract = "bounded"
	// NoPromise allows the loss of what falls between two links, and of the response of a
	// call that was cut. A hole within one link, repeats and disorder it does not allow.
	NoPromise Contract = "none"
)

// An Oracle is where the truth about what should have arrived comes from.
type Oracle string

// Oracles. OracleNone proves nothing about messages, so a run under it is
// inconclusive. OracleAuto is resolved by [Setup.With]; wire is not built yet.
const (
	OracleNone     Oracle = ""
	OracleAuto     Oracle = "auto"
	OracleLedger   Oracle = "ledger"
	OracleNumbered Oracle = "numbered"
	// OracleTwin: the load generator numbers each message by the one of the control calls
	// that it is equal to.
	OracleTwin Oracle = "twin"
	OracleWire Oracle = "wire"
	// OracleResponse: the control calls showed no message before their response, so only
	// the response is judged.
	OracleResponse Oracle = "response"
)

// revisionPolling is the first protocol revision with priming events and polling
// closes (2025-11-25 transports, Sending Messages 6).
const revisionPolling = "2025-11-25"

const (
	dialectModern  = "modern"
	dialectStreams = "streams"
	transportStdio = "stdio"
)

// A Setup is everything that fixes the roles of the invariants. It is complete
// before the first arrival: what a run sees never changes what it demands.
type Setup struct {
	// Revision is the negotiated protocol revision, such as "2025-11-25".
	Revision string
	// Dialect is how resuming looks on the wire; "" means "resume". "modern" implies Modern.
	Dialect string
	// Contract is what the target promises; "" means ExactlyOnce.
	Contract Contract
	// Oracle tells what should have arrived; "" means nothing does.
	Oracle Oracle
	// Strict lets SHOULD findings decide the verdict.
	Strict bool
	// Ignore names invariants that are not applied.
	Ignore []string

	// Expected is the number of messages per call, 0 when only the messages
	// themselves (their total) or the ledger tell.
	Expected int64
	// ExpectedFrom says where Expected comes from: "--expect" or "control calls".
	ExpectedFrom string
	// Longest is as in [CallSetup], for a setup without Calls.
	Longest time.Duration
	// Calls says what the calls of the profile should bring; the index is that of
	// history.Exchange.Call. Nil stands for one call, described by Expected.
	Calls []CallSetup
	// Transport is "http" or "stdio"; "" means http.
	Transport string
	// Modern tells that the target speaks 2026-07-28: a cut cancels the call.
	Modern bool
	// Ledger tells that the target keeps an account of emissions and executions.
	Ledger bool
	// IDs tells that the control calls carried event ids.
	IDs bool
	// Probes is the number of streams that are sampled: once complete, they are asked by
	// extra exchanges what the load leaves open.
	Probes int
	// Sessions tells that the target gave out session ids.
	Sessions bool
	// StoreFaults tells that the run makes the target's event store fail. Without
	// it a message that was never stored and never arrived is lost, not degraded.
	StoreFaults bool

	// Streams is the number of planned load streams, 0 when a duration bounds the run.
	Streams int
	// Faults is the number of planned injections, opening cuts included.
	Faults int
	// CutCalls is the number of calls with at least one planned cut; 0 means the
	// smaller of Faults and Streams.
	CutCalls int
	// Named lists the places that the user named; each has to be struck.
	Named []string
	// Reach is what the profile wants; nil means the defaults of [DefaultReach].
	Reach []Want
}

// Validate joins all complaints about s.
func (s Setup) Validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	contracts := []Contract{"", ExactlyOnce, AtLeastOnce, Bounded, NoPromise}
	complain(!slices.Contains(contracts, s.Contract), "contract %q is unknown: want exactly-once, at-least-once, bounded or none", s.Contract)
	switch s.Oracle {
	case OracleNone, OracleLedger, OracleNumbered, OracleTwin, OracleResponse:
	case OracleAuto:
		complain(true, "oracle auto is not resolved: control calls decide it")
	case OracleWire:
		complain(true, "oracle %q is not built yet", s.Oracle)
	default:
		complain(true, "oracle %q is unknown: want auto, ledger, numbered, twin, response or wire", s.Oracle)
	}
	complain(s.Oracle == OracleLedger && !s.Ledger, "oracle ledger needs a target that keeps a ledger")
	complain(s.Dialect != "" && s.Dialect != "resume" && s.Dialect != dialectModern && s.Dialect != dialectUMCP && !s.drafted(), "dialect %q is not built yet", s.Dialect)
	complain(s.Transport != "" && s.Transport != "http" && s.Transport != transportStdio, "transport %q is unknown: want http or stdio", s.Transport)
	complain(s.modern() && s.Contract != "" && s.Contract != NoPromise,
		"contract %q: 2026-07-28 resumes nothing, so only the contract none can be judged", s.Contract)
	complain(s.Expected < 0 || s.Streams < 0 || s.Faults < 0 || s.CutCalls < 0 || s.Probes < 0,
		"expected, streams, faults, cut calls and probes cannot be negative")
	for _, c := range s.Calls {
		complain(c.Expected < 0 || c.Twin < 0 || c.Deadline < 0, "call %s: expected, twin and deadline cannot be negative", c.Name)
	}
	for _, name := range s.Ignore {
		known := slices.ContainsFunc(table(), func(i invariant) bool { return i.name == name })
		complain(!known, "ignore: no invariant is called %q", name)
	}
	return errors.Join(append(errs, validateReach(s.Reach)...)...)
}

// told reports whether the oracle tells which messages should arrive, of one call at
// least.
func (s Setup) told() bool {
	switch s.Oracle {
	case OracleLedger, OracleNumbered, OracleTwin:
		return true
	}
	return false
}

// modern tells the revision that resumes nothing.
func (s Setup) modern() bool { return s.Modern || s.Dialect == dialectModern }

// drafted tells the draft of resumable streams.
func (s Setup) drafted() bool { return s.Dialect == dialectStreams }

// whenResumed is the role of a promise about ids and resuming, which 2026-07-28 and umcp do
// not make.
func whenResumed(s Setup, r Role) (Role, string) {
	switch {
	case s.modern():
		return NotApplicable, "2026-07-28 resumes nothing"
	case s.umcp():
		return NotApplicable, "umcp has no event ids and resumes nothing"
	}
	return r, ""
}

// cutCalls is the number of calls that the plan cuts at least once.
func (s Setup) cutCalls() int {
	if s.CutCalls > 0 {
		return s.CutCalls
	}
	if s.Streams > 0 {
		return min(s.Faults, s.Streams)
	}
	return s.Faults
}

// A Role says what an invariant can do to the verdict of a run.
type Role uint8

// Roles. Only a demanded invariant that saw nothing makes a run inconclusive.
const (
	NotApplicable Role = iota
	Watched
	Demanded
)

// String returns the role as result.json names it.
func (r Role) String() string {
	return [...]string{"not applicable", "watched", "demanded"}[r]
}

// A Level says where a promise comes from.
type Level uint8

// Levels. All but Should decide the verdict; Should does under Setup.Strict.
const (
	LevelContract Level = iota
	LevelMust
	LevelDerived
	LevelShould
)

// String returns the level as result.json names it.
func (l Level) String() string {
	return [...]string{"contract", "MUST", "derived", "SHOULD"}[l]
}

// decides reports whether a finding of this level makes a run violated.
func (l Level) decides(strict bool) bool { return l != LevelShould || strict }
