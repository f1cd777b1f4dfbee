package lab

import (
	"fmt"
	"slices"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/twin"
	"github.com/gapless-dev/gapless/profiles"
)

// maxRaw bounds what is kept of the messages of all control calls, in bytes; what is
// beyond cannot be compared.
const maxRaw = 64 << 20

// raw keeps a message of a control call as it came. The load generator shows it right
// before it reports the event.
func (c *control) raw(a loadgen.Arrival, message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rawBytes += len(message); c.rawBytes > maxRaw {
		return
	}
	i := slices.IndexFunc(c.calls, func(call *controlCall) bool { return call.arrival.Stream == a.Stream })
	c.calls[i].raw = append(c.calls[i].raw, slices.Clone(message))
	c.calls[i].at = append(c.calls[i].at, len(c.calls[i].records))
}

// compares tells whether messages may have to be compared: there is no better truth.
func (x *experiment) compares() bool {
	oracle := x.c.Profile.Judge.Oracle
	return oracle == string(judge.OracleTwin) || oracle == string(judge.OracleAuto) && x.ledger == nil
}

// twins learns for each call of the profile what its messages have in common, nil where
// nothing can be learnt; why says so in a sentence.
func (c *control) twins(p profiles.Profile) (all []*twin.Twin, why []string) {
	all, why = make([]*twin.Twin, len(p.Calls)), make([]string, len(p.Calls))
	for i := range p.Calls {
		var messages [][][]byte
		for _, call := range c.calls {
			if call.arrival.Call == i {
				messages = append(messages, call.raw)
			}
		}
		switch t, err := twin.Learn(messages); {
		case c.rawBytes > maxRaw:
			why[i] = fmt.Sprintf("the messages of the control calls are more than %d MiB", maxRaw>>20)
		case err != nil:
			why[i] = err.Error()
		case t.N() > 0:
			all[i] = t
		}
	}
	return all, why
}

// number gives the messages of the control calls the numbers that they have by
// comparison: when they were made, there was nothing to compare them with.
func (c *control) number(twins []*twin.Twin) {
	for _, call := range c.calls {
		t := twins[call.arrival.Call]
		if t == nil {
			continue
		}
		counter := twin.Counter{Twin: t}
		for k, at := range call.at {
			if at >= len(call.records) {
				break
			}
			e := &call.records[at].Event
			e.Seq, _ = counter.Number(call.raw[k])
			e.Total = int64(t.N())
		}
	}
}

// forget lets the messages go, once they have been learnt from.
func (c *control) forget() {
	for _, call := range c.calls {
		call.raw, call.at = nil, nil
	}
}

// callSetups says what each call of the profile should bring, before With has added what
// the control calls taught.
func callSetups(p profiles.Profile, twins []*twin.Twin) []judge.CallSetup {
	var all []judge.CallSetup
	for i, c := range p.Calls {
		s := judge.CallSetup{
			Name: c.Tool + c.Resource + c.Prompt, Expected: int64(max(c.Expect.Messages, 0)),
			Method: c.Expect.Method, Digests: c.Expect.Digest != "", Deadline: c.Deadline.Std(),
		}
		if twins[i] != nil {
			s.Twin = int64(twins[i].N())
		}
		all = append(all, s)
	}
	return all
}
