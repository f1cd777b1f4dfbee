package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/result"
)

const ms = time.Millisecond

func start() time.Time { return time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC) }

func testRun() Run {
	return Run{Profile: "smoke", URL: "http://127.0.0.1:3000/mcp", Calls: []string{"count"}, Started: start()}
}

// cutAndResumed is a call that was due at 10 ms, cut at 200 ms with one message seen,
// resumed with two messages missed, and complete at 900 ms.
func cutAndResumed() []history.Record {
	progress := history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf, Bytes: 100}
	return []history.Record{
		{Kind: history.KindAttempt, At: 12 * ms},
		{Kind: history.KindHead, At: 20 * ms, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: -1}},
		{Kind: history.KindEvent, At: 21 * ms, Event: history.Event{Class: history.ClassEmpty}},
		{Kind: history.KindEvent, At: 110 * ms, Event: progress},
		{Kind: history.KindInjection, At: 200 * ms, Injection: history.Injection{Kind: "rst", Place: "mid-event", Ends: true}},
		{Kind: history.KindEnd, At: 205 * ms, End: history.EndReset},
		{Kind: history.KindAttempt, Attempt: 1, At: 307 * ms, Exchange: history.Exchange{Resume: true, Waited: 100 * ms}},
		{Kind: history.KindHead, Attempt: 1, At: 335 * ms, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: 2}},
		{Kind: history.KindEvent, Attempt: 1, At: 345 * ms, Event: progress},
		{Kind: history.KindEvent, Attempt: 1, At: 405 * ms, Event: progress},
		{Kind: history.KindEvent, Attempt: 1, At: 900 * ms, Event: history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf, Bytes: 50}},
		{Kind: history.KindEvent, Attempt: 1, At: 901 * ms, Event: history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf, Bytes: 50}},
		{Kind: history.KindEnd, Attempt: 1, At: 902 * ms, End: history.EndClean},
		{Kind: history.KindSettled, At: 903 * ms, Outcome: history.OutcomeCompleted},
	}
}

func refused() []history.Record {
	return []history.Record{
		{Kind: history.KindAttempt, At: 12 * ms},
		{Kind: history.KindHead, At: 20 * ms, Head: history.Head{Status: 503}},
		{Kind: history.KindEnd, At: 30 * ms, End: history.EndStatus},
		{Kind: history.KindSettled, At: 31 * ms, Outcome: history.OutcomeRefused},
	}
}

func play(e *Exporter, a loadgen.Arrival, records []history.Record) {
	s := e.Open(a)
	for i := range records {
		s.Observe(&records[i])
	}
}

// A line is what k6's own output holds.
type line struct {
	Metric, Type string
	Data         struct {
		Name, Kind string `json:"-"`
		Time       time.Time
		Value      float64
		Tags       map[string]string
		Contains   string
		MetricType string `json:"type"`
	}
}

// points reads the lines; a point of a metric that was not declared before is an error.
func points(t *testing.T, text string) map[string][]line {
	t.Helper()
	all, declared := map[string][]line{}, map[string]bool{}
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("%v in %s", err, sc.Text())
		}
		switch l.Type {
		case "Metric":
			declared[l.Metric] = l.Data.MetricType != "" && l.Data.Contains != ""
		case "Point":
			if !declared[l.Metric] {
				t.Errorf("%s is not declared", l.Metric)
			}
			all[l.Metric] = append(all[l.Metric], l)
		default:
			t.Errorf("type %q", l.Type)
		}
	}
	return all
}

func TestK6Points(t *testing.T) {
	var out bytes.Buffer
	e := New(testRun())
	e.K6(&out)
	play(e, loadgen.Arrival{Stream: 1, Session: 1, Due: 10 * ms}, cutAndResumed())
	if err := e.Close(nil); err != nil {
		t.Fatal(err)
	}
	got := points(t, out.String())
	for _, c := range []struct {
		metric string
		n      int
		value  float64 // of the last
		at     time.Duration
		tags   string
	}{
		{"gapless_first_event", 1, 100, 110 * ms, "method:POST name:count scenario:smoke url:http://127.0.0.1:3000/mcp"},
		{"gapless_resume_detect", 1, 5, 205 * ms, ""},
		{"gapless_resume_backoff", 1, 100, 307 * ms, ""},
		{"gapless_resume_connect", 1, 30, 335 * ms, ""},
		{"gapless_resume_first_event", 1, 10, 345 * ms, ""},
		{"gapless_resume_caught_up", 1, 200, 405 * ms, ""},
		{"gapless_completion", 1, 890, 900 * ms, ""},
		{"http_reqs", 2, 1, 902 * ms, "end:clean expected_response:true method:GET name:count resume:true scenario:smoke status:200 url:http://127.0.0.1:3000/mcp"},
		{"http_req_duration", 2, 595, 902 * ms, ""},
		{"http_req_waiting", 2, 28, 902 * ms, ""},
		{"data_received", 2, 300, 902 * ms, ""},
		{"http_req_failed", 2, 0, 902 * ms, ""},
		{"gapless_injections", 1, 1, 205 * ms, "end:reset expected_response:false fault:rst method:POST name:count place:mid-event resume:false scenario:smoke status:200 url:http://127.0.0.1:3000/mcp"},
		{"iterations", 1, 1, 903 * ms, "method:POST name:count outcome:completed scenario:smoke url:http://127.0.0.1:3000/mcp"},
		{"iteration_duration", 1, 893, 903 * ms, ""},
		{"gapless_messages", 1, 5, 903 * ms, ""},
	} {
		all := got[c.metric]
		if len(all) != c.n {
			t.Errorf("%s: %d points, want %d", c.metric, len(all), c.n)
			continue
		}
		last := all[len(all)-1].Data
		if last.Value != c.value || !last.Time.Equal(start().Add(c.at)) {
			t.Errorf("%s: %v at %v, want %v at %v", c.metric, last.Value, last.Time.Sub(start()), c.value, c.at)
		}
		if tags := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(last.Tags), "map["), "]"); c.tags != "" && tags != c.tags {
			t.Errorf("%s: tags %s, want %s", c.metric, tags, c.tags)
		}
	}
}

