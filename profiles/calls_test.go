package profiles_test

import (
	"testing"

	"github.com/gapless-dev/gapless/profiles"
)

// TestCallDefaults checks that what belongs to tool calls with progress is not left
// over where a profile asks for something else.
func TestCallDefaults(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       func(c profiles.Call) bool
	}{
		{"a resource is no tool", "calls: [{resource: 'file:///a'}]", func(c profiles.Call) bool { return c.Tool == "" }},
		{"a prompt is no tool", "calls: [{prompt: p}]", func(c profiles.Call) bool { return c.Tool == "" }},
		{"nothing named is emit", "calls: [{weight: 2}]", func(c profiles.Call) bool { return c.Tool == "emit" && c.Expect.Sequence != "" }},
		{"log messages have no numbers of their own", "calls: [{tool: a, expect: {method: notifications/message}}]",
			func(c profiles.Call) bool { return c.Expect.Sequence == "" && c.Expect.Total == "" }},
		{"but those that were named", "calls: [{tool: a, expect: {method: notifications/message, sequence: /params/data/n}}]",
			func(c profiles.Call) bool { return c.Expect.Sequence == "/params/data/n" && c.Expect.Total == "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profiles.Parse("c.yaml", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if !tc.want(p.Calls[0]) {
				t.Errorf("%s gives %+v", tc.text, p.Calls[0])
			}
		})
	}
}
