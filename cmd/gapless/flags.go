package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/profiles"
)

// An override is a flag of `run` that replaces one value of the profile.
type override struct {
	name, value, usage string
	// path names the profile's field, for errors and for what counts as changed.
	path string
	set  func(p *profiles.Profile, value string) error
}

// declare declares the flag on a command.
func (o override) declare(cmd *cobra.Command) { cmd.Flags().Var(&word{kind: o.value}, o.name, o.usage) }

// A word is the value of a flag as it was written; kind is what the help text calls it.
type word struct{ text, kind string }

func (w *word) String() string     { return w.text }
func (w *word) Set(s string) error { w.text = s; return nil }
func (w *word) Type() string       { return w.kind }

// overrides lists, in the order of the help text, every flag that replaces a value
// of the profile (DESIGN §6). Flags are applied in this order, whatever their
// order on the command line; values are read by the profile's own types.
func overrides() []override {
	return append(reachOverrides(), []override{
		{"target", "URL", "test this server (default: the reference server, started for the run)", "target.url",
			func(p *profiles.Profile, v string) error { p.Target.URL = v; return nil }},
		{"exec", "CMD", "start the server with this command first, stop it afterwards; it is written down with the run, so keep secrets in the environment", "target.exec",
			func(p *profiles.Profile, v string) error { p.Target.Exec = v; return nil }},
		{"transport", "T", "http, or stdio with --exec", "target.transport",
			func(p *profiles.Profile, v string) error { p.Target.Transport = v; return nil }},
		{"dialect", "D", "how resuming looks on the wire: resume, streams, umcp or modern", "target.dialect",
			func(p *profiles.Profile, v string) error { p.Target.Dialect = v; return nil }},
		{"max-rate", "R", "starts per second at most, whatever the load, such as 5/s", "target.max_rate",
			func(p *profiles.Profile, v string) error { return p.Target.MaxRate.UnmarshalText([]byte(v)) }},
		{"protocol", "REV", "revision of MCP: 2025-11-25, 2025-06-18, 2025-03-26 or 2026-07-28", "target.protocol",
			func(p *profiles.Profile, v string) error { return p.Target.Protocol.UnmarshalText([]byte(v)) }},
		{"tool", "NAME", "the tool to call (reference server: emit)", "calls",
			func(p *profiles.Profile, v string) error {
				c := firstCall(p)
				c.Tool, c.Resource, c.Prompt = v, "", ""
				return nil
			}},
		{"args", "JSON", "arguments of --tool, a JSON object", "calls", setArgs},
		{"expect", "N", "messages per call (default: learnt from control calls)", "calls",
			func(p *profiles.Profile, v string) error {
				return firstCall(p).Expect.Messages.UnmarshalText([]byte(v))
			}},
		{"streams", "N", "streams open at once; without --calls nothing is emitted until all are open", "load.streams", setStreams},
		{"calls", "N", "calls in all (default: as many as streams)", "load.calls", setCalls},
		{"rate", "R", "starts per second, such as 50/s: the open model", "load.rate", setRate},
		{"duration", "D", "how long the open model starts calls (default 30s)", "load.duration", setDuration},
		{"sessions", "N", "sessions that share the streams (default: one per 10)", "load.sessions",
			number(func(p *profiles.Profile) *int { return &p.Load.Sessions })},
		{"messages", "N", "messages of emit per call", "emit.messages",
			number(func(p *profiles.Profile) *int { return &p.Emit.Messages })},
		{"interval", "D", "time between messages of emit, such as 20ms", "emit.interval",
			func(p *profiles.Profile, v string) error { return p.Emit.Interval.UnmarshalText([]byte(v)) }},
		{"bytes", "N", "bytes per message of emit, such as 200B", "emit.bytes", setBytes},
		{"seat", "SEAT", "where the faults act from: client or proxy", "faults.seat",
			func(p *profiles.Profile, v string) error { p.Faults.Seat = v; return nil }},
		{"contract", "C", "what the target promises: exactly-once, at-least-once, bounded or none", "judge.contract",
			func(p *profiles.Profile, v string) error { p.Judge.Contract = v; return nil }},
		{"oracle", "O", "where the truth comes from: auto, ledger, numbered or twin", "judge.oracle",
			func(p *profiles.Profile, v string) error { p.Judge.Oracle = v; return nil }},
		{"store", "STORE", "event store of the reference server: memory or none", "server.store",
			func(p *profiles.Profile, v string) error { p.Server.Store = v; return nil }},
		{"delivery", "D", "how the reference server delivers: follow (a connection walks the log) or handoff (replay, then attach)", "server.delivery",
			func(p *profiles.Profile, v string) error { p.Server.Delivery = v; return nil }},
		{"lock", "SCOPE", "who shares the locks of the reference server's store and delivery: stream, session or global", "server.lock",
			func(p *profiles.Profile, v string) error { p.Server.Lock = v; return nil }},
		{"on-conflict", "WAY", "resume of a stream that is attached: takeover or 409", "server.on_conflict",
			func(p *profiles.Profile, v string) error { p.Server.OnConflict = v; return nil }},
		{"defect", "CODE", "plant a bug in the reference server: S03, S03b,k=10, S05, S05b", "server.defect",
			func(p *profiles.Profile, v string) error { p.Server.Defect = v; return nil }},
	}...)
}

