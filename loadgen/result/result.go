// Package result is the account of one run: the content of result.json.
//
// It is a leaf. Names are stable; every field is always present, also those
// that a run had nothing to say about: empty maps are {}, empty lists are [],
// nothing is null. All times are in seconds.
package result

import "time"

// Format is the value of the field gapless of every result.
const Format = "result/1"

// Words of [Result.Verdict].
const (
	Holds        = "holds"
	Violated     = "violated"
	Inconclusive = "inconclusive"
)

// Words of [Run.Stopped].
const (
	Interrupted = "interrupted"
	AtViolation = "at the first violation"
	TargetDied  = "the target died"
	AtThreshold = "at a threshold"
)

// Words of [Load.Model].
const (
	Open   = "open"
	Closed = "closed"
)

// A Result is the account of one run. Its zero value encodes as an inconclusive
// run that did nothing.
type Result struct {
	Gapless string `json:"gapless"` // Format
	Run     Run    `json:"run"`

	Verdict  string   `json:"verdict"`  // Holds, Violated or Inconclusive; "" is Inconclusive
	Sentence string   `json:"sentence"` // the verdict in words a person can repeat
	Notes    []string `json:"notes"`    // what one has to know of the way to the target
	Why      []string `json:"why"`      // what was not reached or could not be told
	Seen     []string `json:"seen"`     // what was seen all the same, of an inconclusive run
	Next     []string `json:"next"`     // what to do about it

	Load      Load      `json:"load"`
	Streams   Streams   `json:"streams"`
	Messages  Messages  `json:"messages"`
	Responses Responses `json:"responses"`
	Faults    Faults    `json:"faults"`
	Resumes   Resumes   `json:"resumes"`

	// CutsAtRisk counts cuts followed by a settled resume; LossBound95 is 3 divided
	// by that number when nothing was lost, at most 1; 0 when something was.
	CutsAtRisk         int64        `json:"cuts_at_risk"`
	LossBound95        float64      `json:"loss_bound_95"`
	LossBound95ByPlace []PlaceBound `json:"loss_bound_95_by_place"`

	Drops      Drops       `json:"drops"`
	Damage     Damage      `json:"damage"`
	Invariants []Invariant `json:"invariants"`
	Probes     []Probe     `json:"probes"`
	Reached    []Reached   `json:"reached"`
	Thresholds []Threshold `json:"thresholds"`
	Control    Control     `json:"control"`
	Canary     Canary      `json:"canary"`
	Latency    Latency     `json:"latency_seconds"`
	Generator  Generator   `json:"generator"`
	History    History     `json:"history"`
	Timelines  []Timeline  `json:"timelines"` // of some damaged streams, the first ones
}

// Run says what was run. Seed and Command are enough to repeat it.
type Run struct {
	ID              string    `json:"id"`
	Profile         string    `json:"profile"`
	Seed            uint64    `json:"seed"`
	Command         string    `json:"command"`
	Version         string    `json:"version"` // of gapless
	Started         time.Time `json:"started"`
	DurationSeconds float64   `json:"duration_seconds"`
	// Stopped says why the run ended before its plan did: Interrupted, AtViolation,
	// TargetDied or AtThreshold; "" when it did not.
	Stopped string `json:"stopped"`
	Target  Target `json:"target"`
}

