package lab

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/profiles"
)

func TestSecretsAreWithheld(t *testing.T) {
	target := profiles.Target{
		URL: "https://h.example/mcp?api_key=hush&mode=fast", HTTPProxy: "http://u:hush@p.example:3128",
		Exec:    `A=hush B='hush hush' exec node --port=hush "$C" server.mjs`,
		Headers: map[string]string{"Authorization": "Bearer hush", "X-Team": "hush"},
	}
	kept := Withhold(target)
	text := kept.Exec + kept.URL + kept.HTTPProxy + kept.Headers["Authorization"] + kept.Headers["X-Team"]
	if strings.Contains(text, "hush") || !strings.Contains(kept.Exec, "node") || !strings.Contains(kept.URL, "mode=fast") || !strings.Contains(kept.HTTPProxy, "p.example:3128") {
		t.Errorf("%+v", kept)
	}
	if target.Headers["X-Team"] != "hush" {
		t.Error("the run itself has lost its header")
	}
	err := Lacking(kept)
	for _, want := range []string{"header Authorization", "header X-Team", "--http-proxy", "--target", "--exec"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not ask for %s", err, want)
		}
	}
	plain := profiles.Target{URL: "http://127.0.0.1:1/mcp", HTTPProxy: "env"}
	if got := Withhold(plain); got.URL != plain.URL || got.HTTPProxy != plain.HTTPProxy || Lacking(got) != nil {
		t.Errorf("%+v: %v", got, Lacking(got))
	}
}
