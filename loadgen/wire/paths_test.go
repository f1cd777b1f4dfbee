package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func note(params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":` + params + `}`
}

func TestPaths(t *testing.T) {
	seq := func(v float64) Found { return Found{Sequence: v, HasSequence: true} }
	tests := []struct {
		name                      string
		sequence, digest, payload string
		params                    string
		want                      Found
		illegal                   Illegal
	}{
		{"number in an object", "/params/data/n", "", "", `{"a":[{"n":1}],"data":{"m":{"n":2},"n":3}}`, seq(3), 0},
		{"element of an array", "/params/data/1/n", "", "", `{"data":[{"n":1},{"n":2},{"n":3}]}`, seq(2), 0},
		{"index that is a key", "/params/data/1", "", "", `{"data":{"1":7}}`, seq(7), 0},
		{"index past the end – not there", "/params/data/3", "", "", `{"data":[1,2,3]}`, Found{}, 0},
		{"dash – no element", "/params/data/-", "", "", `{"data":[1,2,3]}`, Found{}, 0},
		{"dash – a key", "/params/data/-", "", "", `{"data":{"-":4}}`, seq(4), 0},
		{"zero before an index – no element", "/params/data/01", "", "", `{"data":[1,2,3]}`, Found{}, 0},
		{"empty array", "/params/data/0", "", "", `{"data":[]}`, Found{}, 0},
		{"params that are an array", "/params/1", "", "", `[1,2]`, seq(2), 0},
		{"params that are a number", "/params/1", "", "", `12`, Found{}, IllegalRPC},
		{"escaped key in the message", "/params/progress", "", "", `{"\u0070rogress":5}`, seq(5), 0},
		{"tilde and slash in keys", "/params/a~1b/~0~01", "", "", `{"a/b":{"~~1":6}}`, seq(6), 0},
		{"empty key", "/params/", "", "", `{"":8}`, seq(8), 0},
		{"key of the protocol, as an object", "/params/progress/n", "", "", `{"progress":{"n":9},"total":1}`, seq(9), 0},
		{"progress token that counts", "/params/progressToken", "", "", `{"progressToken":11}`, seq(11), 0},
		{"string – no number", "/params/n", "", "", `{"n":"3"}`, Found{}, 0},
		{"object – no number", "/params/n", "", "", `{"n":{"n":1}}`, Found{}, 0},
		{"null – no number", "/params/n", "", "", `{"n":null}`, Found{}, 0},
		{"value that is missing", "/params/n", "", "", `{}`, Found{}, 0},
		{"value outside params", "/params/n", "", "", `{"m":1},"n":2`, Found{}, 0},
		{"path through a number", "/params/n/m", "", "", `{"n":1}`, Found{}, 0},
		{"key twice – the last counts", "/params/d/n", "", "", `{"d":{"n":1,"n":2}}`, seq(2), IllegalDupKeys},
		{"object twice – the last counts", "/params/d/n", "", "", `{"d":{"n":1},"d":{"m":2}}`, Found{}, IllegalDupKeys},
		{"object twice, both with the key", "/params/d/n", "", "", `{"d":{"n":1},"d":{"n":2}}`, seq(2), IllegalDupKeys},
		{"element and key twice", "/params/d/0/n", "", "", `{"d":[{"n":1}],"d":[{"n":2}]}`, seq(2), IllegalDupKeys},
		{"params twice", "/params/n", "", "", `{"n":1},"params":{}`, Found{}, IllegalDupKeys},
		{"key twice that no path names", "/params/n", "", "", `{"m":1,"m":2,"n":3}`, seq(3), 0},
		{"digest and payload, decoded", "", "/params/data/sum", "/params/data/text", `{"data":{"sum":"ab\u0063","text":"x\ny\ud83d\ude00"}}`,
			Found{Digest: []byte("abc"), HasDigest: true, Payload: []byte("x\ny😀"), HasPayload: true}, 0},
		{"digest that is a number", "", "/params/sum", "/params/text", `{"sum":1,"text":""}`, Found{HasPayload: true, Payload: []byte{}}, 0},
		{"payload under a number that counts", "/params/p", "/params/p/s", "/params/p/t", `{"p":{"s":"1","t":"2"}}`,
			Found{Digest: []byte("1"), HasDigest: true, Payload: []byte("2"), HasPayload: true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParsePaths(tt.sequence, "", tt.digest, tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			var m Message
			got := Found{Sequence: 99, HasTotal: true} // nothing of an earlier message may be left
			p.Scan([]byte(note(tt.params)), &m, &got)
			if !reflect.DeepEqual(got, tt.want) || m.Illegal != tt.illegal {
				t.Errorf("%s\ngot  %+v, illegal %b\nwant %+v, illegal %b", note(tt.params), got, m.Illegal, tt.want, tt.illegal)
			}
		})
	}
}

func TestPathsOfProgressAreThoseOfScan(t *testing.T) {
	p, err := ParsePaths(PathProgress, PathTotal, "", "/params/message")
	if err != nil {
		t.Fatal(err)
	}
	odd, err := ParsePaths(PathTotal, PathProgress, "", "")
	if err != nil {
		t.Fatal(err)
	}
	want := Found{Sequence: 17, Total: 50, HasSequence: true, HasTotal: true}
	for _, p := range []*Paths{nil, p} {
		var m Message
		var f Found
		if p.Scan([]byte(progress), &m, &f); !reflect.DeepEqual(f, want) || m.Progress != 17 || !m.IsProgress() {
			t.Errorf("%+v, %+v", f, m)
		}
	}
	var m Message
	var f Found
	odd.Scan([]byte(progress), &m, &f)
	if f.Sequence != 50 || f.Total != 17 || m.Progress != 17 || string(m.Token) != "g0123abcd.1.2.0123456789abcdef" {
		t.Errorf("%+v, %+v", f, m)
	}
}

func TestParsePathsRefuses(t *testing.T) {
	long := strings.Repeat("/a", pathTokens)
	for _, tt := range []struct{ sequence, digest, payload, says string }{
		{"params/n", "", "", `sequence "params/n": a JSON Pointer begins with a slash, like /params/progress`},
		{"/params/a~", "", "", `sequence "/params/a~": a ~ must be followed by 0 (for ~) or 1 (for /)`},
		{"/params/~2", "", "", `a ~ must be followed by`},
		{"/result/n", "", "", `it must lead to something in /params`},
		{"/params", "", "", `it must lead to something in /params`},
		{"", "/params/d", "", `digest "/params/d": there is no payload that it is taken over`},
		{"", "", "x", `payload "x": a JSON Pointer`},
		{"/params" + long, "", "", "more than 16 steps"},
		{"/params/" + strings.Repeat("a", pathLength), "", "", "longer than 1024 bytes"},
	} {
		if p, err := ParsePaths(tt.sequence, "", tt.digest, tt.payload); err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 300 {
			t.Errorf("%q %q %q: %v, %v", tt.sequence, tt.digest, tt.payload, p, err)
		}
	}
	many := func(k int) string {
		return "/params" + strings.Repeat(fmt.Sprintf("/%d", k), pathTokens-1)
	}
	if _, err := ParsePaths(many(1), many(2), many(3), many(4)); err != nil {
		t.Errorf("four of the longest: %v", err)
	}
}

func TestPathsAllocateNothing(t *testing.T) {
	p, err := ParsePaths("/params/data/seq", "/params/data/of", "/params/data/sum", "/params/data/text")
	if err != nil {
		t.Fatal(err)
	}
	data := []byte(note(`{"level":"info","logger":"job","data":{"text":"line\t1 of the log","sum":"00ff","seq":3,"of":9}}`))
	var m Message
	var f Found
	p.Scan(data, &m, &f) // makes room for the escape
	if n := testing.AllocsPerRun(500, func() { p.Scan(data, &m, &f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if f.Sequence != 3 || f.Total != 9 || string(f.Payload) != "line\t1 of the log" || string(f.Digest) != "00ff" {
		t.Errorf("%+v", f)
	}
}

// follow is RFC 6901 §4, the slow way.
func follow(v any, pointer string) any {
	for _, t := range strings.Split(pointer, "/")[1:] {
		t = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		switch in := v.(type) {
		case map[string]any:
			v = in[t]
		case []any:
			v = nil
			for i := range in {
				if fmt.Sprint(i) == t {
					v = in[i]
				}
			}
		default:
			return nil
		}
	}
	return v
}

// checkPaths compares with encoding/json, and with Scan.
func checkPaths(t *testing.T, data []byte, pointer [4]string) {
	t.Helper()
	p, err := ParsePaths(pointer[0], pointer[1], pointer[2], pointer[3])
	if err != nil {
		return
	}
	var m, plainly Message
	var f Found
	p.Scan(data, &m, &f)
	Scan(data, &plainly)
	var top any
	if m.Illegal&^IllegalDupKeys != plainly.Illegal&^IllegalDupKeys || m.Kind != plainly.Kind && m.Illegal&IllegalDupKeys == 0 ||
		string(m.Method) != string(plainly.Method) || string(m.Token) != string(plainly.Token) || m.Progress != plainly.Progress || m.Loose != plainly.Loose {
		t.Fatalf("%q: %+v with paths, %+v without", data, m, plainly)
	}
	if m.Illegal&(IllegalJSON|IllegalSize) != 0 || !utf8.Valid(data) || json.Unmarshal(data, &top) != nil {
		return
	}
	object, ok := top.(map[string]any)
	if !ok {
		top = nil // a path never leads out of an array of messages
	} else {
		top = object
	}
	number := func(pointer string) (float64, bool) {
		if pointer == "" {
			return 0, false
		}
		v, ok := follow(top, pointer).(float64)
		return v, ok
	}
	text := func(pointer string) (string, bool) {
		if pointer == "" {
			return "", false
		}
		v, ok := follow(top, pointer).(string)
		return v, ok
	}
	seq, hasSeq := number(pointer[0])
	total, hasTotal := number(pointer[1])
	digest, hasDigest := text(pointer[2])
	payload, hasPayload := text(pointer[3])
	if p.progress {
		payload, hasPayload = "", false // nobody wants it without a digest
	}
	if f.Sequence != seq || f.HasSequence != hasSeq || f.Total != total || f.HasTotal != hasTotal ||
		string(f.Digest) != digest || f.HasDigest != hasDigest || string(f.Payload) != payload || f.HasPayload != hasPayload {
		t.Fatalf("%q at %q: %+v", data, pointer, f)
	}
}

// FuzzPaths: what encoding/json finds at a pointer.
func FuzzPaths(f *testing.F) {
	for _, params := range []string{
		`{"data":[1,{"n":2,"n":3}],"progress":1,"total":2,"message":"m\u0041"}`, `{"a":{"a":{"a":"x"}},"a":{"a":5}}`, `[[0,[1]],{"0":1}]`,
		`{"":{"":1},"/":2,"~":"3","\u002f":4}`, `{"progress":{"progress":1},"progressToken":{"n":[3]}}`,
	} {
		f.Add([]byte(note(params)), "/params/data/1/n", "/params/a/a", "/params/message", "/params/~0")
		f.Add([]byte(note(params)), "/params/progress", "/params/total", "", "/params/message")
		f.Add([]byte(note(params)), "/params/0/1/0", "/params//", "/params/progressToken/n/0", "/params/progress/progress")
	}
	f.Fuzz(func(t *testing.T, data []byte, a, b, c, d string) {
		if len(data) > 1<<14 {
			t.Skip("nothing new in size")
		}
		checkPaths(t, data, [4]string{a, b, c, d})
	})
}
