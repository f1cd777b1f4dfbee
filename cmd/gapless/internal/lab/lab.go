// Package lab runs an experiment: it starts the target, sends load with faults
// through it, asks the judge, and fills in the result. It is the only package
// that imports load generator, faults and reference server.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/loadgen/twin"
	"github.com/gapless-dev/gapless/profiles"
)

// Config says what [Run] does. Profile and Start are required; Profile must be
// valid and built (profiles.Profile.Validate and Built).
type Config struct {
	Profile profiles.Profile
	Seed    uint64
	// Start makes the target reachable, by starting it if need be.
	Start func(context.Context) (*Endpoint, error)
	// Name of the run, eight hexadecimal digits, and Secret from which its marks are
	// made; both are drawn by the caller, so that a test can repeat them.
	Name   string
	Secret []byte
	// Version and Command go into the result as they are.
	Version, Command string
	// Offer, if set, is what a recorded run's target offered: the plans are drawn for it
	// and come out the same. Only, if not 0, runs that stream of the load alone.
	Offer *Offer
	Only  uint32
	// Save is the directory for history and result; "" saves nothing.
	Save string
	// FailFast stops the run at the first violation; Linger keeps the target that was
	// started for the run alive for so long after it, for a last scrape.
	FailFast bool
	Linger   time.Duration
	// Report, if set, is given the result while the target still runs; its error is
	// Run's.
	Report func(*result.Result) error
	// Halt, once closed, ends arrivals and faults; what is open drains and is judged.
	Halt <-chan struct{}
	// Armed, if set, is called once, right before the planned load begins, with what can be
	// asked of it from then on. Every link then follows its stream, which costs a little.
	Armed func(*Injector)
	// Observer, if set, sees the histories of the load beside the judge.
	Observer loadgen.Observer
	// Progress, if set, is told where the run is, every Interval (0 means 1 s), by one
	// goroutine at a time.
	Progress func(report.Progress)
	Interval time.Duration
}

// An UnreachableError says that nothing answered at the target's address, or nothing
// that opens MCP sessions.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// usage is what a process has cost so far.
type usage struct {
	cpu time.Duration
	rss int64 // the most so far, in bytes
}

// experiment is one run.
type experiment struct {
	c        Config
	endpoint *Endpoint
	dialer   *dialer
	ledger   *ledger // nil: the target keeps none
	began    time.Time
	usage    usage // of this process when the run began
	lasts    time.Duration
	counts   chaos.Counts
	stopped  string   // why the load ended before its plan, "" when it did not
	notes    []string // what kept the judge from seeing everything, for the result
	doubt    string   // why the control calls were not what they were meant to be
	remarks  []string // what one has to know of the target and the way to it
	limits   []result.Limit
	passed   atomic.Pointer[string] // which limit ended the run
}

