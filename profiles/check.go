package profiles

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A finding is a contradiction in a profile and the path of the field at fault.
// An alone one is about that field by itself, whatever else is wrong.
type finding struct {
	path, text string
	alone      bool
}

type findings []finding

func (f *findings) add(path, format string, args ...any) {
	*f = append(*f, finding{path: path, text: fmt.Sprintf(format, args...)})
}

// word checks that a field holds one of the words it may hold.
func (f *findings) word(path, got string, known []string) {
	if !slices.Contains(known, got) {
		text := fmt.Sprintf("unknown %s %s; %s", noun(path), quote(got), meant(got, known))
		*f = append(*f, finding{path: path, text: text, alone: true})
	}
}

// noun is what the words of a field are called.
func noun(path string) string {
	if name := last(path); !strings.HasPrefix(name, "at[") {
		return strings.ReplaceAll(name, "_", " ")
	}
	return "place"
}

func (f *findings) least(path string, got, want int) {
	if got < want {
		f.add(path, "%s is %d; it has to be at least %d", last(path), got, want)
	}
}

// Validate joins all contradictions, each with the path of its field. [Load] has
// called it; the command calls it again after it has applied flags.
func (p Profile) Validate() error {
	var all []error
	for _, f := range p.check() {
		all = append(all, fmt.Errorf("%s: %s", f.path, f.text))
	}
	return errors.Join(all...)
}

func (p Profile) check() findings {
	var f findings
	if p.Version != 1 {
		f.add("version", "version %d; this gapless reads version 1", p.Version)
	}
	p.checkTarget(&f)
	p.checkUMCP(&f)
	p.checkStreams(&f)
	p.checkServer(&f)
	p.checkLoad(&f)
	p.checkCalls(&f)
	p.checkFaults(&f)
	p.checkRest(&f)
	return f
}

func (p Profile) checkTarget(f *findings) {
	t := p.Target
	f.word("target.dialect", t.Dialect, dialects())
	f.word("target.transport", t.Transport, transports())
	if t.Exec == "" && p.Explicit("target.ready_timeout") {
		f.add("target.ready_timeout", "ready_timeout without exec: nothing is started that could get ready")
	}
	checkURL(f, t)
	if r := revisions(t.Dialect); r != nil && !slices.Contains(r, t.Protocol) {
		f.add("target.protocol", "protocol %s does not belong to dialect %s; %s", quote(string(t.Protocol)), t.Dialect, otherDialect(t))
	}
	if t.Dialect != "streams" && (t.Transport == "ws") {
		f.add("target.transport", "transport ws belongs to dialect streams, not to %s", t.Dialect)
	}
	if n := t.Token.sources(); n > 1 {
		f.add("target.token", "a token from %d places; keep one of env, file and command", n)
	}
	checkOAuth(f, t)
	f.word("target.http", t.HTTP, []string{"auto", "1.1", "2"})
	if (t.TLS.Cert == "") != (t.TLS.Key == "") {
		f.add("target.tls", "a client certificate needs both cert and key")
	}
	f.least("target.pid", t.PID, 0)
}

// checkUMCP reports what the dialect umcp has no use for.
func (p Profile) checkUMCP(f *findings) {
	if p.Target.Dialect != "umcp" {
		return
	}
	if p.Target.Transport == "stdio" {
		f.add("target.transport", "transport stdio has no connections, which is what dialect umcp is about")
	}
	if p.Load.GetStreams > 0 {
		f.add("load.get_streams", "get_streams in dialect umcp: each stream of the load is the GET stream of its session")
	}
	if p.Load.Hold && p.Load.Streams > p.SessionCount() {
		f.add("load.hold", "hold with %d streams in %d sessions: in dialect umcp a session has one stream, so they are never open together",
			p.Load.Streams, p.SessionCount())
	}
	for _, name := range []string{"store", "delivery", "lock", "retry", "on_conflict", "defect", "limits"} {
		if path := "server." + name; p.Explicit(path) && (name != "store" || p.Server.Store != "none") {
			f.add(path, "%s: in dialect umcp the reference server keeps nothing and resumes nothing", name)
		}
	}
}

// checkStreams reports what the dialect streams has no use for.
func (p Profile) checkStreams(f *findings) {
	if p.Target.Dialect != "streams" {
		return
	}
	if p.Load.GetStreams > 0 {
		f.add("load.get_streams", "get_streams in dialect streams: there are no streams but those of calls")
	}
	for _, name := range []string{"store", "delivery", "lock", "on_conflict", "defect", "limits"} {
		if path := "server." + name; p.Explicit(path) {
			f.add(path, "%s: in dialect streams the reference server has buffers of its own, and nothing to set but retry, which is its resumeInterval.min", name)
		}
	}
}

