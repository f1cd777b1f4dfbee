package refserver

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What the quick way writes is what the SDK's encoder writes, or it leaves it alone.
func TestFrameNotification_IsWhatTheSDKEncodes(t *testing.T) {
	id, err := jsonrpc.MakeID("1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		m     jsonrpc.Request
		quick bool
	}{
		{"progress", jsonrpc.Request{Method: "notifications/progress", Params: []byte(`{"progress":1,"message":"a \"b\" <é> \u2028"}`)}, true},
		{"no parameters", jsonrpc.Request{Method: "notifications/x"}, false},
		{"a quote in the method", jsonrpc.Request{Method: `a"b`, Params: []byte(`{}`)}, false},
		{"a backslash in the method", jsonrpc.Request{Method: `a\b`, Params: []byte(`{}`)}, false},
		{"a control character in the method", jsonrpc.Request{Method: "a\x01b", Params: []byte(`{}`)}, false},
		{"no method", jsonrpc.Request{Params: []byte(`{}`)}, false},
		{"a line feed between tokens", jsonrpc.Request{Method: "x", Params: []byte("{\n}")}, false},
		{"a carriage return between tokens", jsonrpc.Request{Method: "x", Params: []byte("{\r}")}, false},
		{"a request", jsonrpc.Request{ID: id, Method: "ping", Params: []byte(`{}`)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := frameNotification(&tt.m)
			if ok != tt.quick {
				t.Fatalf("%q, %t", got, ok)
			}
			if !ok {
				return
			}
			data, err := jsonrpc.EncodeMessage(&tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if want := frame(data); string(got) != string(want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestFrame_HoldsNoLineBreaks(t *testing.T) {
	for _, message := range []string{"{\"a\":\n1}", "{\"a\":\r1}", "{\"a\":\r\n1}", `{"a":1}`} {
		if got := string(frame([]byte(message))); got != "data: {\"a\":1}\n\n" {
			t.Errorf("%q becomes %q", message, got)
		}
	}
}