// Run carries out the experiment and returns its result. Errors are failures of
// the tool or its surroundings, never of the target, but for an
// [*UnreachableError]. A stopped context ends the load; what was done is judged
// all the same.
func Run(ctx context.Context, c Config) (*result.Result, error) {
	x, err := begin(ctx, c)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if x.endpoint.exited != nil {
		go func() { // a server that died leaves nothing to wait for
			select {
			case <-x.endpoint.exited:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	res, err := x.run(ctx)
	if err == nil && c.Report != nil {
		err = c.Report(res)
	}
	if err == nil {
		x.linger(ctx)
	} else if outer.Err() == nil {
		err = x.cause(err)
	}
	// If the target died, that is the cause and whatever else failed the symptom. A user's
	// server that died under load has a result all the same.
	if died := x.endpoint.Stop(); died != nil && (res == nil || x.endpoint.died == nil) {
		return nil, errors.Join(died, err)
	}
	return res, err
}

// lastBreath is how long a server that was started for the run may take to be found dead,
// once it does not answer.
const lastBreath = 2 * time.Second

// cause looks whether a run that nobody ended found no target because its server died:
// that the load was broken off is then our own doing and tells nothing.
func (x *experiment) cause(err error) error {
	var none *UnreachableError
	stopped := errors.Is(err, context.Canceled)
	if x.endpoint.exited == nil || !stopped && !errors.As(err, &none) {
		return err
	}
	late := time.NewTimer(lastBreath)
	defer late.Stop()
	select {
	case <-x.endpoint.exited:
	case <-late.C:
		return err
	}
	switch gone := fmt.Errorf("no server at %s", x.endpoint.Shown); {
	case !stopped:
		return err
	case x.endpoint.died == nil: // the reference server is part of the tool
		return gone
	default:
		return &UnreachableError{gone}
	}
}

func (x *experiment) run(ctx context.Context) (*result.Result, error) {
	if err := x.look(ctx); err != nil {
		return nil, err
	}
	control, err := x.control(ctx)
	if err != nil {
		return nil, err
	}
	t, err := x.prepare(control)
	if err != nil {
		return nil, err
	}
	j := judge.New(t.setup)
	archive, err := x.save(t, j)
	if err != nil {
		return nil, err
	}
	if err := control.replay(j, x.ledger, archive); err != nil {
		return nil, err
	}
	tail, load, err := x.load(ctx, j, t, archive)
	if err != nil {
		return nil, err
	}
	r := x.result(t, load, j.Finish(tail))
	if archive != nil {
		err = errors.Join(archive.finish(tail, r), x.saveLog())
	}
	return r, err
}

// logFile is the name, in a saved run, of what the server printed that the run started.
const logFile = "target.log"

func (x *experiment) saveLog() error {
	if x.endpoint.log == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(x.c.Save, logFile), []byte(x.endpoint.log.String()+"\n"), 0o600)
}

// A trial is everything that is fixed before the first planned arrival.
type trial struct {
	setup  judge.Setup
	plans  Plans
	offer  Offer
	target loadgen.Target
	twins  []*twin.Twin // by call; nil where messages are not numbered by comparison
}

// prepare fixes what the run does and what the judge demands, from the profile and
// from what the control calls taught; nothing seen later changes it.
func (x *experiment) prepare(c *control) (trial, error) {
	p, facts := x.c.Profile, c.facts()
	if remark := buffered(c.histories(), c.target.Front); remark != "" {
		x.remarks = append(x.remarks, remark)
	}
	twins, why := c.twins(p)
	setup := judge.Setup{
		Revision: c.target.Revision, Dialect: p.Target.Dialect, Transport: p.Target.Transport, Contract: judge.Contract(p.Judge.Contract),
		Oracle: judge.Oracle(p.Judge.Oracle), Strict: p.Judge.Strict, Ignore: p.Judge.Ignore,
		Calls: callSetups(p, twins), Ledger: x.ledger != nil,
		Reach: reach(p), Probes: probes(p), Sessions: c.target.Sessions,
	}.With(facts)
	twins = x.compared(setup, twins, why)
	c.number(twins)
	c.forget()
	offer := x.offer(setup, facts)
	plans, err := NewPlans(p, x.c.Seed, offer, x.c.Only)
	if err != nil {
		return trial{}, err
	}
	setup.Streams, setup.Faults, setup.Named = plans.Streams(), plans.Planned(), plans.named(p)
	if x.c.Only != 0 {
		setup.Named = nil // they were named for the whole load
	}
	if err := setup.Validate(); err != nil {
		return trial{}, err
	}
	x.lasts = plans.Arrivals.Lasts()
	return trial{setup: setup, plans: plans, offer: offer, target: c.target, twins: twins}, nil
}

// probes is how many streams are sampled: none where nothing can be resumed.
func probes(p profiles.Profile) int {
	if speaksUMCP(p) {
		return 0
	}
	return p.Judge.Probes
}

// compared keeps the twins that the oracle goes by, and notes what keeps it from any.
func (x *experiment) compared(setup judge.Setup, twins []*twin.Twin, why []string) []*twin.Twin {
	used := make([]*twin.Twin, len(twins))
	for i, c := range setup.Calls {
		at := x.c.Profile.Calls[i].Expect.Sequence
		if c.Twin > 0 && at != "" && at != profiles.DefaultCall().Expect.Sequence && x.c.Profile.Judge.Oracle != string(judge.OracleTwin) {
			x.doubt = fmt.Sprintf("the messages of %s carry no numbers 1, 2, 3 … at %s", c.Name, at)
		}
		switch {
		case setup.Oracle == judge.OracleTwin && c.Twin > 0:
			used[i] = twins[i]
		case why[i] != "" && (setup.Oracle == judge.OracleNone || setup.Oracle == judge.OracleTwin) && c.Expected == 0 && !c.ResponseOnly:
			x.notes = append(x.notes, fmt.Sprintf("the messages of %s carry no numbers 1, 2, 3 …, and cannot be compared either: %s", c.Name, why[i]))
		}
	}
	return used
}

// offer is what the target was seen to do, or was when the run was recorded.
func (x *experiment) offer(setup judge.Setup, facts judge.Facts) Offer {
	if x.c.Offer != nil {
		return *x.c.Offer
	}
	o := Assume(x.c.Profile)
	if facts.Calls == 0 {
		return o
	}
	o.Priming, o.IDs = facts.Primed, facts.IDs
	for i, c := range setup.Calls {
		switch f := facts.Call(i); {
		case f.Numbered:
			o.Messages[i] = int(f.Messages)
		case c.Twin > 0:
			o.Messages[i] = int(c.Twin)
		case f.Silent:
			o.Messages[i] = int(c.Expected)
		}
	}
	return o
}

// reach is what the profile wants to meet; nil leaves it to the judge's defaults.
func reach(p profiles.Profile) []judge.Want {
	r := p.Reach
	var wants []judge.Want
	for _, w := range []judge.Want{
		{Name: "cuts", Want: int64(r.Cuts)}, {Name: "places", Want: int64(r.Places)}, {Name: "resumes", Want: int64(r.Resumes)},
		{Name: "storms", Want: int64(r.Storms)}, {Name: "double_cuts", Want: int64(r.DoubleCuts)},
		{Name: "cuts_in_replay", Want: int64(r.CutsInReplay)}, {Name: "judged_cuts", Want: int64(r.JudgedCuts)},
		{Name: "max_open", Want: int64(r.MaxOpen)},
	} {
		if w.Want > 0 {
			wants = append(wants, w)
		}
	}
	return wants
}

// start makes the target reachable. An interrupt ends the wait for it.
func start(ctx context.Context, c Config) (*Endpoint, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with start
		select {
		case <-c.Halt:
			cancel()
		case <-over:
		}
	}()
	endpoint, err := c.Start(ctx)
	select {
	case <-c.Halt:
		if err != nil {
			return nil, errors.Join(context.Canceled, err)
		}
	default:
	}
	return endpoint, err
}

func begin(ctx context.Context, c Config) (*experiment, error) {
	x := &experiment{c: c, began: time.Now(), usage: measure()}
	var err error
	if x.limits, err = limits(c.Profile); err != nil {
		return nil, err
	}
	endpoint, err := start(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := url.Parse(endpoint.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("target: %w", err), endpoint.Stop())
	}
	if endpoint.Shown == "" {
		endpoint.Shown = endpoint.URL
	}
	x.endpoint, x.dialer = endpoint, &dialer{addr: hostOf(endpoint.URL), dial: endpoint.Dial}
	if endpoint.Admin != "" {
		x.ledger = &ledger{url: endpoint.Admin, client: &http.Client{
			Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: endpoint.Dial},
		}}
	}
	return x, nil
}

