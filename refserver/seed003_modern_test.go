package refserver_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clause: a store is refused where there are no sessions to resume, when the server is made,
// with words that say so; each alone is fine.
func TestSeed003_StoreInStatelessMode_IsRefused(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	for _, tt := range []struct {
		cfg  refserver.Config
		good bool
	}{
		{refserver.Config{Stateless: true, Store: newStore(t, store.Limits{})}, false},
		{refserver.Config{Stateless: true}, true},
		{refserver.Config{Store: newStore(t, store.Limits{})}, true},
	} {
		_, err := refserver.New(server, tt.cfg)
		if (err == nil) != tt.good || err != nil && !strings.Contains(err.Error(), "store") {
			t.Errorf("stateless %t, store %t: %v", tt.cfg.Stateless, tt.cfg.Store != nil, err)
		}
	}
}

// Clause: 2026-07-28 has no resumable streams and is untouched: its answers carry no ids, no
// priming event and no reconnection time, they are not stored, a cursor that such a request
// brings leads nowhere, and what fails there is not reported in the words of a session's
// stream. Byte by byte it is what a server without a store sends.
func TestSeed003_Modern_IsUntouchedByTheStore(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var bodies []string
		for _, kept := range []*store.Memory{nil, newStore(t, store.Limits{})} {
			var log eventLog
			cfg := log.observe(cfg)
			cfg.Modern = true
			if kept == nil {
				cfg = refserver.Config{Modern: true}
			} else {
				cfg.Store = kept
			}
			r, _ := modernRig(t, virtual, cfg)
			a := modernCall(1, "count")
			if kept != nil {
				p := r.open(latest)
				all := p.emit(1, "a", twenty).rest()
				a.session, a.cursor = p.id, all[3].id
			}
			resp := r.do(a)
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %v %v", resp.Status, resp.Header, err)
			}
			resp.Body.Close()
			bodies = append(bodies, string(body))
			if kept != nil && (kept.Stats().Events != 22 || kept.Stats().Streams != 1) {
				t.Errorf("the store keeps %+v", kept.Stats())
			}
			gone := r.do(modernCall(2, "hour"))
			synctest.Wait()
			gone.Body.Close() // which cancels it
			synctest.Wait()
			if lines := log.lines("failed to send message"); len(lines) > 0 {
				t.Errorf("reported as a stream of a session: %q", lines)
			}
		}
		lines := slices.DeleteFunc(strings.Split(bodies[1], "\n"), func(l string) bool { return strings.HasPrefix(l, "data: {") || l == "" || l == "event: message" })
		if len(lines) > 0 || bodies[0] != bodies[1] {
			t.Errorf("with a store\n%s\nwithout\n%s", bodies[1], bodies[0])
		}
	})
}

// Clause: where 2026-07-28 is not served its GET and its cursors are no resume either.
func TestSeed003_ModernGET_ResumesNothing(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, served := range []bool{false, true} {
			cfg.Store, cfg.Modern = newStore(t, store.Limits{}), served
			p := virtual(t, cfg).open(latest)
			all := p.emit(1, "a", twenty).rest()
			code, body := p.status(ask{method: "GET", session: p.id, version: modern, cursor: all[3].id})
			if code != 405 && code != 400 || strings.Contains(body, "data:") || strings.Contains(body, all[3].id) {
				t.Errorf("served %t: %d %s", served, code, body)
			}
			pass(time.Second)
		}
	})
}
