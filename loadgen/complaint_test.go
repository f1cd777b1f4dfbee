package loadgen

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

func TestComplaints(t *testing.T) {
	var c complaints
	hear := func(data string) {
		var m wire.Message
		wire.Scan([]byte(data), &m)
		c.hear(&m, []byte(data))
	}
	hear(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"fine"}],"isError":false}}`)
	has(t, "a result", c.report(), Complaints{})
	hear(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool \"emitt\""}}`)
	hear(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"too many bytes"}],"isError":true}}`)
	has(t, "two errors", c.report(), Complaints{2, `-32602 unknown tool "emitt"`})
	has(t, "isError", complaint([]byte(`{"result":{"isError":true,"content":[{"text":"no"}]}}`)), "isError: no")
	has(t, "long", len(complaint([]byte(`{"error":{"message":"`+strings.Repeat("x", 5000)+`"}}`))), maxComplaint)
	has(t, "nonsense", complaint([]byte(`{"error":5}`)), "")
}