// load sends the planned load and the canary through the faults. It returns when
// every stream is settled and judged, with what the judge cannot see in records.
func (x *experiment) load(ctx context.Context, j *judge.Judge, t trial, a *archive) (tail judge.Tail, load loadgen.Report, err error) {
	cfg, err := x.generator(t.plans.Arrivals)
	if err != nil {
		return tail, load, err
	}
	nemesis := x.arm(t.plans.Faults)
	if x.c.Profile.Faults.Seat == "proxy" {
		seat, bad := x.sit(t.plans.Faults, nemesis)
		if bad != nil {
			return tail, load, bad
		}
		defer func() { err = errors.Join(err, seat.leave()) }()
		cfg.Dial = seat.Dial
	}
	court := newCourt(j, t.plans.Faults, loadgen.NewMarks(x.c.Name, x.c.Secret), x.ledger, a, x.c.Observer)
	p := x.c.Profile
	for i := range cfg.Calls {
		cfg.Calls[i].Expected, cfg.Calls[i].Numbering.Twin = t.offer.Messages[i], t.twins[i]
	}
	if !t.offer.IDs && !speaksUMCP(p) {
		cfg.Reissue = x.c.Profile.Judge.Probes // what else a cut call costs
	}
	cfg.Observer, cfg.Live = court, new(loadgen.Live)
	cfg.Cancel, cfg.Probes = p.Load.Cancel.Fraction(), probes(p)
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if x.c.FailFast {
		court.violated = cancel
	}
	side := x.accompany(ctx, cancel, nemesis, cfg.Live, court, t.plans.Arrivals)
	x.armed(nemesis, cfg.Live, court, t.plans.Arrivals)
	load, err = loadgen.Run(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		err = nil // stopped by the user: the judge says what that leaves undecided
	}
	watching := side()
	broken := court.close()
	if court.failed != nil {
		x.notes = append(x.notes, court.failed.Error())
	}
	if n := load.Complaints; n.Count > 0 {
		x.remarks = append(x.remarks, fmt.Sprintf("%d calls brought an error, the first: %s", n.Count, clean(n.First)))
	}
	x.stopped = x.why(outer, court)
	if died := x.deceased(); died != nil {
		x.remarks = append(x.remarks, died.Error())
	}
	x.counts = nemesis.Counts()
	for _, remark := range []string{x.surpassed(), court.idle.sentence(), unplanned(x.counts)} {
		if remark != "" {
			x.remarks = append(x.remarks, remark)
		}
	}
	tail = judge.Tail{
		Trailer: true, LedgerDropped: court.dropped, Planned: load.Planned, MaxOpen: load.MaxOpen, DroppedArrivals: load.DroppedArrivals,
		Storms: x.counts.Storms, Strikes: x.counts.Strikes, StartDelayP99: startDelay(load), Saturated: load.Latencies != nil && load.Behind(), Stopped: x.stopped, Doubt: x.doubt,
	}
	if tail.Saturated {
		tail.Touched = load.DroppedArrivals // nobody knows what they would have met
		x.notes = append(x.notes, "the generator could not keep up: "+load.Shortfall())
	}
	return tail, load, errors.Join(unreachable(err), watching, broken)
}