// number makes the setter of a whole number; p picks the field.
func number(p func(*profiles.Profile) *int) func(*profiles.Profile, string) error {
	return func(profile *profiles.Profile, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of 1 or more", v)
		}
		*p(profile) = n
		return nil
	}
}

func setStreams(p *profiles.Profile, v string) error {
	n := 0
	if err := number(func(*profiles.Profile) *int { return &n })(p, v); err != nil {
		return err
	}
	p.Load.UseClosed(n, 0)
	p.Load.Hold = true // setCalls, which comes later, takes it back
	p.Load.Ramp = max(p.Load.Ramp, profiles.Duration(n)*startEvery)
	return nil
}

// startEvery spreads the starts of a load that --streams makes larger than its
// profile's: opening a stream costs both sides a call, and a generator that cannot
// keep up has no alibi.
const startEvery = profiles.Duration(time.Millisecond)

func setCalls(p *profiles.Profile, v string) error {
	p.Load.Hold = false
	return number(func(p *profiles.Profile) *int { return &p.Load.Calls })(p, v)
}

// setRate switches to the open model, for 30 s unless something says how long.
func setRate(p *profiles.Profile, v string) error {
	var rate profiles.Rate
	if err := rate.UnmarshalText([]byte(v)); err != nil {
		return err
	}
	duration := p.Load.Duration
	if duration == 0 {
		duration = profiles.Duration(30 * time.Second)
	}
	p.Load.UseRate(rate, duration)
	return nil
}

func setDuration(p *profiles.Profile, v string) error {
	if p.Load.Rate == 0 {
		return errors.New("only the open model lasts so long; give --rate too")
	}
	return p.Load.Duration.UnmarshalText([]byte(v))
}

func setBytes(p *profiles.Profile, v string) error {
	if !strings.HasSuffix(v, "B") {
		v += "B" // a bare number of the command line is in bytes; a profile wants the unit
	}
	return p.Emit.Bytes.UnmarshalText([]byte(v))
}

// templates finds what is filled in anew for every call.
var templates = regexp.MustCompile(`\{\{.*?\}\}`)

