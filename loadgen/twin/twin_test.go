package twin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// call makes the messages of one call of a server that stamps and signs them, as some do.
func call(r *rand.Rand, token string, n int, text func(k int) string) [][]byte {
	all := make([][]byte, n)
	for k := range all {
		all[k] = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"text":%q,"at":"12:%02d:%02d","ids":[%d,{"uuid":"%x"}],"took":%d.%d,"of":%d},"progressToken":%q}}`,
			text(k+1), r.IntN(60), r.IntN(60), r.Uint32(), r.Uint64(), r.IntN(9), r.IntN(1000), n, token)
	}
	return all
}

func step(k int) string { return fmt.Sprintf("step %d", k) }

func learnt(t testing.TB, n int, text func(k int) string) (*Twin, *rand.Rand) {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	tw, err := Learn([][][]byte{call(r, "a", n, text), call(r, "b", n, text), call(r, "c", n, text)})
	if err != nil {
		t.Fatal(err)
	}
	return tw, r
}

// numbers of what a stream received; 0 for what is none of them.
func numbers(tw *Twin, messages [][]byte) []int64 {
	c := Counter{Twin: tw}
	var all []int64
	for _, m := range messages {
		n, same := c.Number(m)
		if same != (n > 0) {
			panic("a number without a message")
		}
		all = append(all, n)
	}
	return all
}

func upTo(n int) []int64 {
	var all []int64
	for k := range n {
		all = append(all, int64(k+1))
	}
	return all
}

func TestVolatileValuesDoNotMatter(t *testing.T) {
	tw, r := learnt(t, 50, step)
	want := []string{"/params/data/at", "/params/data/ids/0", "/params/data/ids/1/uuid", "/params/data/took", "/params/progressToken"}
	if got := tw.Volatile(); !slices.Equal(got, want) || tw.N() != 50 || !tw.Distinct() {
		t.Errorf("volatile %q, %d messages, distinct %v", got, tw.N(), tw.Distinct())
	}
	for range 100 {
		if got := numbers(tw, call(r, "x", 50, step)); !slices.Equal(got, upTo(50)) {
			t.Fatalf("numbered %v", got)
		}
	}
}

func TestTokenIsVolatileAlsoWhereItIsTheSame(t *testing.T) {
	one := [][]byte{[]byte(`{"method":"m","params":{"progressToken":"a","n":1}}`)}
	tw, err := Learn([][][]byte{one, one})
	if err != nil {
		t.Fatal(err)
	}
	other := []byte(` {"params" : {"n": 1, "progressToken":7}, "method":"m"}`)
	if n, same := (&Counter{Twin: tw}).Number(other); n != 1 || !same {
		t.Errorf("%d, %v", n, same)
	}
	if n, same := new(Counter).Number(other); n != 0 || same {
		t.Errorf("a counter without a twin says %d, %v", n, same)
	}
}

// TestDamageIsVisible damages a call in every way, and wants other numbers than 1 to N.
func TestDamageIsVisible(t *testing.T) {
	for name, text := range map[string]func(int) string{
		"distinct":     step,
		"repeated":     func(k int) string { return fmt.Sprintf("beat %d", k%3) },
		"all the same": func(int) string { return "beat" },
	} {
		const n = 12
		tw, r := learnt(t, n, text)
		if tw.Distinct() != (name == "distinct") {
			t.Errorf("%s: distinct %v", name, tw.Distinct())
		}
		whole := upTo(n)
		if got := numbers(tw, call(r, "y", n, text)); !slices.Equal(got, whole) {
			t.Errorf("%s: whole call numbered %v", name, got)
		}
		for i := range n {
			m := call(r, "x", n, text)
			lost := slices.Delete(slices.Clone(m), i, i+1)
			if got := numbers(tw, lost); !slices.IsSorted(got) && name == "distinct" || len(unique(got)) != n-1 {
				t.Errorf("%s: without %d numbered %v", name, i+1, got)
			}
			twice := slices.Insert(slices.Clone(m), i, m[i])
			if got := numbers(tw, twice); len(got) != n+1 || len(unique(got)) != n {
				t.Errorf("%s: with %d twice numbered %v", name, i+1, got)
			}
			altered := slices.Clone(m)
			altered[i] = []byte(strings.Replace(string(m[i]), `"text":"`, `"text":"~`, 1))
			if got := numbers(tw, altered); got[i] != 0 || len(unique(got)) != n {
				t.Errorf("%s: with %d altered numbered %v", name, i+1, got)
			}
			for j := range i {
				swapped := slices.Clone(m)
				swapped[i], swapped[j] = m[j], m[i]
				if got := numbers(tw, swapped); slices.Equal(got, whole) != (text(i+1) == text(j+1)) {
					t.Errorf("%s: with %d and %d swapped numbered %v", name, j+1, i+1, got)
				}
			}
		}
	}
}

func unique(all []int64) []int64 {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

func TestReplayHasTheSameNumbers(t *testing.T) {
	tw, r := learnt(t, 20, step)
	m := call(r, "x", 20, step)
	got := numbers(tw, slices.Concat(m[:15], m[10:]))
	if want := slices.Concat(upTo(15), upTo(20)[10:]); !slices.Equal(got, want) {
		t.Errorf("numbered %v", got)
	}
}

func TestStructureIsCompared(t *testing.T) {
	tw, r := learnt(t, 3, step)
	m := string(call(r, "x", 3, step)[1])
	for _, change := range [][2]string{
		{`"level":"info"`, `"level":"warn"`}, {`"level":"info"`, `"level":null`}, {`"level":"info"`, `"level":"info","x":1`}, {`"level":"info",`, ``},
		{`"of":3`, `"of":4`}, {`"of":3`, `"of":"3"`}, {`"of":3`, `"of":3.0`}, {`"at":"`, `"at":{},"At":"`}, {`"uuid"`, `"guid"`},
		{`"ids":[`, `"ids":[0,`}, {`}}`, `}}]`}, {`"method"`, `"Method"`}, {`{"jsonrpc"`, `{"of":3,"jsonrpc"`},
	} {
		altered := strings.Replace(m, change[0], change[1], 1)
		if altered == m {
			t.Fatalf("%q is not in %s", change[0], m)
		}
		if n, same := (&Counter{Twin: tw}).Number([]byte(altered)); n != 0 || same {
			t.Errorf("%s is taken for message %d", altered, n)
		}
	}
}

func TestEmptyObjectsAndArraysAreCompared(t *testing.T) {
	one := [][]byte{[]byte(`{"a":{},"b":[]}`)}
	tw, err := Learn([][][]byte{one, one})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]int64{`{"b":[ ],"a":{ }}`: 1, `{"a":[],"b":[]}`: 0, `{"a":{},"b":{}}`: 0, `{"a":{},"b":1}`: 0, `{"a":{},"b":[1]}`: 0} {
		if n, _ := (&Counter{Twin: tw}).Number([]byte(in)); n != want {
			t.Errorf("%s is message %d, want %d", in, n, want)
		}
	}
}

func TestLearnSaysWhyCallsDoNotAgree(t *testing.T) {
	msgs := func(all ...string) [][]byte {
		var out [][]byte
		for _, m := range all {
			out = append(out, []byte(m))
		}
		return out
	}
	many := make([][]byte, maxMessages+1)
	wide := func(from int) string {
		var b strings.Builder
		for k := range maxVolatile + 1 {
			fmt.Fprintf(&b, ",%d", from+k)
		}
		return "[0" + b.String() + "]"
	}
	large := msgs(`"` + strings.Repeat("x", maxBytes/2) + `"`)
	for _, tt := range []struct {
		calls [][][]byte
		says  string
	}{
		{nil, "two control calls are needed to compare their messages, there is 0"},
		{[][][]byte{msgs(`1`)}, "two control calls are needed to compare their messages, there is 1"},
		{[][][]byte{nil, nil}, "the control calls showed no messages"},
		{[][][]byte{msgs(`1`, `2`), msgs(`1`)}, "control call 2 showed 1 messages, control call 1 showed 2"},
		{[][][]byte{many, many}, "control calls of 100001 messages are not compared: at most 100000"},
		{[][][]byte{large, large}, "are not compared: at most 67108864"},
		{[][][]byte{msgs(`1`, `{"a":1}`), msgs(`1`, `{"a":1,"b":2}`)}, "message 2 of control call 2 has another shape than in call 1: only it has /b"},
		{[][][]byte{msgs(`{"a":{"b":1}}`), msgs(`{"a":{"b":1}}`), msgs(`{"a":7}`)}, "message 1 of control call 3 has another shape than in call 1: "},
		{[][][]byte{msgs(`{"a":[1,2]}`), msgs(`{"a":[1]}`)}, "only call 1 has /a/1"},
		{[][][]byte{msgs(`{"a":1}`), msgs(`{"b":1}`)}, "has another shape than in call 1: only "},
		{[][][]byte{msgs(`{"a":1,"b":2}`), msgs(`{"a":1,"b":2}`), msgs(`{"a":1}`)}, "message 1 of control call 3 has another shape than in call 1: only call 1 has /b"},
		{[][][]byte{msgs(`{"a":{}}`), msgs(`{"a":[]}`)}, "another kind of value lies at /a"},
		{[][][]byte{msgs(`{"a":{}}`), msgs(`{"a":"{"}`)}, "another kind of value lies at /a"},
		{[][][]byte{msgs(`{"a":1}`), msgs(`{"a":1`)}, "message 1 of control call 2 is no JSON"},
		{[][][]byte{msgs(strings.Repeat("[", 99) + strings.Repeat("]", 99)), msgs(`1`)}, "message 1 of control call 1 is no JSON, or nests deeper than 32"},
		{[][][]byte{msgs(`{"a":1,"\u0061":1}`), msgs(`1`)}, "message 1 of control call 1 has a key twice at /a"},
		{[][][]byte{msgs(wide(1)), msgs(wide(2))}, "control calls differ at more than 256 places of their messages"},
		{[][][]byte{msgs(`{"a\n` + strings.Repeat("é", 99) + `":1}`), msgs(`{}`)}, "has another shape than in call 1: only "},
		{[][][]byte{msgs(`{"a":{}}`), msgs(`{"a":{"b":{}},"c":1}`)}, "has another shape than in call 1: only "},
		{[][][]byte{msgs(`[{}]`), msgs(`[1,1]`)}, "/"},
	} {
		_, err := Learn(tt.calls)
		if err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, tt.says)
		}
	}
}

func TestNumberAllocatesNothing(t *testing.T) {
	tw, r := learnt(t, 100, step)
	m := call(r, "x", 100, step)
	c := Counter{Twin: tw}
	k := 0
	if n := testing.AllocsPerRun(1000, func() {
		if n, _ := c.Number(m[k%100]); n != int64(k%100+1) {
			t.Fatalf("message %d is %d", k%100+1, n)
		}
		k++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNumber(b *testing.B) {
	tw, r := learnt(b, 100, step)
	m := call(r, "x", 100, step)
	c := Counter{Twin: tw}
	b.SetBytes(int64(len(m[0])))
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		c.Number(m[k%100])
		k++
	}
}

// FuzzTwin: whatever three calls say, they are refused or every one of them is numbered 1 to
// N; no message makes it panic, and one that is none of them has no number.
func FuzzTwin(f *testing.F) {
	f.Add("{\"n\":1,\"t\":5}\n{\"n\":2,\"t\":6}", "{\"n\":1,\"t\":7}\n{\"n\":2,\"t\":8}", `{"n":3,"t":5}`)
	f.Add("{\"n\":1}\n{\"n\":1}", "{\"n\":1}\n{\"n\":1}", `{"n":1}`)
	f.Add("[[{\"a\":{}}],null]", "[[{\"a\":{ }}],1]", `[[[[[[[[`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var calls [][][]byte
		for _, all := range []string{a, b, a} {
			var one [][]byte
			for line := range strings.Lines(all) {
				one = append(one, []byte(line))
			}
			calls = append(calls, one)
		}
		tw, err := Learn(calls)
		if err != nil {
			return
		}
		for _, one := range calls {
			if got := numbers(tw, one); !slices.Equal(got, upTo(tw.N())) && tw.Distinct() || len(unique(got)) != len(one) || got[0] == 0 {
				t.Fatalf("%q: %v, distinct %v", one, got, tw.Distinct())
			}
		}
		counter := Counter{Twin: tw}
		if n, same := counter.Number([]byte(c)); n < 0 || n > int64(tw.N()) || same != (n > 0) {
			t.Fatalf("%q: %d, %v", c, n, same)
		}
	})
}

// TestAMessageThatDiffersEverywhere is refused at once: naming each of its places would take
// minutes, and a target may send one.
func TestAMessageThatDiffersEverywhere(t *testing.T) {
	all := func(digit string) [][]byte {
		return [][]byte{[]byte("[" + strings.Repeat(digit+",", 100_000) + digit + "]")}
	}
	_, err := Learn([][][]byte{all("1"), all("2")})
	if err == nil || !strings.Contains(err.Error(), "more than 256 places") {
		t.Error(err)
	}
}
