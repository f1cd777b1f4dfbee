package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

var update = flag.Bool("update", false, "write the golden files")

func encode(t *testing.T, r *result.Result) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := r.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// full fills every field with something that is not its zero value.
func full(t *testing.T) *result.Result {
	t.Helper()
	r := &result.Result{}
	n := 0
	populate(t, reflect.ValueOf(r).Elem(), &n)
	r.Gapless, r.Verdict = result.Format, result.Violated
	r.Run.Started = time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	return r
}

func populate(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			populate(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		populate(t, v.Index(0), n)
		populate(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("rst"), reflect.ValueOf(int64(*n)))
	case reflect.String:
		v.SetString("<text & more>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	default:
		t.Fatalf("no value for %v", v.Type())
	}
}

func TestGolden(t *testing.T) {
	for name, r := range map[string]*result.Result{"empty": {}, "full": full(t)} {
		got := encode(t, r)
		path := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs: names of result.json are stable (-update writes it anew)\n%s", path, got)
		}
	}
}

// promised are the fields of result.json that other programs may rely on.
const promised = `
gapless
run: id profile seed command version started duration_seconds stopped target.url target.name target.version target.protocol target.dialect target.contract target.oracle
verdict sentence why
load: model seconds wanted_per_second started_per_second max_open
streams: planned opened max_open completed indeterminate not_sent refused cancelled undecided failed dropped_arrivals
messages: expected delivered lost lost_allowed degraded undecided duplicated duplicated_allowed misordered foreign corrupt late
responses: expected received missing repeated
faults: seat planned injected cuts storms approximate by_kind by_place by_kind_and_place
resumes: attempted succeeded refused conflicts by_status replayed_messages double_cuts cuts_in_replay
cuts_at_risk loss_bound_95
loss_bound_95_by_place.0: place cuts_at_risk bound
invariants.0: name claim level role verdict checked violations evidence
probes.0: name asked conforming deviating
reached.0: name want got ok
thresholds.0: figure expression value ok
control: calls complete messages_per_call
canary: convicted
latency_seconds: first_event event_gap completion start_delay resume_detect resume_backoff resume_connect resume_first_event resume_caught_up
latency_seconds.resume_detect: count mean p50 p90 p99 p999 max
generator: cpu_seconds max_rss_bytes saturated
history: dir records dropped
`

func TestEveryPromisedFieldIsThere(t *testing.T) {
	var tree any
	if err := json.Unmarshal(encode(t, full(t)), &tree); err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(promised) {
		prefix, names, nested := strings.Cut(strings.TrimSpace(line), ": ")
		if !nested {
			prefix, names = "", prefix
		}
		for _, name := range strings.Fields(names) {
			path := strings.TrimPrefix(prefix+"."+name, ".")
			if !has(tree, strings.Split(path, ".")) {
				t.Errorf("field %s is not in result.json", path)
			}
			found++
		}
	}
	if found < 80 {
		t.Errorf("only %d fields were looked for", found)
	}
}

func has(tree any, path []string) bool {
	if len(path) == 0 {
		return tree != nil
	}
	switch v := tree.(type) {
	case map[string]any:
		next, there := v[path[0]]
		return there && has(next, path[1:])
	case []any:
		return path[0] == "0" && len(v) > 0 && has(v[0], path[1:])
	}
	return false
}

func TestRoundTrip(t *testing.T) {
	want := full(t)
	got, err := result.Decode(bytes.NewReader(encode(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEncodeLeavesTheResultAlone(t *testing.T) {
	r := &result.Result{Invariants: []result.Invariant{{Name: "no-loss"}}}
	text := encode(t, r)
	if r.Why != nil || r.Invariants[0].Evidence != nil || r.Gapless != "" || r.Verdict != "" {
		t.Errorf("Encode changed its receiver: %+v", r)
	}
	if bytes.Contains(text, []byte("null")) {
		t.Errorf("null in\n%s", text)
	}
	if !bytes.Contains(text, []byte(`"verdict": "inconclusive"`)) {
		t.Error("a result without verdict is not inconclusive")
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := string(encode(t, full(t)))
	for _, tc := range []struct{ name, text, want string }{
		{"empty file – refused", "", "EOF"},
		{"cut short – refused", good[:len(good)/2], "EOF"},
		{"unknown field – refused", strings.Replace(good, `"sentence"`, `"sentense"`, 1), "sentense"},
		{"missing field – refused", strings.Replace(good, `"dropped_arrivals"`, `"opened"`, 1), "streams.dropped_arrivals is missing"},
		{"null – refused", strings.Replace(good, `"completed": `, `"completed": null, "opened": `, 1), "streams.completed is null"},
		{"null in a list – refused", strings.Replace(good, `"claim": "<text & more>"`, `"claim": null`, 1), "invariants[0].claim is null"},
		{"other format – refused", strings.Replace(good, `result/1`, `result/2`, 1), `"result/2"`},
		{"text after it – refused", good + "{}", "more text"},
		{"a list – refused", "[]", "array"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := result.Decode(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
}

func TestEncodeReportsWhatCannotBeWritten(t *testing.T) {
	r := &result.Result{LossBound95: math.NaN()}
	if r.Encode(&bytes.Buffer{}) == nil {
		t.Error("NaN was written as something")
	}
	if (&result.Result{}).Encode(fullDisk{}) == nil {
		t.Error("the error of the writer is lost")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestJudgedStreams(t *testing.T) {
	s := result.Streams{Completed: 1, Refused: 2, Cancelled: 4, Failed: 8, Indeterminate: 16, Undecided: 32, NotSent: 64}
	if got := s.Judged(); got != 15 {
		t.Errorf("judged %d, want 15: only outcomes that say something about the target count", got)
	}
}
