package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"the quick brown fox jumps over the lazy dog and runs away from it as fast as it can","progress":17,"progressToken":"g0123abcd.1.2.0123456789abcdef","total":50}}`

type message struct {
	name, in string
	want     Message
}

func messages() []message {
	b := func(s string) []byte { return []byte(s) }
	return []message{
		{"progress – all of it", progress, Message{Kind: KindNotification, Method: b("notifications/progress"),
			Token: b("g0123abcd.1.2.0123456789abcdef"), TokenText: true, Progress: 17, Total: 50, HasProgress: true, HasTotal: true}},
		{"white space outside strings – loose", "{ \"jsonrpc\":\"2.0\",\"method\":\"a b\"}\n", Message{Kind: KindNotification, Method: b("a b"), Loose: true}},
		{"request with a number", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, Message{Kind: KindRequest, Method: b("ping"), ID: b("7")}},
		{"request with a string", `{"jsonrpc":"2.0","id":"init","method":"ping"}`, Message{Kind: KindRequest, Method: b("ping"), ID: b(`"init"`)}},
		{"result with the mark of its call", `{"jsonrpc":"2.0","id":7,"result":{"a":[1,{"b":{}}],"_meta":{"x":1,"gapless/call":"tok"}}}`, Message{Kind: KindResult, ID: b("7"), Mark: b("tok")}},
		{"result that is no object", `{"jsonrpc":"2.0","id":7,"result":null}`, Message{Kind: KindResult, ID: b("7")}},
		{"error", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no","data":[]}}`, Message{Kind: KindError, ID: b("7")}},
		{"error of no request", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, Message{Kind: KindError}},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, Message{Kind: KindError}},
		{"escapes – resolved", `{"json\u0072pc":"2.\u0030","m\u0065thod":"a\/\u00e9\ud83d\ude00\n","params":{"progressToken":"\"t\ud800"}}`,
			Message{Kind: KindNotification, Method: b("a/é😀\n"), Token: b("\"t\ufffd"), TokenText: true}},
		{"token that is a number", `{"jsonrpc":"2.0","method":"m","params":{"progressToken":12,"progress":-1.5e2,"total":1e400}}`,
			Message{Kind: KindNotification, Method: b("m"), Token: b("12"), Progress: -150, HasProgress: true, Total: math.Inf(1), HasTotal: true}},
		{"progress that is no number – not there", `{"jsonrpc":"2.0","method":"m","params":{"progress":"1","total":[],"progressToken":{}}}`, Message{Kind: KindNotification, Method: b("m")}},
		{"whole number written as a fraction", `{"jsonrpc":"2.0","id":1.0,"method":"m"}`, Message{Kind: KindRequest, Method: b("m"), ID: b("1.0")}},
		{"params that are an array", `{"jsonrpc":"2.0","method":"m","params":[1]}`, Message{Kind: KindNotification, Method: b("m")}},
		{"key twice – the last counts", `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, Message{Kind: KindRequest, Method: b("m"), ID: b("2"), Illegal: IllegalDupKeys}},
		{"token twice", `{"jsonrpc":"2.0","method":"m","params":{"progressToken":"a","progressToken":"b"}}`, Message{Kind: KindNotification, Method: b("m"), Token: b("b"), TokenText: true, Illegal: IllegalDupKeys}},
		{"key twice where it decides nothing", `{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2},"x":1,"x":2}`, Message{Kind: KindNotification, Method: b("m")}},
		{"string that is no UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"x\":\"\xff\"}", Message{Kind: KindNotification, Method: b("m"), Illegal: IllegalUTF8}},
		{"no UTF-8 in the first word of a long string", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"x\":\"\xffaaaaaaaaaaaaaaaaaaaa\"}", Message{Kind: KindNotification, Method: b("m"), Illegal: IllegalUTF8}},
		{"no UTF-8 before a quote", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"x\":\"a\xff\",\"y\":\"bbbbbbbb\"}", Message{Kind: KindNotification, Method: b("m"), Illegal: IllegalUTF8}},
		{"no UTF-8 behind an escape", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"x\":\"\\n\xff\",\"y\":\"bbbbbbbb\"}", Message{Kind: KindNotification, Method: b("m"), Illegal: IllegalUTF8}},
		{"UTF-8 beside quotes", `{"jsonrpc":"2.0","method":"é","x":"😀","yyyyyyyyyé":"ééééééééé"}`, Message{Kind: KindNotification, Method: b("é")}},
		{"control byte among others", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"x\":\"aaa\x01aaaaaaaaaaaaaaa\"}", Message{Illegal: IllegalJSON}},
		{"escape that is none", `{"jsonrpc":"2.0","method":"m","x":"\x"}`, Message{Illegal: IllegalJSON}},
		{"escape with a bad digit", `{"jsonrpc":"2.0","method":"m","x":"\u00g0"}`, Message{Illegal: IllegalJSON}},
		{"escape cut short", `{"jsonrpc":"2.0","method":"m","x":"\u00`, Message{Illegal: IllegalJSON}},
		{"escaped quote at every place of a word", `{"jsonrpc":"2.0","method":"m","x":["\"","a\"","aa\"","aaa\"","aaaa\"","aaaaa\"","aaaaaa\"","aaaaaaa\"","aaaaaaaa\"\\"]}`, Message{Kind: KindNotification, Method: b("m")}},
		{"two high surrogates", `{"jsonrpc":"2.0","method":"\ud83d\ud83d\ude00\ud83dx"}`, Message{Kind: KindNotification, Method: b("\ufffd😀\ufffdx")}},
		{"negative progress", `{"jsonrpc":"2.0","method":"m","params":{"progress":-5,"total":12345678901234567890123}}`,
			Message{Kind: KindNotification, Method: b("m"), Progress: -5, HasProgress: true, Total: 12345678901234567890123, HasTotal: true}},
		{"number with a leading zero", `{"jsonrpc":"2.0","method":"m","x":01}`, Message{Illegal: IllegalJSON}},
		{"numbers of all kinds", `{"jsonrpc":"2.0","method":"m","x":[0,-0,0.5,-1e5,1E+5,1.25e-3]}`, Message{Kind: KindNotification, Method: b("m")}},
		{"point without digits", `{"jsonrpc":"2.0","method":"m","x":1.}`, Message{Illegal: IllegalJSON}},
		{"batch", `[{"jsonrpc":"2.0","method":"m"}]`, Message{Kind: KindBatch, Illegal: IllegalBatch}},
		{"no version", `{"method":"m"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"wrong version", `{"jsonrpc":"1.0","method":"m"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"version that is a number", `{"jsonrpc":2.0,"method":"m"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, Message{Method: b("m"), ID: b("1"), Illegal: IllegalRPC}},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, Message{ID: b("1"), Illegal: IllegalRPC}},
		{"nothing that makes a message", `{"jsonrpc":"2.0","id":1}`, Message{ID: b("1"), Illegal: IllegalRPC}},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, Message{Illegal: IllegalRPC}},
		{"request with a null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"request with a broken id", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, Message{Method: b("m"), ID: b("1.5"), Illegal: IllegalRPC}},
		{"request with an object as id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"method that is no string", `{"jsonrpc":"2.0","method":1}`, Message{Illegal: IllegalRPC}},
		{"params that are a string", `{"jsonrpc":"2.0","method":"m","params":"p"}`, Message{Method: b("m"), Illegal: IllegalRPC}},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}`, Message{ID: b("1"), Illegal: IllegalRPC}},
		{"error that is a string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, Message{ID: b("1"), Illegal: IllegalRPC}},
		{"number", `17`, Message{Illegal: IllegalRPC}},
		{"empty", ``, Message{Illegal: IllegalJSON}},
		{"cut", `{"jsonrpc":"2.0","method":"m"`, Message{Method: b("m"), Illegal: IllegalJSON}},
		{"two values", `{"jsonrpc":"2.0","method":"m"}{}`, Message{Method: b("m"), Illegal: IllegalJSON}},
		{"value missing", `{"jsonrpc":"2.0","method":}`, Message{Illegal: IllegalJSON}},
		{"comma too many", `{"jsonrpc":"2.0","method":"m",}`, Message{Method: b("m"), Illegal: IllegalJSON}},
		{"line end in a string", "{\"jsonrpc\":\"2.0\",\"method\":\"m\n\"}", Message{Illegal: IllegalJSON}},
		{"NUL behind", "{}\x00", Message{Illegal: IllegalJSON}},
		{"nested to the bound", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), Message{Kind: KindBatch, Illegal: IllegalBatch}},
		{"nested over the bound", strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), Message{Illegal: IllegalSize}},
	}
}

