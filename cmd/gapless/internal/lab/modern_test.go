package lab

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// TestModernServer: in 2026-07-28 a cut cancels the call, which is made again under a new
// id; nothing of the old one may come any more.
func TestModernServer(t *testing.T) {
	p := thirdParty(t)
	p.Target.URL, p.Target.Protocol, p.Calls = goSDKWith(t, &mcp.StreamableHTTPOptions{Stateless: true}), "2026-07-28", []profiles.Call{call("count")}
	p.Mark("target.protocol")
	p.Resolve()
	r := load(t, p)
	if r.Verdict != result.Holds || r.Drops.Reissued == 0 || r.Drops.ReissuesAnswered != r.Drops.Reissued || r.Drops.ForeignMessages != 0 {
		t.Errorf("%+v", r.Drops)
	}
}
