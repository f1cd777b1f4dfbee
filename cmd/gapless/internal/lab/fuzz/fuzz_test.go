// Package fuzz lets clients do anything at all to the reference server, in virtual time,
// with the judge of the load generator as the oracle: what is lawful must bring every
// message once and in order, what is not must be refused as documented, and nothing may
// be left when all have gone.
package fuzz

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/refserver/defect"
)

// FuzzServer reads an input as a server and what clients do to it (see [program]).
func FuzzServer(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s.program().encode())
	}
	for i := range 40 {
		f.Add(random(uint64(i)).encode())
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		acquit(t, decode(input))
	})
}

// acquit wants neither the judge nor the plain rules to find anything.
func acquit(t *testing.T, p program) outcome {
	t.Helper()
	out := run(t, p, defect.Set{})
	for _, text := range out.wrong {
		t.Error(text)
	}
	if len(out.convicted) > 0 {
		t.Errorf("the judge: %v\n%s", out.convicted, strings.Join(out.evidence, "\n"))
	}
	if t.Failed() {
		t.Logf("head % x, store %v, handed off %v, limit %d, refuses %v, retry %v, idle %v", p.head, p.stored(), p.handedOff(), p.limit(), p.refuses(), p.retry(), p.idle())
		for i, s := range p.steps {
			t.Logf("%2d %-16s %3d %3d %3d %3d", i, s.op, s.a, s.b, s.c, s.d)
		}
		for i, h := range out.histories {
			t.Logf("call %d\n%.6000s", i+1, h)
		}
	}
	return out
}

// random is a program of 30 steps; the ops that make something are drawn more often.
func random(seed uint64) program {
	draw := rand.New(rand.NewPCG(seed, 2025))
	var p program
	for i := range p.head {
		p.head[i] = byte(draw.Uint32())
	}
	often := []op{opCall, opCall, opGetCall, opCut, opResume, opResume, opWait, opWait, opArm}
	for range 30 {
		o := op(draw.IntN(int(ops) + len(often)))
		if o >= ops {
			o = often[o-ops]
		}
		s := step{o, byte(draw.Uint32()), byte(draw.Uint32()), byte(draw.Uint32()), byte(draw.Uint32())}
		if o == opWait && draw.IntN(4) > 0 {
			s.a %= 5
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// TestSeedsReachEverything: a corpus that lets an action out proves nothing about it.
func TestSeedsReachEverything(t *testing.T) {
	met, checked := map[string]int{}, map[string]int64{}
	for _, s := range seeds() {
		t.Run(s.name, func(t *testing.T) {
			out := acquit(t, s.program())
			for _, want := range s.meets {
				if out.met[want] == 0 {
					t.Errorf("it never came to %q: %v", want, out.met)
				}
			}
			for name, n := range out.met {
				met[name] += n
			}
			for name, n := range out.checked {
				checked[name] += n
			}
		})
	}
	for o := range ops {
		if met[o.String()] == 0 {
			t.Errorf("no seed comes to %q", o)
		}
	}
	for _, name := range []string{
		"one-response", "no-loss", "no-duplicate", "in-order", "intact", "own-stream", "unique-ids", "progress-increases", "silent-after-response",
		"legal-frames", "resume-progress", "executed-once", "one-stream-per-message", "honest-retention", "primed", "retry-announced",
		"no-early-close", "stream-ends",
	} {
		if checked[name] == 0 {
			t.Errorf("%s saw nothing: %v", name, checked)
		}
	}
	t.Logf("%v\n%v", met, checked)
}

// TestTheOracleBites: each planted defect is convicted by the judge, on the same corpus
// that acquits the server without one.
func TestTheOracleBites(t *testing.T) {
	for _, tc := range []struct {
		id    defect.ID
		wants string
	}{
		{defect.S03a, "no-duplicate"}, {defect.S03b, "no-loss"}, {defect.S05a, "no-loss"}, {defect.S05b, "one-response"},
	} {
		t.Run(string(tc.id), func(t *testing.T) {
			by := map[bool][]string{} // by whether events are handed off
			for _, s := range seeds() {
				p := s.program()
				if !p.stored() || len(by[p.handedOff()]) == 3 {
					continue
				}
				if out := run(t, p, defect.Set{ID: tc.id}); out.convicted[tc.wants] > 0 {
					by[p.handedOff()] = append(by[p.handedOff()], s.name)
				}
			}
			if len(by[false]) == 0 || len(by[true]) == 0 {
				t.Errorf("no seed convicts it of %s on both deliveries: %v", tc.wants, by)
			}
			t.Logf("%s: %v", tc.wants, by)
		})
	}
}

// TestTheSameInputTwice gives every stream the same history.
func TestTheSameInputTwice(t *testing.T) {
	var all []program
	for _, s := range seeds() {
		all = append(all, s.program())
	}
	for i := range uint64(60) {
		all = append(all, random(1000+i))
	}
	compared, streams := 0, 0
	for _, p := range all {
		if !p.calm() {
			continue
		}
		first, second := run(t, p, defect.Set{}), run(t, p, defect.Set{})
		if !slices.Equal(first.histories, second.histories) {
			for i := range first.histories {
				if i >= len(second.histories) || first.histories[i] != second.histories[i] {
					t.Errorf("% x: stream %d:\n%s\nthen\n%s", p.encode(), i+1, first.histories[i], second.histories[i])
					break
				}
			}
		}
		compared++
		streams += len(first.histories)
	}
	if compared < 10 || streams < 30 {
		t.Errorf("%d programs and %d streams were compared: too few", compared, streams)
	}
	t.Logf("%d programs, %d streams", compared, streams)
}