func checkOAuth(f *findings, t Target) {
	o := t.OAuth
	switch n := o.Secret.sources(); {
	case o.TokenURL == "" && o.ClientID == "" && n == 0 && len(o.Scopes) == 0:
		return
	case o.TokenURL == "" || o.ClientID == "" || n == 0:
		f.add("target.oauth", "client credentials need token_url, client_id and client_secret")
	case n > 1:
		f.add("target.oauth", "a client secret from %d places; keep one of env, file and command", n)
	case t.Token.sources() > 0:
		f.add("target.oauth", "token and oauth; keep one of them")
	}
}

func checkURL(f *findings, t Target) {
	if t.URL != "" && t.Exec != "" && t.Transport == "stdio" {
		f.add("target.url", "url with exec over stdio: a stdio server has no URL; leave url out")
	}
	if t.URL != "" && t.Exec != "" && t.Transport != "stdio" {
		return // started first, then tested at its URL
	}
	if t.Exec != "" && t.Transport != "stdio" {
		f.add("target.exec", "exec without url: say where the started server listens (url, --target URL), or that it speaks stdio (transport: stdio, --transport stdio)")
	}
	if t.URL == "" {
		return
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" && u.Scheme != "http+unix" {
		f.add("target.url", "bad url %s; write it like http://127.0.0.1:3000/mcp", quote(t.URL))
		return
	}
	if !slices.Contains([]string{"http", "https", "http+unix", "ws", "wss"}, u.Scheme) {
		f.add("target.url", "unknown scheme %s; known: http, https, http+unix, ws or wss", quote(u.Scheme))
	}
}

// otherDialect says which dialect a revision belongs to, or which revisions the
// dialect has.
func otherDialect(t Target) string {
	for _, d := range dialects() {
		if slices.Contains(revisions(d), t.Protocol) {
			return fmt.Sprintf("did you mean dialect: %s?", d)
		}
	}
	var known []string
	for _, r := range revisions(t.Dialect) {
		known = append(known, string(r))
	}
	return meant(string(t.Protocol), known)
}

func (p Profile) checkServer(f *findings) {
	s := p.Server
	if p.Explicit("server") && !p.Reference() {
		f.add("server", "server settings with target.url or target.exec: they belong to the reference server, which is not started; leave one of them out")
	}
	kind, rest, _ := strings.Cut(s.Store, ":")
	switch {
	case !slices.Contains([]string{"memory", "none", "bbolt", "nats"}, kind):
		f.add("server.store", "unknown store %s; %s", quote(s.Store), meant(kind, []string{"memory", "none", "bbolt:FILE", "nats[:URL]"}))
	case kind == "bbolt" && rest == "":
		f.add("server.store", "store bbolt needs a file; did you mean \"bbolt:events.db\"?")
	case (kind == "memory" || kind == "none") && s.Store != kind:
		f.add("server.store", "store %s takes nothing after a colon; did you mean %q?", kind, kind)
	}
	f.word("server.delivery", s.Delivery, []string{"follow", "handoff"})
	if s.Delivery == "handoff" && s.Store == "none" {
		f.add("server.delivery", "delivery handoff replays from an event store, and store is none; leave one of them out")
	}
	f.word("server.lock", s.Lock, []string{"stream", "session", "global"})
	f.word("server.on_conflict", s.OnConflict, []string{"takeover", "409"})
	f.least("server.limits.events", s.Limits.Events, 1)
	f.least("server.limits.streams", s.Limits.Streams, 1)
	if s.Limits.Bytes < 1 {
		f.add("server.limits.bytes", "bytes is 0; a store has to hold something")
	}
}

func (p Profile) checkLoad(f *findings) {
	l := p.Load
	switch {
	case l.Rate > 0 && len(l.Stages) > 0:
		f.add("load.stages", "rate and stages in one load; keep one of them")
	case l.open() && l.Streams > 0:
		f.add("load.streams", "streams asks for the closed model, rate or stages for the open one; keep one of them")
	case l.open() && l.Calls > 0:
		f.add("load.calls", "calls belongs to the closed model; in the open one rate and duration say how many")
	case l.open() && l.Hold:
		f.add("load.hold", "hold belongs to the closed model: with a rate there is no moment when all streams are open")
	case l.Rate > 0 && l.Duration == 0:
		f.add("load.rate", "rate without duration; say how long")
	case l.Rate == 0 && l.Duration > 0:
		f.add("load.duration", "duration without rate; did you mean \"rate: 50/s\" beside it?")
	case !l.open() && l.Streams < 1:
		f.add("load.streams", "no load: name streams, or rate and duration, or stages")
	case l.Calls > 0 && l.Calls < l.Streams:
		f.add("load.calls", "%d calls cannot keep %d streams open; did you mean streams: %d (--streams %d)?", l.Calls, l.Streams, l.Calls, l.Calls)
	case l.Streams > l.MaxOpen:
		f.add("load.streams", "%d streams with max_open %d; raise max_open", l.Streams, l.MaxOpen)
	case l.Hold && l.Calls > l.Streams:
		f.add("load.hold", "hold waits until all calls are open, but only %d of %d can be at once", l.Streams, l.Calls)
	}
	for i, s := range l.Stages {
		if s.For == 0 {
			f.add(fmt.Sprintf("load.stages[%d]", i), "a stage without for; say how long it takes")
		}
	}
	if len(l.Stages) > 0 && l.Arrivals() == 0 {
		f.add("load.stages", "no load: no stage has a rate above 0")
	}
	f.least("load.max_open", l.MaxOpen, 1)
	for path, v := range map[string]int{"streams": l.Streams, "calls": l.Calls, "sessions": l.Sessions, "get_streams": l.GetStreams, "control": l.Control} {
		f.least("load."+path, v, 0)
	}
}

