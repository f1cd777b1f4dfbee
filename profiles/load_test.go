package profiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/profiles"
)

func TestBuiltinsLoad(t *testing.T) {
	want := []string{
		"burst", "cut-everywhere", "double-cut", "half-open", "polling", "shared-sessions", "smoke", "soak", "storm", "third-party",
	}
	if got := profiles.Builtin(); !reflect.DeepEqual(got, want) {
		t.Fatalf("built-in profiles %v", got)
	}
	about := map[string]bool{}
	for _, name := range profiles.Builtin() {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name || p.About == "" || len(p.Faults.Mix) == 0 {
			t.Errorf("%s: name %q, about %q, %d faults", name, p.Name, p.About, len(p.Faults.Mix))
		}
		if about[p.About] || len(p.About) > 120 {
			t.Errorf("%s: about %q is another's, or too long to be listed", name, p.About)
		}
		about[p.About] = true
		if name != "third-party" && p.Reach == (profiles.Reach{}) {
			t.Errorf("%s: it says nothing of what it has to meet", name)
		}
		if err := errors.Join(p.Validate(), p.Built()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "{}", "version: 1\n", "null\n"} {
		p, err := profiles.Parse("empty.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want, _ := profiles.Default().YAML()
		if got, _ := p.YAML(); string(got) != string(want) {
			t.Errorf("%q gives\n%s\nwant\n%s", text, got, want)
		}
	}
	if err := profiles.Default().Validate(); err != nil {
		t.Errorf("the defaults contradict themselves: %v", err)
	}
}

// The complete profile, with every default written out.
const complete = `
version: 1
about: ""
extends: ""
target:
  {url: "", exec: "", dialect: resume, transport: http,
   protocol: "",
   headers: {}, token: {},
   tls: {ca: "", cert: "", key: "", insecure: false},
   http_proxy: env, max_rate: 0, pid: 0}
server:
  {store: memory, delivery: follow, lock: stream, retry: 100ms, on_conflict: takeover, defect: "",
   limits: {events: 10000, bytes: 64MiB, streams: 100000}}
load:
  {streams: 200, calls: 0, rate: 0, duration: 0s, stages: [],
   max_open: 20000, ramp: 1s, hold: false, sessions: 0, get_streams: 0, cancel: 0%, control: 3, drain: 30s}
calls:
  - {tool: emit, weight: 1, args: {}, deadline: 60s,
     expect: {messages: auto, sequence: /params/progress, total: /params/total, digest: ""}}
emit: {messages: 50, interval: 20ms, burst: 1, bytes: 200B, result_bytes: 200B, polling_closes: 0, requests: 0}
faults:
  seat: client
  start: 0s
  stop: 0s
  mix: []
resume: {jitter: 10%, backoff: 100ms, backoff_max: 5s, attempts: 20, idle: 30s}
judge: {contract: exactly-once, oracle: auto, strict: false, ignore: [], probes: 20}
reach: {}
thresholds: {}
history: {bytes: 1GiB}
`

func TestCompleteProfileIsTheDefault(t *testing.T) {
	p, err := profiles.Parse("complete.yaml", []byte(complete))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := profiles.Default().YAML()
	if got, _ := p.YAML(); string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if p.Calls[0].Deadline.Std() != time.Minute || p.Server.Limits.Bytes != 64<<20 || p.Resume.Jitter.Fraction() != 0.1 {
		t.Errorf("units are misread: %v %v %v", p.Calls[0].Deadline, p.Server.Limits.Bytes, p.Resume.Jitter)
	}
}

func TestFaultItemDefaults(t *testing.T) {
	p, err := profiles.Parse("f.yaml", []byte("faults: {mix: [{per_stream: 1}]}\ncalls: [{args: {steps: 60, deep: [1, 2.5, true, null, {a: b}]}}]"))
	if err != nil {
		t.Fatal(err)
	}
	want := profiles.Fault{Kind: "rst", At: []string{}, PerStream: 1, Code: 503, Share: 100}
	if !reflect.DeepEqual(p.Faults.Mix[0], want) {
		t.Errorf("got %+v, want %+v", p.Faults.Mix[0], want)
	}
	args := map[string]any{"steps": int64(60), "deep": []any{int64(1), 2.5, true, nil, map[string]any{"a": "b"}}}
	if !reflect.DeepEqual(p.Calls[0].Args, args) || p.Calls[0].Tool != "emit" || p.Calls[0].Deadline.Std() != time.Minute {
		t.Errorf("call %+v", p.Calls[0])
	}
}

const vendor = `version: 1
about: vendor staging, through the office proxy
target:
  url: https://mcp.vendor.example/mcp
  token: {env: VENDOR_TOKEN}
  tls: {ca: corp-root.pem}
  max_rate: 5/s
load: {streams: 20, calls: 200, sessions: 4}
calls:
  - {tool: long_job, args: {steps: 60}, deadline: 2m}
faults:
  mix: [{kind: rst, at: [between-events, mid-event], per_stream: 1}]
reach: {resumes: 150}
thresholds: {resume_caught_up: ["p(95)<2s", {is: "p(99)<3s", abort: true}]}
`

func TestResolvedProfileLoadsToItself(t *testing.T) {
	texts := map[string]string{"vendor": vendor}
	for _, name := range profiles.Builtin() {
		source, err := profiles.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(source)
	}
	texts["stages"] = "load: {stages: [{for: 1m, rate: 100/s}, {for: 30s, rate: 0}]}\ntarget: {url: 'http://[::1]:1/mcp', exec: node x.js, headers: {X: \"1\"}}"
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			p, err := profiles.Parse(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			first, err := p.YAML()
			if err != nil {
				t.Fatal(err)
			}
			q, err := profiles.Parse(name, first)
			if err != nil {
				t.Fatalf("%v in\n%s", err, first)
			}
			second, err := q.YAML()
			if err != nil || string(first) != string(second) {
				t.Errorf("%v\nfirst\n%s\nsecond\n%s", err, first, second)
			}
			if !reflect.DeepEqual(p.Load, q.Load) || !reflect.DeepEqual(p.Calls, q.Calls) || !reflect.DeepEqual(p.Faults, q.Faults) || !reflect.DeepEqual(p.Target, q.Target) {
				t.Errorf("got %+v, want %+v", q, p)
			}
		})
	}
}

