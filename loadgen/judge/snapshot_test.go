package judge_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// feed judges one stream of a run.
func (r *run) feed(j *judge.Judge, i int) *judge.Stream {
	records := r.streams[i]
	st := j.Open(records[0].Session, records[0].Stream, r.kinds[i])
	for k := range records {
		st.Observe(&records[k])
	}
	st.Close()
	return st
}

// TestSnapshot: wherever a run is cut in two, and however often, the verdict is the one
// of the whole. Streams that are open at the cut are fed again.
func TestSnapshot(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 300
	}
	words := map[judge.Word]int{}
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		r := legalUnder(rng, contracts()[max(0, rng.IntN(6)-2)])
		damageRun(rng, r)
		whole := judge.New(r.setup)
		for i := range r.streams {
			r.feed(whole, i)
		}
		tail := wellTail()
		if rng.IntN(4) == 0 {
			tail.Saturated = true // what waits for the alibi has to survive too
		}
		parts := judge.New(r.setup)
		for i := range r.streams {
			if rng.IntN(2) == 0 {
				records := r.streams[i]
				open := parts.Open(records[0].Session, records[0].Stream, r.kinds[i])
				for k := range records[:rng.IntN(len(records))] {
					open.Observe(&records[k])
				}
				parts = through(t, r.setup, parts)
			}
			r.feed(parts, i)
		}
		parts = through(t, r.setup, parts)
		want, got := whole.Finish(tail), parts.Finish(tail)
		words[want.Word]++
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d: the verdict differs:\n%+v\n%+v", seed, want, got)
		}
	}
	if words[judge.Holds] == 0 || words[judge.Violated] == 0 || words[judge.Inconclusive] == 0 {
		t.Errorf("the histories are one-sided: %v", words)
	}
}

// through takes a judge through its snapshot.
func through(t *testing.T, setup judge.Setup, j *judge.Judge) *judge.Judge {
	t.Helper()
	data, err := j.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	out, err := judge.Restore(setup, data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSnapshotOfEverything: a state in which every kind of finding has left its trace.
func TestSnapshotOfEverything(t *testing.T) {
	setup := ledgerSetup()
	probed(&setup)
	setup.Streams, setup.Faults = 9, 9
	s := parse(t, healthyControl+
		sampled("probe replay want=3 got=2\nprobe unknown-cursor end=deadline\nprobe missing-session")+
		strings.ReplaceAll("\nstream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\n"+cutAndResume+"m 4 owner=other from=1\nm 4-5\n"+done, "rst mid-event", "storm mid-event wide")+
		"stream 3 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\n"+cutAndResume+unanswered+
		"stream 4 session 1 get\npost\nhead 200 sse\nprime\nresponse noid\nm 1-3\nwait 40s\nend idle\nsettled failed\nledger 5\n"+
		"stream 5 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\ncut rst mid-event\nend reset\nresume\nhead 404\nend status\nsettled refused\nledger 5 resp=0\n"+
		"stream 6 session 1 load\npost\nhead 200 sse\nprime\nm 2\nm 1 illegal=2\nm 3-5\nerror\nend clean\nsettled completed\nledger 5 exec=2\n"+
		"stream 7 session 1 load\npost\nhead 200 sse\nprime\nm 1\nm 3-5\n"+done+ // its second message reached stream 8
		"stream 8 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\nm 2 owner=other from=7\nm 3-5\n"+done+
		canaryScript)
	r := &run{setup: setup, streams: s.streams, kinds: s.kinds}
	for _, tail := range []judge.Tail{{Trailer: true, Storms: 1}, {Trailer: true, Saturated: true}} {
		whole, parts := judge.New(setup), judge.New(setup)
		for i := range r.streams {
			r.feed(whole, i)
			r.feed(parts, i)
			parts = through(t, setup, parts)
		}
		want, got := whole.Finish(tail), parts.Finish(tail)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("the verdict differs:\n%+v\n%+v", want, got)
		}
		if len(want.Guilty) < 4 || len(want.Probes) != 3 || want.Messages.Lost < 4 || want.Streams.Opened != 8 {
			t.Errorf("the history lacks something: %+v", want)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	setup := ledgerSetup()
	r := &run{setup: setup}
	s := parse(t, healthyCut)
	r.streams, r.kinds = s.streams, s.kinds
	j := judge.New(setup)
	r.feed(j, 0)
	good, err := j.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	other := setup
	other.Contract = judge.AtLeastOnce
	if _, err := judge.Restore(other, good); err == nil || !strings.Contains(err.Error(), "another setup") {
		t.Errorf("another setup: %v", err)
	}
	change := func(key string, v any) []byte {
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader(good))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		m[key] = v
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	rows := map[string][]byte{
		"nothing": nil, "cut short": good[:len(good)/2], "no JSON": []byte("x"), "another format": change("Format", "judge/0"),
		"fewer invariants": change("Tally", []int{}), "odd bytes of ids": change("IDs", "AAAA"), "an id that is none": change("IDs", "AAAAAAAAAAAAAAAA"),
		"an unknown field": change("More", 1), "a shape without streams": change("Shapes", map[string]any{"x": map[string]any{}}),
	}
	for name, data := range rows {
		if _, err := judge.Restore(setup, data); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
}

// TestTailAsJSON: the generator's part of a verdict can be written down.
func TestTailAsJSON(t *testing.T) {
	tail := judge.Tail{Trailer: true, RecordsDropped: 1, LedgerDropped: 2, Planned: 3, MaxOpen: 4, DroppedArrivals: 5, Storms: 6, Strikes: 9,
		StartDelayP99: 7 * time.Millisecond, Saturated: true, Touched: 8, Stopped: "interrupted", Doubt: "no call was answered"}
	if n := reflect.TypeOf(tail).NumField(); n != 13 {
		t.Fatalf("%d fields: the test knows 13", n)
	}
	data, err := json.Marshal(tail)
	if err != nil {
		t.Fatal(err)
	}
	var again judge.Tail
	if err := json.Unmarshal(data, &again); err != nil || again != tail {
		t.Errorf("%v, %+v", err, again)
	}
}

// TestStory: any stream can be told after its end, and a healthy one bears no marks.
func TestStory(t *testing.T) {
	s := parse(t, healthyCut)
	r := &run{setup: ledgerSetup(), streams: s.streams, kinds: s.kinds}
	g := r.feed(judge.New(r.setup), 0).Story()
	if g.Headline != "" || g.Outcome != "completed" || g.Expected != 5 || len(g.Evidence) != 0 || len(g.Steps) < 8 {
		t.Errorf("%+v", g)
	}
	for _, step := range g.Steps {
		if step.Mark != "" {
			t.Errorf("a mark in a healthy stream: %+v", step)
		}
	}
}