func (p Profile) checkCalls(f *findings) {
	if len(p.Calls) == 0 {
		f.add("calls", "no calls; leave the key out for the tool emit")
	}
	for i, c := range p.Calls {
		path := fmt.Sprintf("calls[%d]", i)
		f.least(path+".weight", c.Weight, 1)
		c.checkKind(f, path)
		if c.Deadline == 0 {
			f.add(path+".deadline", "deadline is 0s; a stream needs time")
		}
		for name, pointer := range map[string]string{"sequence": c.Expect.Sequence, "total": c.Expect.Total, "digest": c.Expect.Digest, "payload": c.Expect.Payload} {
			if pointer != "" && !strings.HasPrefix(pointer, "/") {
				f.add(path+".expect."+name, "%s is no JSON Pointer; did you mean %q?", quote(pointer), "/"+strings.ReplaceAll(pointer, ".", "/"))
			}
		}
	}
	e := p.Emit
	f.least("emit.messages", e.Messages, 0)
	f.least("emit.burst", e.Burst, 1)
	f.least("emit.polling_closes", e.PollingCloses, 0)
	f.least("emit.requests", e.Requests, 0)
	if t := p.Target; e.PollingCloses > 0 && t.Dialect == "resume" && t.Protocol < pollingRevision {
		f.add("emit.polling_closes", "polling_closes with protocol %s: a server may close a call that goes on from %s", t.Protocol, pollingRevision)
	}
}

// checkKind checks that a call says what it asks for, once.
func (c Call) checkKind(f *findings, path string) {
	named := 0
	for _, name := range []string{c.Tool, c.Resource, c.Prompt} {
		if name != "" {
			named++
		}
	}
	switch {
	case named == 0:
		f.add(path+".tool", "a call without tool; say which one, or which resource or prompt")
	case named > 1:
		f.add(path, "a call of several things; keep one of tool, resource and prompt")
	case c.Resource != "" && len(c.Args) > 0:
		f.add(path+".args", "args with resource: a resource is read by its URI alone")
	}
	if c.Expect.Method == "" {
		f.add(path+".expect.method", "method is empty; did you mean %q?", progressMethod)
	}
}

// leastHistory holds the last streams and every damaged one of a small run.
const leastHistory Size = 1 << 20

func (p Profile) checkRest(f *findings) {
	j, r := p.Judge, p.Resume
	f.word("judge.contract", j.Contract, contracts())
	f.word("judge.oracle", j.Oracle, oracles())
	for i, name := range j.Ignore {
		if !slices.Contains(invariants(), name) {
			f.add(fmt.Sprintf("judge.ignore[%d]", i), "unknown invariant %s; %s", quote(name), meant(name, invariants()))
		}
	}
	if !p.Reference() && j.Oracle == "ledger" {
		f.add("judge.oracle", "oracle ledger needs the reference server; did you mean \"numbered\"?")
	}
	f.least("judge.probes", j.Probes, 0)
	if p.History.Bytes < leastHistory {
		f.add("history.bytes", "bytes is %v; a history that is worth keeping needs %v", p.History.Bytes, leastHistory)
	}
	f.least("resume.attempts", r.Attempts, 1)
	if r.BackoffMax < r.Backoff {
		f.add("resume.backoff_max", "backoff_max %v is below backoff %v", r.BackoffMax, r.Backoff)
	}
	if r.Idle == 0 {
		f.add("resume.idle", "idle is 0s; a silent server would never be noticed")
	}
	for path, v := range map[string]int{
		"cuts": p.Reach.Cuts, "resumes": p.Reach.Resumes, "places": p.Reach.Places, "storms": p.Reach.Storms,
		"double_cuts": p.Reach.DoubleCuts, "cuts_in_replay": p.Reach.CutsInReplay,
		"judged_cuts": p.Reach.JudgedCuts, "max_open": p.Reach.MaxOpen,
	} {
		f.least("reach."+path, v, 0)
	}
	for figure, limits := range p.Thresholds {
		if !slices.Contains(figures(), figure) { // a limit on nothing would gate nothing
			f.add("thresholds", "unknown figure %s; %s", quote(figure), meant(figure, figures()))
			continue
		}
		for i, t := range limits {
			if err := t.check(figure); err != nil {
				f.add(fmt.Sprintf("thresholds.%s[%d]", figure, i), "%v", err)
			}
		}
	}
}