func TestProtocolAsDateOrText(t *testing.T) {
	for _, text := range []string{"2025-06-18", `"2025-06-18"`, "'2025-06-18'"} {
		p, err := profiles.Parse("p.yaml", []byte("target: {protocol: "+text+"}"))
		if err != nil || p.Target.Protocol != "2025-06-18" {
			t.Errorf("%s: protocol %q, error %v", text, p.Target.Protocol, err)
		}
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct{ name, text, dialect, protocol, contract string }{
		{"nothing named – resume at its newest", "", "resume", "2025-11-25", "exactly-once"},
		{"modern revision – modern dialect", "target: {protocol: 2026-07-28}", "modern", "2026-07-28", "none"},
		{"umcp – its revision and contract", "target: {dialect: umcp}", "umcp", "2025-03-26", "none"},
		{"streams over http – nothing is lost or repeated", "target: {dialect: streams}", "streams", "2025-06-18", "exactly-once"},
		{"streams over ws – repeats are legal", "target: {dialect: streams, transport: ws}", "streams", "2025-06-18", "at-least-once"},
		{"contract named – kept", "target: {dialect: umcp}\njudge: {contract: bounded}", "umcp", "2025-03-26", "bounded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profiles.Parse("r.yaml", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if p.Target.Dialect != tc.dialect || string(p.Target.Protocol) != tc.protocol || p.Judge.Contract != tc.contract {
				t.Errorf("got %s %s %s", p.Target.Dialect, p.Target.Protocol, p.Judge.Contract)
			}
		})
	}
}

func TestFlagsOverProfile(t *testing.T) {
	p, err := profiles.Load("smoke")
	if err != nil {
		t.Fatal(err)
	}
	if !p.Explicit("load.streams") || !p.Explicit("faults.mix") || !p.Explicit("faults") || p.Explicit("load.calls") || p.Explicit("judge") {
		t.Error("Explicit does not know what smoke names")
	}
	q := p
	q.Target.Dialect = "umcp"
	q.Mark("target.dialect")
	q.Resolve()
	if q.Target.Protocol != "2025-03-26" || q.Judge.Contract != "none" || q.Validate() != nil {
		t.Errorf("after the flag: %s, %s, %v", q.Target.Protocol, q.Judge.Contract, q.Validate())
	}
	if p.Explicit("target.dialect") {
		t.Error("marking a copy marked the original")
	}
	q.Load.UseRate(50, profiles.Duration(30*time.Second))
	if err := q.Validate(); err != nil || q.Load.Arrivals() != 1500 || q.Load.SessionCount() != 150 {
		t.Errorf("%v; %d arrivals, %d sessions", err, q.Load.Arrivals(), q.Load.SessionCount())
	}
	q.Load.UseStages([]profiles.Stage{{For: profiles.Duration(time.Minute), Rate: 100}, {For: profiles.Duration(time.Minute), Rate: 100}})
	if err := q.Validate(); err != nil || q.Load.Arrivals() != 9000 {
		t.Errorf("%v; %d arrivals, want 3000 + 6000", err, q.Load.Arrivals())
	}
	q.Load.UseClosed(7, 0)
	if err := q.Validate(); err != nil || q.Load.Arrivals() != 7 || q.Load.SessionCount() != 1 {
		t.Errorf("%v; %d arrivals, %d sessions", err, q.Load.Arrivals(), q.Load.SessionCount())
	}
	q.Load.Streams = -1
	if err := q.Validate(); err == nil || !strings.Contains(err.Error(), "load.streams") {
		t.Errorf("negative streams: %v", err)
	}
}

