package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestCallsAreDrawnByWeight(t *testing.T) {
	weights := []int{1, 3, 6}
	plan, err := NewPlan(PlanConfig{Seed: 4, Streams: 10, Calls: 20_000, Weights: weights, Canary: 30_000, GetStreams: 1, Sessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	var drawn [3]float64
	for n := range plan.Len() {
		switch a := plan.Arrival(n); a.Kind {
		case history.StreamLoad:
			drawn[a.Call]++
		default:
			has(t, "call of what comes besides", a.Call, 0)
		}
	}
	for i, w := range weights {
		if share := drawn[i] / 20_000; math.Abs(share-float64(w)/10) > 0.01 {
			t.Errorf("call %d: a share of %.3f", i, share)
		}
	}
	for first := uint32(770); first < 800; first++ {
		alone, err := NewPlan(PlanConfig{Seed: 4, Streams: 1, First: first, Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		has(t, "call of a stream that runs alone", alone.Arrival(0).Call, plan.Arrival(2+int(first)).Call)
	}
}

func TestControlCallsTakeTurns(t *testing.T) {
	plan, err := NewPlan(PlanConfig{Seed: 9, Streams: 6, First: 101, Weights: []int{1, 100, 5}, Kind: history.StreamControl})
	if err != nil {
		t.Fatal(err)
	}
	var calls []int
	for n := range plan.Len() {
		calls = append(calls, plan.Arrival(n).Call)
	}
	has(t, "calls", calls, "[0 1 2 0 1 2]")
}

func TestPlanTellsItsCalls(t *testing.T) {
	hash := func(weights ...int) string {
		plan, err := NewPlan(PlanConfig{Seed: 1, Streams: 50, Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Hash()
	}
	has(t, "one call, whatever its weight", hash(), hash(7))
	if hash(1, 1) == hash(1, 2) || hash(1, 1) == hash() {
		t.Error("plans that draw other calls have one hash")
	}
	for _, bad := range [][]int{{0}, {1, -1}, {maxWeight + 1}, make([]int, maxCallKinds+1)} {
		if _, err := NewPlan(PlanConfig{Streams: 1, Weights: bad}); err == nil {
			t.Errorf("weights %.20v were taken", bad)
		}
	}
	plan, _ := NewPlan(PlanConfig{Streams: 1, Weights: []int{1, 1}})
	err := Config{URL: "http://x/mcp", Plan: plan, Calls: []Call{{Name: "a"}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "draws from 2 calls, of which 1") {
		t.Errorf("a plan of two calls, one of them described: %v", err)
	}
}

func TestPlanHasBounds(t *testing.T) {
	for name, c := range map[string]PlanConfig{
		"streams":     {Streams: maxOpen + 1},
		"sessions":    {Streams: 1, Sessions: maxOpen + 1},
		"GET streams": {Streams: 1, Sessions: 1000, GetStreams: math.MaxInt / 2},
		"max open":    {Rate: 1, Duration: time.Second, MaxOpen: maxOpen + 1},
	} {
		if _, err := NewPlan(c); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(name)) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
}

func TestEachCallIsWhatItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		was := g.call
		g.call = func(v *visit) {
			if v.rpc == MethodPrompt {
				time.Sleep(time.Minute)
			}
			was(v)
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 3, Sessions: 1, Weights: []int{1, 1, 1}, Kind: history.StreamControl})
		cfg.Calls = []Call{
			{Name: "emit", Args: func(a Arrival) json.RawMessage { return fmt.Appendf(nil, `{"n":%d}`, a.Stream) }},
			{Method: MethodResource, Name: "file:///a\"b", Args: func(Arrival) json.RawMessage { return json.RawMessage(`{"never":1}`) }},
			{Method: MethodPrompt, Name: "greet", Args: func(Arrival) json.RawMessage { return json.RawMessage(`{"who":"x"}`) }, Deadline: 20 * time.Second},
		}
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 2 0 0 0 0 0 1]") // the prompt is too late
		want := map[string]string{
			MethodTool:     `"name":"emit","arguments":{"n":1}}}`,
			MethodResource: `"uri":"file:///a\"b"}}`,
			MethodPrompt:   `"name":"greet","arguments":{"who":"x"}}}`,
		}
		for method, text := range want {
			v := g.of(method)
			if len(v) != 1 || !strings.HasSuffix(string(v[0].body), text) || v[0].token == "" {
				t.Errorf("%s: %d requests, %q", method, len(v), v[0].body)
			}
		}
		for stream := range uint32(3) {
			x := seen.of[stream+1].all[0]
			has(t, "call in the history", fmt.Sprint(x.Kind, x.Exchange.Call), fmt.Sprint(history.KindAttempt, stream))
		}
	})
}

func TestExpectationsAreTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = func(v *visit) {
			v.sse()
			for k := 1; ; k++ {
				if _, err := fmt.Fprintf(v.conn, ""); err != nil || k > 20 {
					v.send(result("r", v.id))
					return
				}
				v.send(v.progress(fmt.Sprint("e", k), v.token, k, 20))
				time.Sleep(time.Second)
			}
		}
		var at []string
		cfg := g.config(PlanConfig{Seed: 1, Streams: 8, Sessions: 1, Weights: []int{1, 1}})
		cfg.Calls = []Call{{Name: "short", Expected: 4}, {Name: "long", Expected: 20}}
		cfg.Cancel = 1
		plan := cfg.Plan
		began := time.Now()
		_, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.of("notifications/cancelled") {
			at = append(at, v.at.Sub(began).String())
		}
		short := 0
		for n := range plan.Len() {
			if plan.Arrival(n).Call == 0 {
				short++
			}
		}
		want := strings.Fields(strings.Repeat("1s ", short) + strings.Repeat("9s ", plan.Len()-short))
		has(t, "cancelled after half of what each expects", at, want)
	})
}