// Target says what was tested. Name and Version are what it says of itself.
type Target struct {
	URL      string `json:"url"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
	Dialect  string `json:"dialect"`
	Contract string `json:"contract"`
	Oracle   string `json:"oracle"`
	// Store is the event store of the reference server when the run started it
	// itself, else "".
	Store string `json:"store"`
	// PID is the process of the target, 0 when it is not known.
	PID int64 `json:"pid"`
}

// Load is the shape of the load. In the open model arrivals come at their planned
// instants, whatever happened to those before; MaxOpen bounds how many streams may
// be open, and an arrival that finds so many is dropped.
type Load struct {
	Model string `json:"model"` // Open or Closed; "" in results that do not say
	// Seconds is the planned time of the arrivals, WantedPerSecond their mean rate over
	// it, StartedPerSecond the mean rate of those that were opened. All are 0 in the
	// closed model.
	Seconds          float64 `json:"seconds"`
	WantedPerSecond  float64 `json:"wanted_per_second"`
	StartedPerSecond float64 `json:"started_per_second"`
	MaxOpen          int64   `json:"max_open"`
}

// Streams counts streams by outcome. The sum of the outcomes is Opened plus
// NotSent; DroppedArrivals were never opened.
type Streams struct {
	Planned       int64 `json:"planned"`
	Opened        int64 `json:"opened"`
	MaxOpen       int64 `json:"max_open"`
	Completed     int64 `json:"completed"`
	Indeterminate int64 `json:"indeterminate"`
	NotSent       int64 `json:"not_sent"`
	Refused       int64 `json:"refused"`
	Cancelled     int64 `json:"cancelled"`
	Undecided     int64 `json:"undecided"`
	Failed        int64 `json:"failed"`
	// Severed calls were cut and never answered, as the contract "none" allows.
	Severed         int64 `json:"severed"`
	DroppedArrivals int64 `json:"dropped_arrivals"`
}

// Judged counts the streams whose outcome says something about the target.
func (s Streams) Judged() int64 {
	return s.Completed + s.Refused + s.Cancelled + s.Failed + s.Severed
}

// Messages counts messages. Expected is the sum of Delivered, Lost,
// LostAllowed, Degraded and Undecided.
type Messages struct {
	Expected          int64 `json:"expected"`
	Delivered         int64 `json:"delivered"`
	Lost              int64 `json:"lost"`
	LostAllowed       int64 `json:"lost_allowed"`
	Degraded          int64 `json:"degraded"`
	Undecided         int64 `json:"undecided"`
	Duplicated        int64 `json:"duplicated"`
	DuplicatedAllowed int64 `json:"duplicated_allowed"`
	Misordered        int64 `json:"misordered"`
	Foreign           int64 `json:"foreign"`
	Corrupt           int64 `json:"corrupt"`
	Late              int64 `json:"late"`
}

// Responses counts the responses to calls.
type Responses struct {
	Expected int64 `json:"expected"`
	Received int64 `json:"received"`
	Missing  int64 `json:"missing"`
	// MissingAllowed never came, as the contract allows.
	MissingAllowed int64 `json:"missing_allowed"`
	Repeated       int64 `json:"repeated"`
}

// Faults counts injections.
type Faults struct {
	Seat     string `json:"seat"` // client or proxy
	Planned  int64  `json:"planned"`
	Injected int64  `json:"injected"`
	// Unplanned counts those of Injected that somebody asked for while the run went on.
	Unplanned int64 `json:"unplanned"`
	// Cuts counts the injections that ended their link; the others hurt it for a while.
	Cuts int64 `json:"cuts"`
	// Storms counts instants at which all links were struck; each link of each storm
	// is one of Injected.
	Storms int64 `json:"storms"`
	// Approximate counts resets that the proxy gave while bytes were still under way.
	Approximate    int64            `json:"approximate"`
	ByKind         map[string]int64 `json:"by_kind"`
	ByPlace        map[string]int64 `json:"by_place"`
	ByKindAndPlace []Cell           `json:"by_kind_and_place"`
}

// A Cell counts the injections of one kind at one place.
type Cell struct {
	Kind     string `json:"kind"`
	Place    string `json:"place"`
	Injected int64  `json:"injected"`
}

// A PlaceBound is the bound of one place: CutsAtRisk and LossBound95 of a result for
// the cuts there alone. Bound is 0 when something was lost after one of them.
type PlaceBound struct {
	Place      string  `json:"place"`
	CutsAtRisk int64   `json:"cuts_at_risk"`
	Bound      float64 `json:"bound"`
}

// Resumes counts attempts to resume.
type Resumes struct {
	Attempted        int64            `json:"attempted"`
	Succeeded        int64            `json:"succeeded"`
	Refused          int64            `json:"refused"`
	Conflicts        int64            `json:"conflicts"`
	ByStatus         map[string]int64 `json:"by_status"`
	ReplayedMessages int64            `json:"replayed_messages"`
	DoubleCuts       int64            `json:"double_cuts"`
	CutsInReplay     int64            `json:"cuts_in_replay"`
	// AskedSeconds is the reconnection time that the server asked for, 0 for none.
	AskedSeconds float64 `json:"asked_seconds"`
}

// Drops say what a cut costs where calls cannot be taken up again.
type Drops struct {
	// Unanswered of Cut calls of the load never got their response; UncutComplete of
	// Uncut calls met no cut and were answered. Share is Unanswered among all of them.
	Cut           int64   `json:"cut"`
	Unanswered    int64   `json:"unanswered"`
	Uncut         int64   `json:"uncut"`
	UncutComplete int64   `json:"uncut_complete"`
	Share         float64 `json:"share"`
	// Handlers of calls that were cut and never answered, as the target's own account
	// tells: all 0 without one.
	HandlersFinished  int64 `json:"handlers_finished"`
	HandlersCancelled int64 `json:"handlers_cancelled"`
	HandlersRunning   int64 `json:"handlers_running"`
	// Reissued calls were made again under a new id, and Answered of them; Messages came
	// again with those. Foreign messages were of the calls that had been cut.
	Reissued          int64   `json:"reissued"`
	ReissuesAnswered  int64   `json:"reissues_answered"`
	ReissuedMessages  int64   `json:"reissued_messages"`
	ForeignMessages   int64   `json:"foreign_messages"`
	ReissueP50Seconds float64 `json:"reissue_p50_seconds"`
	ReissueP95Seconds float64 `json:"reissue_p95_seconds"`
	// Twice of TwiceKnown calls that were made again ran twice, as far as the target tells.
	Twice      int64 `json:"twice"`
	TwiceKnown int64 `json:"twice_known"`
}

// Damage says how many streams broke an invariant that decides, and what they
// had met before.
type Damage struct {
	Streams int64   `json:"streams"`
	After   []After `json:"after"` // most streams first
}

// After counts the damaged streams whose last injection before the damage was
// Fault, such as rst@mid-event.
type After struct {
	Fault   string `json:"fault"`
	Streams int64  `json:"streams"`
}

// An Invariant is one promise and what became of it.
type Invariant struct {
	Name       string     `json:"name"`
	Claim      string     `json:"claim"`
	Level      string     `json:"level"`      // contract, MUST, derived or SHOULD
	Role       string     `json:"role"`       // demanded, watched or not applicable
	Verdict    string     `json:"verdict"`    // Holds, Violated, Inconclusive; "" when not applicable
	Why        string     `json:"why"`        // why it does not apply or could not tell
	Checked    int64      `json:"checked"`    // how often it was looked at
	Violations int64      `json:"violations"` // in its own unit: messages, calls, …
	Streams    int64      `json:"streams"`    // streams that broke it
	Evidence   []Evidence `json:"evidence"`   // the first ones
}

// Evidence is one violation.
type Evidence struct {
	Session  uint32 `json:"session"`
	Stream   uint32 `json:"stream"`
	Link     uint32 `json:"link"`     // the TCP connection it was seen on; 0: none
	Cursor   int64  `json:"cursor"`   // ordinal in the stream of the last committed id; -1: none
	Messages string `json:"messages"` // such as 23-25 or 12; "" when it is not about messages
	After    string `json:"after"`    // the injection before it, such as rst@mid-event; "" when there was none
	Text     string `json:"text"`     // one line
}

// A Probe is a question that was asked of a sample of settled streams or sessions, and
// how often the answer was as the rules want it. What is in neither count could not be
// told.
type Probe struct {
	Name       string `json:"name"`
	Asked      int64  `json:"asked"`
	Conforming int64  `json:"conforming"`
	Deviating  int64  `json:"deviating"`
}

// Reached compares what the run wanted to meet with what it met.
type Reached struct {
	Name string `json:"name"`
	Want int64  `json:"want"`
	Got  int64  `json:"got"`
	OK   bool   `json:"ok"`
}

// A Threshold is a limit on a figure and the figure.
type Threshold struct {
	Figure     string `json:"figure"`
	Expression string `json:"expression"`
	// Value is in seconds for a time, else a number or a share of one: Unit says which.
	Value float64 `json:"value"`
	OK    bool    `json:"ok"`
	Unit  string  `json:"unit"` // Seconds, Times or Share
	Why   string  `json:"why"`  // why there is no value; it is then not OK
}

// Control is the account of the calls made first, without faults.
type Control struct {
	Calls           int64 `json:"calls"`
	Complete        int64 `json:"complete"`
	MessagesPerCall int64 `json:"messages_per_call"` // 0: they do not agree, or are not numbered
}

// Canary tells whether the judge convicted the stream that lost an event on
// purpose.
type Canary struct {
	Convicted bool `json:"convicted"`
}

// Latency holds the figures of the run, in seconds.
type Latency struct {
	FirstEvent       Figures `json:"first_event"`
	EventGap         Figures `json:"event_gap"`
	Completion       Figures `json:"completion"`
	StartDelay       Figures `json:"start_delay"`
	ResumeDetect     Figures `json:"resume_detect"`
	ResumeBackoff    Figures `json:"resume_backoff"`
	ResumeConnect    Figures `json:"resume_connect"`
	ResumeFirstEvent Figures `json:"resume_first_event"`
	ResumeCaughtUp   Figures `json:"resume_caught_up"`
}

// Figures describe one distribution, in seconds.
type Figures struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	// Where the quantiles lie: see [Interval]. They make results comparable.
	P50Interval Range `json:"p50_interval"`
	P90Interval Range `json:"p90_interval"`
	P99Interval Range `json:"p99_interval"`
}

// Generator is what the load generator cost itself.
type Generator struct {
	CPUSeconds  float64 `json:"cpu_seconds"`
	MaxRSSBytes int64   `json:"max_rss_bytes"`
	Saturated   bool    `json:"saturated"`
}

// History says what a saved run kept: every record, but for the Dropped ones, which
// make the run inconclusive. Dir is "" when it was not saved.
type History struct {
	Dir     string `json:"dir"`
	Records int64  `json:"records"`
	Dropped int64  `json:"dropped"`
}