// TestForget: a profile that was written out names everything, also what does not belong
// to another target.
func TestForget(t *testing.T) {
	p, err := profiles.Parse("f.yaml", []byte("server: {store: memory}\nload: {streams: 5}"))
	if err != nil {
		t.Fatal(err)
	}
	p.Target.URL = "http://127.0.0.1:1/mcp"
	if p.Validate() == nil {
		t.Fatal("settings of the reference server pass with a target")
	}
	p.Forget("server")
	if err := p.Validate(); err != nil || p.Explicit("server") || !p.Explicit("load.streams") {
		t.Errorf("%v", err)
	}
}

func TestArrivals(t *testing.T) {
	for _, tc := range []struct {
		name, load string
		want       int
	}{
		{"a rate for a time – its product", "{rate: 50/s, duration: 30s}", 1500},
		{"a slow rate – the first one comes at once", "{rate: 1/m, duration: 61s}", 2},
		{"thirds of a second – no more by rounding", "{rate: 20/m, duration: 9s}", 3},
		{"a ramp from rest – its area, begun ones included", "{stages: [{for: 3s, rate: 1/s}]}", 2},
		{"two stages – each by itself", "{stages: [{for: 3s, rate: 1/s}, {for: 3s, rate: 0}]}", 4},
		{"closed with calls – the calls", "{streams: 5, calls: 7}", 7},
		{"closed without – the streams", "{streams: 5}", 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profiles.Parse("p.yaml", []byte("load: "+tc.load))
			if err != nil || p.Load.Arrivals() != tc.want {
				t.Errorf("%d arrivals, want %d; error %v", p.Load.Arrivals(), tc.want, err)
			}
		})
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExtends(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "base.yaml", "extends: smoke\nabout: base\ntarget: {headers: {A: one, B: two}}\nreach: {storms: 1}\n")
	path := write(t, dir, "top.yaml", "extends: base.yaml\ntarget: {headers: {B: three}}\nfaults: {mix: [{kind: fin, per_stream: 2}]}\n")
	p, err := profiles.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Target.Headers, map[string]string{"A": "one", "B": "three"}) {
		t.Errorf("maps do not merge: %v", p.Target.Headers)
	}
	if len(p.Faults.Mix) != 1 || p.Faults.Mix[0].Kind != "fin" {
		t.Errorf("lists do not replace: %v", p.Faults.Mix)
	}
	if p.About != "base" || p.Reach.Cuts != 400 || p.Reach.Storms != 1 || p.Extends != "" {
		t.Errorf("about %q, reach %+v, extends %q", p.About, p.Reach, p.Extends)
	}
}

func TestExtendsSwitchesTheModelOfLoad(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "open.yaml", "extends: smoke\nload: {rate: 50/s, duration: 1m}\n")
	p, err := profiles.Load(path)
	if err != nil || p.Load.Streams != 0 || p.Load.Rate != 50 {
		t.Errorf("streams %d, rate %v, error %v", p.Load.Streams, p.Load.Rate, err)
	}
	path = write(t, dir, "closed.yaml", "extends: open.yaml\nload: {streams: 9}\n")
	p, err = profiles.Load(path)
	if err != nil || p.Load.Streams != 9 || p.Load.Rate != 0 || p.Load.Duration != 0 {
		t.Errorf("load %+v, error %v", p.Load, err)
	}
}

func TestNamesAndPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "extends: b.yaml\n")
	circle := write(t, dir, "b.yaml", "extends: a.yaml\n")
	lost := write(t, dir, "lost.yaml", "version: 1\nextends: nowhere.yaml\n")
	bad := write(t, dir, "bad.yaml", "version: 1\nload: {streams: many}\n")
	over := write(t, dir, "over.yaml", "extends: bad.yaml\nabout: fine\n")
	for _, tc := range []struct{ name, profile, want string }{
		{"unknown name – the nearest is named", "smok", `no profile "smok"; did you mean "smoke"?`},
		{"far name – all are named", "zzzzzzzz", "soak, storm or third-party"},
		{"no such file – said", filepath.Join(dir, "none.yaml"), "no such file"},
		{"a folder – said", dir, "is not a file"},
		{"circle – shown", circle, "a.yaml:1:10: extends goes in a circle: "},
		{"extends a missing file – at its place", lost, "lost.yaml:2:10: read profile: "},
		{"mistake in the base – position in the base", over, bad + ":2:17: streams wants a whole number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := profiles.Load(tc.profile)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
}