// plain drops what only Scan itself looks at, and what means nothing beside an error.
func plain(m Message) Message {
	m.seen, m.shape, m.text = 0, false, nil
	if m.Illegal&(IllegalJSON|IllegalSize) != 0 {
		m = Message{Illegal: m.Illegal}
	}
	return m
}

func TestScan(t *testing.T) {
	for _, v := range messages() {
		t.Run(v.name, func(t *testing.T) {
			var m Message
			Scan([]byte(progress), &m) // nothing of an earlier message may be left
			Scan([]byte(v.in), &m)
			got, _ := json.Marshal(finite(plain(m)))
			want, _ := json.Marshal(finite(plain(v.want)))
			if !bytes.Equal(got, want) {
				t.Errorf("%s\ngot  %s\nwant %s", v.in, got, want)
			}
			checkScan(t, []byte(v.in))
		})
	}
}

func finite(m Message) Message {
	if math.IsInf(m.Total, 1) {
		m.Total = math.MaxFloat64
	}
	return m
}

// checkScan compares with encoding/json: whether it is JSON at all, and the fields.
func checkScan(t *testing.T, data []byte) {
	t.Helper()
	var m Message
	Scan(data, &m)
	if m.Illegal&IllegalSize != 0 {
		return
	}
	if valid := json.Valid(data); valid == (m.Illegal&IllegalJSON != 0) {
		t.Fatalf("%q: json.Valid says %v, flags %b", data, valid, m.Illegal)
	}
	if m.Illegal&IllegalJSON != 0 {
		return
	}
	if utf8.Valid(data) == (m.Illegal&IllegalUTF8 != 0) {
		t.Fatalf("%q: flags %b", data, m.Illegal)
	}
	checkHash(t, data, &m)
	if m.Illegal&IllegalDupKeys != 0 || data[bytes.IndexAny(data, "{[tfn\"-0123456789")] != '{' {
		return
	}
	checkFields(t, data, &m)
}

