package refserver_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
)

// modernEmit is a call of emit in 2026-07-28.
func modernEmit(id int, token, args string) ask {
	meta := strings.Replace(modernMeta, `"p"`, fmt.Sprintf("%q", token), 1)
	return modernAsk("tools/call", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":%s}}`, id, args, meta), "emit")
}

// messagesOf are the data of an event stream, the response last.
func messagesOf(body string) (all []string) {
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

// TestModernEmit: the messages of a call without a session come in order on its own answer,
// byte by byte as the ledger has them, and the ledger knows execution and response.
func TestModernEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := modernRig(t, virtual, modernConfig(t))
		resp := r.do(modernEmit(1, "tok", `{"messages":12,"bytes":300,"interval_ms":10}`))
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		got := messagesOf(string(body))
		c := r.fixture.Ledger.Take([]string{"tok"})[0]
		if len(got) != 13 || c.Emitted != 12 || c.Executions != 1 || c.Responses != 1 || c.Cancelled || len(c.Unknown)+len(c.Unstored) > 0 {
			t.Fatalf("%d messages; %+v\n%s", len(got), c, body)
		}
		for i, m := range got[:12] {
			if !strings.Contains(m, fmt.Sprintf(`"progress":%d,`, i+1)) || len(m) != 300 {
				t.Errorf("message %d: %s", i+1, m)
			}
			if h := binary.BigEndian.Uint64(c.Hashes[8*i:]); h != xxhash.Sum64String(m) {
				t.Errorf("message %d is not the one that the ledger has: %s", i+1, m)
			}
		}
		if !strings.Contains(got[12], `"gapless/call":"tok"`) || !strings.Contains(got[12], `"resultType":"complete"`) {
			t.Errorf("response %s", got[12])
		}
	})
}

// TestModernEmitIsCancelled: a client that leaves ends the emission, and nothing is emitted
// from then on, wherever the call is.
func TestModernEmitIsCancelled(t *testing.T) {
	for _, c := range []struct {
		name, args string
		emitted    bool
	}{
		{"between two messages", `{"messages":1000,"interval_ms":20}`, true},
		{"in a burst that nobody reads", `{"messages":100000,"bytes":1000}`, true},
		{"at the gate", `{"messages":3,"hold":{"key":"k","streams":2}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := modernRig(t, virtual, modernConfig(t))
				a := modernEmit(1, "tok", c.args)
				conn, err := r.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
					"Mcp-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: emit\r\nContent-Length: %d\r\n\r\n%s", modern, len(a.body), a.body)
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				conn.Close()
				pass(time.Second)
				got := r.fixture.Ledger.Take([]string{"tok"})[0]
				if !got.Cancelled || got.Executions != 1 || got.Responses != 0 || (got.Emitted > 0) != c.emitted || got.Emitted >= 1000 && c.name == "between two messages" {
					t.Errorf("%+v", got)
				}
				pass(time.Minute)
				if again := r.fixture.Ledger.Take([]string{"tok"})[0]; again.Known { // it had ended, and was forgotten
					t.Errorf("it went on: %+v", again)
				}
			})
		})
	}
}
