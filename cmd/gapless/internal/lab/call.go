package lab

import (
	"encoding/json"
	"fmt"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/profiles"
)

// weights are those of the calls, nil for a single one.
func weights(p profiles.Profile) []int {
	if len(p.Calls) < 2 {
		return nil
	}
	all := make([]int, len(p.Calls))
	for i, c := range p.Calls {
		all[i] = c.Weight
	}
	return all
}

// controlCalls is how many control calls there are: so many of each call of the profile.
func controlCalls(p profiles.Profile) int { return p.Load.Control * len(p.Calls) }

// emits tells whether a call is of the reference server's tool, whose arguments the
// profile gives in its own words.
func emits(c profiles.Call) bool { return c.Tool == "emit" && len(c.Args) == 0 }

// calls translates the calls of a profile. run is the key under which the calls of a
// load that holds wait for each other.
func calls(p profiles.Profile, run string, seed uint64) ([]loadgen.Call, error) {
	var all []loadgen.Call
	for i, c := range p.Calls {
		args, err := arguments(p, c, run, seed)
		if err != nil {
			return nil, fmt.Errorf("calls[%d].args: %w", i, err)
		}
		e := c.Expect
		call := loadgen.Call{
			Name: c.Tool, Args: args, Deadline: c.Deadline.Std(),
			Numbering: loadgen.Numbering{Method: e.Method, Sequence: e.Sequence, Total: e.Total, Digest: e.Digest, Payload: e.Payload},
		}
		switch {
		case c.Resource != "":
			call.Method, call.Name = loadgen.MethodResource, c.Resource
		case c.Prompt != "":
			call.Method, call.Name = loadgen.MethodPrompt, c.Prompt
		}
		all = append(all, call)
	}
	return all, nil
}

// arguments returns what one call of a profile sends.
func arguments(p profiles.Profile, c profiles.Call, run string, seed uint64) (func(loadgen.Arrival) json.RawMessage, error) {
	if emits(c) {
		return emitArguments(p, run)
	}
	t, err := compile(c.Args, c.Prompt != "")
	if err != nil {
		return nil, err
	}
	return t.arguments(seed), nil
}

// emitArgs are the arguments of the reference server's tool.
type emitArgs struct {
	Messages   int     `json:"messages"`
	IntervalMS float64 `json:"interval_ms"`
	Burst      int     `json:"burst"`
	Bytes      int64   `json:"bytes"`
	Result     int64   `json:"result_bytes"`
	Polling    int     `json:"polling_closes,omitempty"`
	Requests   int     `json:"requests,omitempty"`
	On         string  `json:"on,omitempty"`
	Hold       *hold   `json:"hold,omitempty"`
}

// hold makes the server emit nothing until so many calls with this key are open.
type hold struct {
	Key     string `json:"key"`
	Streams int    `json:"streams"`
}

// emitArguments returns what a call of emit sends. Of the arrivals of a load that holds,
// only the planned ones wait for each other: a call that is made again may find that all
// others have left, and would wait in vain.
func emitArguments(p profiles.Profile, run string) (func(loadgen.Arrival) json.RawMessage, error) {
	e := emitArgs{
		Messages: p.Emit.Messages, IntervalMS: p.Emit.Interval.Std().Seconds() * 1000, Burst: p.Emit.Burst,
		Bytes: int64(p.Emit.Bytes), Result: int64(p.Emit.ResultBytes),
	}
	get := e
	get.On = "get"
	e.Polling, e.Requests = p.Emit.PollingCloses, p.Emit.Requests
	held := e
	if p.Load.Hold {
		held.Hold = &hold{Key: run, Streams: p.Load.Streams}
	}
	var texts [3]json.RawMessage
	for i, args := range []emitArgs{e, held, get} {
		text, err := json.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("arguments of emit: %w", err)
		}
		texts[i] = text
	}
	return func(a loadgen.Arrival) json.RawMessage {
		switch {
		case a.Kind == history.StreamLoad && !a.Again:
			return texts[1]
		case a.Kind == history.StreamGet:
			return texts[2]
		}
		return texts[0]
	}, nil
}

// A describer shows the call that a stream makes as a person would write it.
type describer func(stream uint32) string

func newDescriber(p profiles.Profile, seed uint64) describer {
	load, err := loadgen.NewPlan(loadConfig(p, seed))
	if err != nil {
		return func(uint32) string { return "" }
	}
	return func(stream uint32) string {
		call := callOf(load, stream)
		if n := int(stream) - load.Total() - 1; 0 <= n && n < controlCalls(p) {
			call = n % len(p.Calls) // control calls take them in turn
		}
		return describe(p, p.Calls[call], seed, stream)
	}
}

func describe(p profiles.Profile, c profiles.Call, seed uint64, stream uint32) string {
	if c.Resource != "" {
		return "resource " + c.Resource
	}
	name := c.Tool
	if c.Prompt != "" {
		name = "prompt " + c.Prompt
	}
	args, err := arguments(p, c, "run", seed)
	if err != nil {
		return name
	}
	return name + " " + string(args(loadgen.Arrival{Kind: history.StreamControl, Stream: stream}))
}