// checkHash wants one hash for all ways to lay a message out.
func checkHash(t *testing.T, data []byte, m *Message) {
	t.Helper()
	if !m.Loose {
		if Hash(data, m) != xxhash.Sum64(data) {
			t.Fatalf("%q: not hashed as it is", data)
		}
	}
	var compact, wide bytes.Buffer
	if json.Compact(&compact, data) != nil || json.Indent(&wide, data, "", "\t") != nil {
		t.Fatalf("%q: cannot be laid out", data)
	}
	if loose := compact.Len() != len(data); loose != m.Loose {
		t.Fatalf("%q: loose %v, want %v", data, m.Loose, loose)
	}
	var a, b Message
	spaced := append([]byte(" "), data...)
	Scan(spaced, &a)
	Scan(wide.Bytes(), &b)
	if b.Loose && Hash(spaced, &a) != Hash(wide.Bytes(), &b) {
		t.Fatalf("%q: hash depends on the white space", data)
	}
	l := lexer{b: spaced}
	sorted := canonical(&l, nil)
	var again any
	if json.Unmarshal(sorted, &again) != nil && json.Unmarshal(data, &again) == nil {
		t.Fatalf("%q: canonical form is %q", data, sorted)
	}
	if len(sorted) != compact.Len() || Hash(spaced, &a) != xxhash.Sum64(sorted) {
		t.Fatalf("%q: canonical form is %q", data, sorted)
	}
}

func checkFields(t *testing.T, data []byte, m *Message) {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return // a number that no float64 holds
	}
	same := func(what string, got []byte, raw json.RawMessage) {
		var want string
		if json.Unmarshal(raw, &want) != nil {
			want = string(raw)
		}
		if utf8.Valid(got) && string(got) != want {
			t.Fatalf("%q: %s is %q, want %q", data, what, got, want)
		}
	}
	if m.Method != nil {
		same("method", m.Method, top["method"])
	}
	if m.ID != nil && string(m.ID) != string(top["id"]) {
		t.Fatalf("%q: id is %q", data, m.ID)
	}
	if m.Kind != KindNone && (m.Kind == KindRequest || m.Kind == KindNotification) != (top["method"] != nil) {
		t.Fatalf("%q: kind %d", data, m.Kind)
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(top["params"], &params) != nil {
		return
	}
	if m.Token != nil {
		same("token", m.Token, params["progressToken"])
	}
	var f *float64
	err := json.Unmarshal(params["progress"], &f)
	if has := err == nil && f != nil; has != m.HasProgress && !math.IsInf(m.Progress, 0) || has && *f != m.Progress {
		t.Fatalf("%q: progress %v %v, want %s", data, m.HasProgress, m.Progress, params["progress"])
	}
}

func TestHash(t *testing.T) {
	same := []string{`{"a":[1,2,{"b":"x y","c":null}],"d":{}}`, "{\"d\" : {},\n\"a\":[1,2, {\"c\":null,\"b\":\"x y\"} ]}", "\r\n{\t\"a\":[1,2,{\"b\":\"x y\",\"c\":null}],\"d\":{ }}"}
	want := xxhash.Sum64String(same[0])
	for _, s := range same {
		var m Message
		Scan([]byte(s), &m)
		if got := Hash([]byte(s), &m); got != want {
			t.Errorf("%q: %x, want %x", s, got, want)
		}
	}
	other := "{\"a\":[2,1,{\"b\":\"x y\",\"c\":null}],\"d\": {}}"
	var m Message
	Scan([]byte(other), &m)
	if Hash([]byte(other), &m) == want {
		t.Error("another order in an array has the same hash")
	}
}