// why says what ended the load before its plan; "" when nothing did.
func (x *experiment) why(ctx context.Context, c *court) string {
	select {
	case <-x.c.Halt:
		return result.Interrupted
	default:
	}
	switch {
	case x.deceased() != nil:
		return result.TargetDied
	case x.surpassed() != "":
		return result.AtThreshold
	case ctx.Err() != nil:
		return result.Interrupted
	case x.c.FailFast && c.judge.Violations() > 0:
		return result.AtViolation
	}
	return ""
}

// deceased says how a user's server died, nil while it has not.
func (x *experiment) deceased() error {
	if x.endpoint.died == nil {
		return nil
	}
	return x.endpoint.died()
}

// linger keeps what was started for the run alive, until it is interrupted.
func (x *experiment) linger(ctx context.Context) {
	if x.c.Linger <= 0 {
		return
	}
	timer := time.NewTimer(x.c.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.c.Halt:
	case <-ctx.Done():
	}
}

func startDelay(load loadgen.Report) time.Duration {
	if load.Latencies == nil {
		return 0
	}
	return load.Latencies.Quantile(loadgen.StartDelay, 99)
}

// unreachable marks the errors that mean that no MCP server answered.
func unreachable(err error) error {
	var none *loadgen.UnreachableError
	var strange *loadgen.HandshakeError
	if errors.As(err, &none) || errors.As(err, &strange) {
		return &UnreachableError{err}
	}
	return err
}