func TestK6TellsWhatOnlyTheResultKnows(t *testing.T) {
	var out bytes.Buffer
	run := testRun()
	run.Profile = "a\"b\n</script>\x00"
	e := New(run)
	e.K6(&out)
	r := &result.Result{Streams: result.Streams{DroppedArrivals: 3, MaxOpen: 9}, Messages: result.Messages{Lost: 2, Duplicated: 1},
		Invariants: []result.Invariant{
			{Name: "no-loss", Role: "demanded", Verdict: result.Violated}, {Name: "in-order", Role: "demanded", Verdict: result.Holds},
			{Name: "intact", Role: "demanded", Verdict: result.Inconclusive}, {Name: "primed", Role: "watched", Verdict: result.Inconclusive},
			{Name: "executed-once", Role: "not applicable"},
		}}
	r.Run.DurationSeconds = 2
	if err := e.Close(r); err != nil {
		t.Fatal(err)
	}
	got := points(t, out.String())
	checks := ""
	for _, c := range got["checks"] {
		checks += fmt.Sprint(c.Data.Tags["check"], "=", c.Data.Value, " ")
	}
	if checks != "no-loss=0 in-order=1 intact=0 " {
		t.Errorf("checks %q", checks)
	}
	if d := got["dropped_iterations"]; len(d) != 1 || d[0].Data.Value != 3 || d[0].Data.Tags["scenario"] != run.Profile || !d[0].Data.Time.Equal(start().Add(2*time.Second)) {
		t.Errorf("dropped_iterations %+v", d)
	}
	if l := got["gapless_messages_lost"]; len(l) != 1 || l[0].Data.Value != 2 {
		t.Errorf("lost %+v", l)
	}
}

// vegeta's own decoder and report read what was written.
func TestVegetaReadsItBack(t *testing.T) {
	var out bytes.Buffer
	e := New(testRun())
	e.Vegeta(&out)
	play(e, loadgen.Arrival{Stream: 1, Session: 1, Due: 10 * ms}, cutAndResumed())
	play(e, loadgen.Arrival{Stream: 2, Session: 1, Due: 10 * ms}, refused())
	complaint := cutAndResumed()
	complaint[10].Event.Class = history.ClassError
	play(e, loadgen.Arrival{Stream: 3, Session: 1, Due: 10 * ms}, complaint)
	for _, kind := range []history.StreamKind{history.StreamControl, history.StreamCanary, history.StreamGet} {
		play(e, loadgen.Arrival{Stream: 9, Session: 1, Kind: kind}, cutAndResumed())
	}
	if err := e.Close(nil); err != nil {
		t.Fatal(err)
	}
	dec := vegeta.DecoderFor(&out)
	if dec == nil {
		t.Fatal("vegeta does not know the encoding")
	}
	var m vegeta.Metrics
	var all []vegeta.Result
	for {
		var r vegeta.Result
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Add(&r)
		all = append(all, r)
	}
	m.Close()
	want := []vegeta.Result{
		{Attack: "smoke", Seq: 0, Code: 200, Timestamp: start().Add(10 * ms), Latency: 890 * ms, BytesIn: 400, Method: "POST", URL: "http://127.0.0.1:3000/mcp"},
		{Attack: "smoke", Seq: 1, Code: 503, Timestamp: start().Add(10 * ms), Latency: 21 * ms, Error: "refused: status", Method: "POST", URL: "http://127.0.0.1:3000/mcp"},
		{Attack: "smoke", Seq: 2, Code: 200, Timestamp: start().Add(10 * ms), Latency: 890 * ms, BytesIn: 400, Error: "answered with a JSON-RPC error", Method: "POST", URL: "http://127.0.0.1:3000/mcp"},
	}
	if len(all) != len(want) {
		t.Fatalf("%d results, want %d", len(all), len(want))
	}
	for i := range want {
		if !all[i].Equal(want[i]) {
			t.Errorf("got  %+v\nwant %+v", all[i], want[i])
		}
	}
	if m.Requests != 3 || m.Success < 0.66 || m.Success > 0.67 || m.Latencies.Max != 890*ms || m.StatusCodes["503"] != 1 || len(m.Errors) != 2 {
		t.Errorf("metrics %+v", m)
	}
	var text bytes.Buffer
	if err := vegeta.NewTextReporter(&m).Report(&text); err != nil || !strings.Contains(text.String(), "503:1") {
		t.Errorf("report: %v\n%s", err, text.String())
	}
}

