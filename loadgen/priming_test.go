package loadgen

import (
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// TestPriming: an id and empty data is a priming event, whatever its type. An event of
// another type that has data is no message.
func TestPriming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = func(v *visit) {
			v.sse()
			v.send("event: prime\nid: 1\ndata:\n\nid: 2\ndata:\n\nevent: hint\ndata:\n\nevent: hint\nid: 3\ndata: {}\n\n")
			v.send("event: message\nid: 4\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + v.id + ",\"result\":{}}\n\n")
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		var classes []history.Class
		for _, r := range seen.kind(history.KindEvent) {
			classes = append(classes, r.Event.Class)
		}
		has(t, "classes", classes, []history.Class{history.ClassEmpty, history.ClassEmpty, history.ClassOther, history.ClassOther, history.ClassResponse})
	})
}
