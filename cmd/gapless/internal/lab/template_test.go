package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen"
)

func expand(t *testing.T, args string, seed uint64, stream uint32) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(args), &v); err != nil {
		t.Fatal(err)
	}
	tm, err := compile(v, false)
	if err != nil {
		t.Fatal(err)
	}
	out := tm.arguments(seed)(loadgen.Arrival{Stream: stream})
	if !json.Valid(out) {
		t.Fatalf("%s gives no JSON: %s", args, out)
	}
	return string(out)
}

func TestTemplates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("a \"b\"\n{{seq}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{`{}`, `{}`},
		{`{"a":1,"b":[true,null,"x"],"c":{"d":2.5}}`, `{"a":1,"b":[true,null,"x"],"c":{"d":2.5}}`},
		{`{"n":"{{seq}}"}`, `{"n":7}`},
		{`{"n":"call {{ seq }}"}`, `{"n":"call 7"}`},
		{`{"n":"\"{{seq}}\""}`, `{"n":"\"7\""}`},
		{`{"n":"{{rand 5 5}}"}`, `{"n":5}`},
		{`{"n":"{{rand -3 -3}}{{seq}}"}`, `{"n":"-37"}`},
		{`{"n":"{{}"}`, `{"n":"{{}"}`},
		{`{"f":"{{file \"` + filepath.ToSlash(file) + `\"}}"}`, `{"f":"a \"b\"\n{{seq}}"}`},
		{`{"f":"{{file '` + filepath.ToSlash(file) + `'}}"}`, `{"f":"a \"b\"\n{{seq}}"}`},
		{`{"f":"<{{file \"` + filepath.ToSlash(file) + `\"}}>"}`, `{"f":"\u003ca \"b\"\n{{seq}}\u003e"}`},
	} {
		if got := expand(t, tc.args, 1, 7); got != tc.want {
			t.Errorf("%s gives %s, want %s", tc.args, got, tc.want)
		}
	}
}

// TestTemplatesAreKeyed checks that one stream of one seed always gets the same, and
// another stream something else.
func TestTemplatesAreKeyed(t *testing.T) {
	for _, args := range []string{`{"n":"{{rand 1 1000000000}}"}`, `{"n":"{{uuid}}"}`, `{"n":"a-{{uuid}}-{{rand 1 9}}"}`} {
		first := expand(t, args, 1, 1)
		if again := expand(t, args, 1, 1); again != first {
			t.Errorf("%s: %s, then %s", args, first, again)
		}
		if expand(t, args, 1, 2) == first || expand(t, args, 2, 1) == first {
			t.Errorf("%s: another stream or seed gets %s as well", args, first)
		}
	}
	if got := expand(t, `{"n":"{{uuid}}"}`, 3, 4); !regexp.MustCompile(`^\{"n":"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"\}$`).MatchString(got) {
		t.Errorf("%s is no UUID", got)
	}
}

func TestTemplatesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{{squ}}":                `{{squ}}: unknown; known: {{seq}}`,
		"x {{rand 9 1}}":         "write it like {{rand 1 100}}",
		"{{rand 1}}":             "write it like {{rand 1 100}}",
		"{{rand 1 2 3}}":         "write it like {{rand 1 100}}",
		"{{seq 1}}":              "write it like {{seq}}",
		"{{file f}}":             `write it like {{file "input.txt"}}`,
		`{{file "/no/such"}}`:    "no such file",
		`x {{file "/dev/zero"}}`: "more than 1 MiB",
	} {
		if _, err := compile(map[string]any{"a": []any{text}}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestPromptArguments checks that a prompt is given texts alone.
func TestPromptArguments(t *testing.T) {
	tm, err := compile(map[string]any{"n": "{{seq}}", "m": "x"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(tm.arguments(1)(loadgen.Arrival{Stream: 7})); got != `{"m":"x","n":"7"}` {
		t.Error(got)
	}
	if _, err := compile(map[string]any{"n": 7}, true); err == nil {
		t.Error("a number passes for a text")
	}
}