// What never got an answer must not pass for a success.
func TestVegetaCountsCutCallsAsFailed(t *testing.T) {
	var out bytes.Buffer
	e := New(testRun())
	e.Vegeta(&out)
	cut := append(cutAndResumed()[:6:6], history.Record{Kind: history.KindSettled, At: 903 * ms, Outcome: history.OutcomeFailed})
	play(e, loadgen.Arrival{Stream: 1, Session: 1, Due: 10 * ms}, cut)
	play(e, loadgen.Arrival{Stream: 2, Session: 1, Due: 10 * ms}, []history.Record{{Kind: history.KindSettled, At: 5 * ms, Outcome: history.OutcomeNotSent}})
	if err := e.Close(nil); err != nil {
		t.Fatal(err)
	}
	dec := vegeta.NewDecoder(&out)
	for _, want := range []string{"failed: reset", "not sent: none"} {
		var r vegeta.Result
		if err := dec.Decode(&r); err != nil || r.Code != 0 || r.Error != want || r.Latency < 0 {
			t.Errorf("%+v, %v; want %q", r, err, want)
		}
	}
}

// A short disk takes so many bytes.
type disk struct{ room int }

func (d *disk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errors.New("no space left")
	}
	d.room -= len(p)
	return len(p), nil
}

func TestErrorsOfTheDiskAreTold(t *testing.T) {
	for _, kind := range []string{"k6", "vegeta"} {
		for _, room := range []int{0, 64 << 10} {
			e := New(testRun())
			if kind == "k6" {
				e.K6(&disk{room})
			} else {
				e.Vegeta(&disk{room})
			}
			for n := range 2000 {
				play(e, loadgen.Arrival{Stream: uint32(n + 1), Session: 1}, cutAndResumed())
			}
			if err := e.Close(nil); err == nil || !strings.Contains(err.Error(), "-o "+kind) || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("%s, room for %d: error %v", kind, room, err)
			}
		}
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	var lines, results bytes.Buffer
	e := New(testRun())
	e.K6(&lines)
	e.Vegeta(&results)
	const streams = 300
	var group sync.WaitGroup
	for n := range streams {
		group.Go(func() { play(e, loadgen.Arrival{Stream: uint32(n + 1), Session: 1, Due: 10 * ms}, cutAndResumed()) })
	}
	group.Wait()
	if err := e.Close(&result.Result{}); err != nil {
		t.Fatal(err)
	}
	if got := points(t, lines.String())["iterations"]; len(got) != streams {
		t.Errorf("%d iterations, want %d", len(got), streams)
	}
	dec, seen := vegeta.NewDecoder(&results), map[uint64]bool{}
	for range streams {
		var r vegeta.Result
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		seen[r.Seq] = true
	}
	if len(seen) != streams {
		t.Errorf("%d different calls, want %d", len(seen), streams)
	}
}

func TestMemoryOfOneStreamIsBounded(t *testing.T) {
	e := New(testRun())
	e.K6(io.Discard)
	s := e.Open(loadgen.Arrival{Stream: 1, Session: 1}).(*track)
	records := cutAndResumed()
	for range 10_000 {
		for i := range records[:len(records)-1] {
			s.Observe(&records[i])
		}
	}
	if cap(s.lines) > 3*spillAt {
		t.Errorf("%d bytes are kept", cap(s.lines))
	}
}

func TestEventsCostNoMemory(t *testing.T) {
	e := New(testRun())
	e.K6(io.Discard)
	e.Vegeta(io.Discard)
	s := e.Open(loadgen.Arrival{Stream: 1, Session: 1})
	records := cutAndResumed()
	for i := range 5 {
		s.Observe(&records[i])
	}
	if n := testing.AllocsPerRun(1000, func() { s.Observe(&records[3]) }); n > 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkStream(b *testing.B) {
	e := New(testRun())
	e.K6(io.Discard)
	e.Vegeta(io.Discard)
	records := cutAndResumed()
	b.ReportAllocs()
	for b.Loop() {
		play(e, loadgen.Arrival{Stream: 1, Session: 1}, records)
	}
}
