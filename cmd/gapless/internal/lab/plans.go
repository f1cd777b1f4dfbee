package lab

import (
	"fmt"
	"io"
	"slices"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/profiles"
)

// Plans are the two plans of a run: pure functions of profile, seed and what the
// target offers.
type Plans struct {
	Arrivals loadgen.Plan
	Faults   *chaos.Plan

	only uint32 // the only stream that runs, 0 for all
}

// Streams is the number of planned streams of the load, Planned that of their faults.
func (p Plans) Streams() int { return p.Arrivals.Total() }

// Planned is the number of planned injections.
func (p Plans) Planned() int {
	if p.only != 0 {
		return len(p.Faults.Stream(p.only))
	}
	// How often a storm strikes is known only when the run is over; once is certain.
	return p.Faults.Total().Faults + len(p.Faults.Storms())
}

// An Offer is what a target is known or assumed to do.
type Offer struct {
	// Messages of each call of the profile, 0 when unknown.
	Messages []int
	// Priming, IDs and Head: it opens its streams with an event of an id and no data,
	// gives event ids, and names the head of its log when a stream is resumed.
	Priming, IDs, Head bool
}

// Assume is the offer that a profile lets one expect before any call was made: the
// reference server's, or that of a server that does everything.
func Assume(p profiles.Profile) Offer {
	resumes := p.Target.Dialect == "resume"
	o := Offer{IDs: resumes, Priming: resumes && string(p.Target.Protocol) >= "2025-11-25", Head: resumes && p.Reference()}
	if drafted(p) { // its streams begin with notifications/stream/create
		o.IDs, o.Priming, o.Head = true, true, false
	}
	for _, c := range p.Calls {
		n := max(int(c.Expect.Messages), 0)
		if n == 0 && emits(c) {
			n = p.Emit.Messages
		}
		o.Messages = append(o.Messages, n)
	}
	return o
}

// NewPlans draws the plans. If only is not 0, just that stream of the load runs; what
// happens to it is what would happen among the others.
func NewPlans(p profiles.Profile, seed uint64, o Offer, only uint32) (Plans, error) {
	cfg := loadConfig(p, seed)
	all, err := loadgen.NewPlan(cfg)
	if err != nil {
		return Plans{}, err
	}
	n := all.Total()
	if only > uint32(n) {
		return Plans{}, fmt.Errorf("stream %d: the load has %d", only, n)
	}
	if only > 0 {
		cfg = loadgen.PlanConfig{Seed: seed, Streams: 1, First: only, Sessions: cfg.Sessions, Kind: cfg.Kind, Weights: cfg.Weights}
	}
	cfg.Canary = uint32(n + controlCalls(p) + 1)
	arrivals, err := loadgen.NewPlan(cfg)
	if err != nil {
		return Plans{}, err
	}
	faults, err := faultPlan(p, seed, o, n, arrivals)
	if err != nil {
		return Plans{}, err
	}
	return Plans{Arrivals: arrivals, Faults: faults, only: only}, nil
}

// faultPlan draws the faults of n streams and of what comes beside them.
func faultPlan(p profiles.Profile, seed uint64, o Offer, n int, arrivals loadgen.Plan) (*chaos.Plan, error) {
	f := p.Faults
	mix, err := Mix(f.Mix)
	if err != nil {
		return nil, err
	}
	if speaksUMCP(p) {
		onGet(mix)
	}
	seat, err := chaos.ParseSeat(f.Seat)
	if err != nil {
		return nil, err
	}
	calls, err := loadgen.NewPlan(loadConfig(p, seed))
	if err != nil {
		return nil, err
	}
	cfg := chaos.PlanConfig{
		Seed: seed, Streams: n, Messages: slices.Max(o.Messages), Mix: mix, Priming: o.Priming, IDs: o.IDs, Head: o.Head,
		Seat: seat, Sessions: arrivals.Sessions(), GetStreams: arrivals.Gets(), FirstGet: uint32(n + controlCalls(p) + 2),
		Start: f.Start.Std(), Stop: f.Stop.Std(), OnGet: speaksUMCP(p),
	}
	if len(o.Messages) > 1 {
		cfg.MessagesOf = func(stream uint32) int { return o.Messages[callOf(calls, stream)] }
	}
	return chaos.NewPlan(cfg)
}

// callOf is the call that a stream of the load makes; those beside the load make the
// first.
func callOf(load loadgen.Plan, stream uint32) int {
	if stream < 1 || int(stream) > load.Total() {
		return 0
	}
	return load.Arrival(load.Gets() + int(stream) - 1).Call
}

// Mix translates the faults of a profile.
func Mix(items []profiles.Fault) ([]chaos.Fault, error) {
	var all []chaos.Fault
	for _, f := range items {
		kind, err := chaos.ParseKind(f.Kind)
		if err != nil {
			return nil, err
		}
		one := chaos.Fault{
			Kind: kind, PerStream: f.PerStream, Every: f.Every.Std(), For: f.For.Std(), By: f.By.Std(), Rate: float64(f.Rate),
		}
		if kind.RunWide() {
			one.Share = f.Share.Fraction()
		}
		if f.Kind == "status" {
			one.Code = f.Code
		}
		for _, name := range f.At {
			place, err := chaos.ParsePlace(name)
			if err != nil {
				return nil, err
			}
			one.At = append(one.At, place)
		}
		all = append(all, one)
	}
	return all, nil
}

// loadConfig is the plan of the load alone, without canary and control calls.
func loadConfig(p profiles.Profile, seed uint64) loadgen.PlanConfig {
	cfg := loadgen.PlanConfig{
		Seed: seed, Sessions: p.SessionCount(), GetStreams: p.Load.GetStreams, Kind: history.StreamLoad,
		Weights: weights(p),
	}
	if l := p.Load; l.Rate == 0 && len(l.Stages) == 0 {
		cfg.Streams, cfg.Calls, cfg.Ramp = l.Streams, l.Calls, l.Ramp.Std()
	} else {
		cfg.Rate, cfg.Duration, cfg.MaxOpen = l.Rate.PerSecond(), l.Duration.Std(), l.MaxOpen
		for _, s := range l.Stages {
			cfg.Stages = append(cfg.Stages, loadgen.Stage{For: s.For.Std(), Rate: s.Rate.PerSecond()})
		}
	}
	return cfg
}

// WriteTo writes both plans as text with their hashes: what --plan prints.
func (p Plans) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, part := range []io.WriterTo{p.Arrivals, p.Faults} {
		n, err := part.WriteTo(w)
		total += n
		if err != nil {
			return total, err
		}
	}
	n, err := fmt.Fprintf(w, "sha256 arrivals %s\nsha256 faults   %s\n", p.Arrivals.Hash(), p.Faults.Hash())
	return total + int64(n), err
}

// named lists the places that must be struck: those that the profile names itself, if
// the plan has a fault there or cannot have one. A load too small to draw every named
// place is not blamed for it.
func (p Plans) named(profile profiles.Profile) []string {
	planned := p.Faults.Total()
	skipped := map[string]bool{}
	if profile.Judge.Contract != string(judge.NoPromise) { // which is judged without resumes too
		for _, s := range p.Faults.Skipped() {
			skipped[s.Place.String()] = true
		}
	}
	var all []string
	for _, f := range profile.Faults.Mix {
		for _, place := range f.At {
			name, err := chaos.ParsePlace(place)
			if err == nil && (planned.ByPlace(name) > 0 || skipped[place]) && !slices.Contains(all, place) {
				all = append(all, place)
			}
		}
	}
	return all
}
