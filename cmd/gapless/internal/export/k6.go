package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// k6 writes the lines of k6's JSON output: metrics are declared first, then come points.
// Names are k6's own where they mean the same. Durations are in milliseconds, as there.
type k6 struct {
	out     *file
	run     Run
	methods [2][]byte // tags of POST and GET that are the same in all points, as JSON
	calls   [][]byte  // names of the calls, as JSON strings
}

// metrics are declared in the order in which they stand here.
func metrics() []metric {
	all := []metric{
		{"http_reqs", "counter", "default"}, {"http_req_duration", "trend", "time"}, {"http_req_waiting", "trend", "time"},
		{"http_req_failed", "rate", "default"}, {"data_received", "counter", "data"},
		{"iterations", "counter", "default"}, {"iteration_duration", "trend", "time"}, {"dropped_iterations", "counter", "default"},
		{"vus_max", "gauge", "default"}, {"checks", "rate", "default"},
		{"gapless_messages", "counter", "default"}, {"gapless_injections", "counter", "default"},
		{"gapless_messages_lost", "counter", "default"}, {"gapless_messages_repeated", "counter", "default"},
		{"gapless_messages_misordered", "counter", "default"},
	}
	for _, p := range phasesOfCalls() {
		all = append(all, metric{"gapless_" + p.String(), "trend", "time"})
	}
	return all
}

// phasesOfCalls are the latencies that become points: all but the gap between any two
// messages, which would be a point for each message, and the start delay, which no
// record tells.
func phasesOfCalls() []loadgen.Phase {
	return []loadgen.Phase{
		loadgen.FirstEvent, loadgen.Completion, loadgen.ResumeDetect, loadgen.ResumeBackoff,
		loadgen.ResumeConnect, loadgen.ResumeFirstEvent, loadgen.ResumeCaughtUp,
	}
}

type metric struct{ name, kind, contains string }

func newK6(w io.Writer, run Run) *k6 {
	k := &k6{out: newFile("k6", w), run: run}
	for i, method := range []string{"POST", "GET"} {
		k.methods[i] = []byte(`"scenario":` + text(run.Profile) + `,"method":"` + method + `","url":` + text(run.URL))
	}
	for i := range run.Calls {
		k.calls = append(k.calls, []byte(text(run.call(i))))
	}
	var lines []byte
	for _, m := range metrics() {
		lines = append(lines, `{"metric":"`+m.name+`","type":"Metric","data":{"name":"`+m.name+`","type":"`+m.kind+
			`","contains":"`+m.contains+`","thresholds":[],"submetrics":null}}`+"\n"...)
	}
	_, _ = k.out.Write(lines)
	return k
}

// text is a JSON string. A string can always be marshalled.
func text(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// point begins a point; its tags follow, then close.
func (k *k6) point(b []byte, name string, at time.Duration, value float64) []byte {
	b = append(b, `{"metric":"`...)
	b = append(b, name...)
	b = append(b, `","type":"Point","data":{"time":"`...)
	b = k.run.Started.Add(at).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","value":`...)
	b = strconv.AppendFloat(b, value, 'f', -1, 64)
	return append(b, `,"tags":{`...)
}

func (t *track) close() { t.lines = append(t.lines, "}}}\n"...) }

// tags are those of every point of a stream.
func (k *k6) tags(t *track, method int) {
	t.lines = append(t.lines, k.methods[method]...)
	t.lines = append(t.lines, `,"name":`...)
	if n := t.of.Call; 0 <= n && n < len(k.calls) {
		t.lines = append(t.lines, k.calls[n]...)
		return
	}
	t.lines = append(t.lines, `"call"`...)
}

func milliseconds(d time.Duration) float64 { return float64(max(d, 0)) / float64(time.Millisecond) }

func (k *k6) trend(t *track, p loadgen.Phase, at, d time.Duration) {
	t.lines = k.point(t.lines, "gapless_"+p.String(), at, milliseconds(d))
	k.tags(t, t.method())
	t.close()
}

// method is 0 for POST and 1 for GET.
func (t *track) method() int {
	if t.x.attempt > 0 || t.of.Kind == history.StreamGet {
		return 1
	}
	return 0
}

// exchange writes the points of an exchange that is over.
func (k *k6) exchange(t *track, at time.Duration) {
	x := &t.x
	failed := 1.0
	switch x.finished {
	case history.EndClean, history.EndOpen:
		if x.status/100 == 2 {
			failed = 0
		}
	}
	points := []struct {
		name  string
		value float64
		write bool
	}{
		{"http_reqs", 1, true}, {"http_req_duration", milliseconds(at - x.began), true},
		{"http_req_waiting", milliseconds(x.head - x.began), x.head > 0}, {"http_req_failed", failed, true},
		{"data_received", float64(x.bytes), true}, {"gapless_injections", 1, x.fault.Kind != ""},
	}
	for _, p := range points {
		if !p.write {
			continue
		}
		t.lines = k.point(t.lines, p.name, at, p.value)
		k.tags(t, t.method())
		t.lines = append(t.lines, `,"status":"`...)
		t.lines = strconv.AppendInt(t.lines, int64(x.status), 10)
		t.lines = append(t.lines, `","expected_response":"`...)
		t.lines = strconv.AppendBool(t.lines, failed == 0)
		t.lines = append(t.lines, `","end":"`+ending(x.finished)+`","resume":"`...)
		t.lines = strconv.AppendBool(t.lines, x.resume)
		if t.lines = append(t.lines, '"'); x.fault.Kind != "" {
			t.lines = append(t.lines, `,"fault":"`+x.fault.Kind+`","place":"`+x.fault.Place+`"`...)
		}
		t.close()
	}
}

// settle writes the points of a stream.
func (k *k6) settle(t *track, r *history.Record) {
	for _, p := range []struct {
		name  string
		value float64
	}{
		{"iterations", 1}, {"iteration_duration", milliseconds(r.At - t.of.Due)}, {"gapless_messages", float64(t.messages)},
	} {
		t.lines = k.point(t.lines, p.name, r.At, p.value)
		k.tags(t, 0)
		t.lines = append(t.lines, `,"outcome":"`+outcome(r.Outcome)+`"`...)
		t.close()
	}
}

// finish writes what is known only at the end, and the rest of the lines. An invariant
// is a check; one that could not be told did not pass.
func (k *k6) finish(r *result.Result) error {
	if r == nil {
		return k.out.close()
	}
	at := time.Duration(r.Run.DurationSeconds * float64(time.Second))
	var lines []byte
	put := func(name string, value float64, tag, word string) {
		lines = k.point(lines, name, at, value)
		lines = append(lines, `"scenario":`+text(k.run.Profile)...)
		if tag != "" {
			lines = append(lines, `,"`+tag+`":`+text(word)...)
		}
		lines = append(lines, "}}}\n"...)
	}
	put("dropped_iterations", float64(r.Streams.DroppedArrivals), "", "")
	put("vus_max", float64(r.Streams.MaxOpen), "", "")
	put("gapless_messages_lost", float64(r.Messages.Lost), "", "")
	put("gapless_messages_repeated", float64(r.Messages.Duplicated), "", "")
	put("gapless_messages_misordered", float64(r.Messages.Misordered), "", "")
	for _, inv := range r.Invariants {
		switch {
		case inv.Verdict == "" || inv.Verdict == result.Inconclusive && inv.Role != "demanded":
		case inv.Verdict == result.Holds:
			put("checks", 1, "check", inv.Name)
		default:
			put("checks", 0, "check", inv.Name)
		}
	}
	_, _ = k.out.Write(lines)
	return k.out.close()
}