func escapeQuotes(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

func setArgs(p *profiles.Profile, v string) error {
	var args map[string]any
	err := json.Unmarshal([]byte(v), &args)
	if err != nil { // quotes inside a template need no escape here
		err = json.Unmarshal([]byte(templates.ReplaceAllStringFunc(v, escapeQuotes)), &args)
	}
	if err != nil || args == nil {
		return errors.New(`must be a JSON object, such as '{"n": 60}'`)
	}
	firstCall(p).Args = args
	return nil
}

// firstCall is the one call that flags describe: they drop the profile's others.
func firstCall(p *profiles.Profile) *profiles.Call {
	p.Calls = slices.Clone(p.Calls)
	if len(p.Calls) == 0 {
		p.Calls = []profiles.Call{profiles.DefaultCall()}
	}
	p.Calls = p.Calls[:1]
	return &p.Calls[0]
}

// addOverrides declares the flags on a command.
func addOverrides(cmd *cobra.Command) {
	for _, o := range overrides() {
		o.declare(cmd)
	}
	cmd.Flags().StringArray("stage", nil, "within D the open model moves to RATE: `D:RATE`, such as 30s:200/s; repeatable")
	cmd.Flags().StringArray("fault", nil, "N faults per stream, such as rst@mid-event:1, in place of the profile's (gapless help faults); none: no faults; repeatable; `KIND[@PLACE[,PLACE]][:N]`")
	cmd.Flags().StringArray("threshold", nil, "exit 99 if the `FIGURE:LIMIT` fails, such as 'resume_caught_up:p(99)<1s'; repeatable, added to the profile's")
	addReachSwitches(cmd)
	cmd.Flags().Bool("strict", false, "deviations from SHOULD clauses decide the verdict too")
}

// applyOverrides puts the flags that were given over the profile and checks the
// outcome. All complaints come at once.
func applyOverrides(cmd *cobra.Command, p *profiles.Profile) error {
	var complaints []error
	given := func(name, path string, set func() error) {
		if !cmd.Flags().Changed(name) {
			return
		}
		if cmd.Flags().Lookup(name).Value.String() == "" {
			// An unset variable of a script: silently testing something else would be a
			// green that nobody earned.
			complaints = append(complaints, fmt.Errorf("--%s: the value is empty", name))
			return
		}
		if err := set(); err != nil {
			complaints = append(complaints, fmt.Errorf("--%s: %w", name, err))
		}
		p.Mark(path)
	}
	for _, o := range overrides() {
		given(o.name, o.path, func() error { return o.set(p, cmd.Flags().Lookup(o.name).Value.String()) })
	}
	given("stage", "load.stages", func() error { return setStages(cmd, p) })
	given("fault", "faults.mix", func() error { return setFaults(cmd, p) })
	given("threshold", "thresholds", func() error { return setThresholds(cmd, p) })
	given("header", "target.headers", func() error { return setHeaders(cmd, &p.Target) })
	given("insecure", "target.tls", func() (err error) { p.Target.TLS.Insecure, err = cmd.Flags().GetBool("insecure"); return err })
	given("http2", "target.http", func() error { return setHTTP2(cmd, &p.Target) })
	given("strict", "judge.strict", func() (err error) { p.Judge.Strict, err = cmd.Flags().GetBool("strict"); return err })
	for _, closed := range []string{"streams", "calls"} {
		for _, open := range []string{"rate", "stage"} {
			if cmd.Flags().Changed(closed) && cmd.Flags().Changed(open) {
				complaints = append(complaints, fmt.Errorf("--%s and --%s: the load is either closed or open", closed, open))
			}
		}
	}
	if cmd.Flags().Changed("rate") && cmd.Flags().Changed("stage") {
		complaints = append(complaints, errors.New("--rate and --stage: stages say the rate themselves"))
	}
	if len(complaints) > 0 {
		return errors.Join(complaints...)
	}
	if changesReach(cmd) {
		p.Reach = profiles.Reach{}
	}
	p.Resolve()
	if err := p.Validate(); err != nil {
		return err
	}
	return p.Built()
}

// changesReach tells whether a flag changed what the profile's own reach was written
// for; then the default reach applies (VERDICT §5).
func changesReach(cmd *cobra.Command) bool {
	changed := cmd.Flags().Changed("fault") || cmd.Flags().Changed("stage")
	way := reachOverrides() // to the target: nothing of the run
	for _, o := range overrides()[len(way):] {
		part, _, _ := strings.Cut(o.path, ".")
		changed = changed || cmd.Flags().Changed(o.name) && part != "judge" && o.name != "defect"
	}
	return changed || cmd.Flags().Changed("contract")
}

func setStages(cmd *cobra.Command, p *profiles.Profile) error {
	given, err := cmd.Flags().GetStringArray("stage")
	var stages []profiles.Stage
	for _, s := range given {
		stage, bad := profiles.ParseStage(s)
		err = errors.Join(err, bad)
		stages = append(stages, stage)
	}
	p.Load.UseStages(stages)
	return err
}

func setFaults(cmd *cobra.Command, p *profiles.Profile) error {
	given, err := cmd.Flags().GetStringArray("fault")
	if slices.Contains(given, "") {
		return errors.New("the value is empty; none means no faults")
	}
	p.Faults.Mix = []profiles.Fault{}
	for _, s := range given {
		f, bad := profiles.ParseFault(s)
		err = errors.Join(err, bad)
		p.Faults.Mix = append(p.Faults.Mix, f)
	}
	return err
}

// setThresholds adds limits to those of the profile.
func setThresholds(cmd *cobra.Command, p *profiles.Profile) error {
	given, err := cmd.Flags().GetStringArray("threshold")
	all := maps.Clone(p.Thresholds)
	if all == nil {
		all = profiles.Thresholds{}
	}
	for _, s := range given {
		figure, limit, ok := strings.Cut(s, ":")
		if !ok {
			err = errors.Join(err, fmt.Errorf("%q is not of the form FIGURE:LIMIT, such as 'resume_caught_up:p(99)<1s'", s))
			continue
		}
		figure = strings.TrimSpace(figure)
		all[figure] = append(slices.Clone(all[figure]), profiles.Threshold{Is: strings.TrimSpace(limit)})
	}
	p.Thresholds = all
	return err
}
