package main_test

import (
	"strings"
	"testing"
)

// bad returns, by rule, files that break it. Each has to fire alone.
func bad() map[string][]string {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	slash := "/"
	return map[string][]string{
		"walls between parts": {
			"loadgen/x.go\npackage loadgen\nimport _ \"" + module + "/chaos\"",
			"loadgen/wire/x.go\npackage wire\nimport _ \"" + module + "/chaos/scan\"",
			"chaos/x_test.go\npackage chaos_test\nimport _ \"" + module + "/refserver\"",
			"refserver/store/deep/x.go\npackage deep\nimport _ \"" + module + "/loadgen/history\"",
			"loadgen/judge/x.go\npackage judge\nimport _ \"" + module + "/loadgen/wire\"",
			"loadgen/result/x.go\npackage result\nimport _ \"" + module + "/loadgen\"",
			"profiles/x.go\npackage profiles\nimport _ \"" + module + "/loadgen/history\"",
			"cmd/gapless/x.go\npackage main\nimport _ \"" + module + "/refserver\"",
			"loadgen/x.go\npackage loadgen\nimport _ \"" + module + "/internal/memnet\"",
			"newpart/x.go\npackage newpart\nimport _ \"" + module + "/profiles\"",
		},
		"leaves use the standard library alone":    {"loadgen/judge/x.go\npackage judge\nimport _ \"github.com/cespare/xxhash/v2\""},
		"the judge does no I/O and reads no clock": {"loadgen/judge/x.go\npackage judge\nimport _ \"os\"", "loadgen/judge/x.go\npackage judge\nimport clock \"time\"\nvar now = clock.Now"},
		"functions have at most 70 lines":          {"a/x.go\npackage a\nfunc f() {" + lines(70) + "}"},
		"files have at most 700 lines":             {"a/x.go\npackage a" + lines(701)},
		"interfaces have at most 3 methods":        {"a/x.go\npackage a\nimport \"io\"\ntype i interface { io.Reader; A(); B(); C() }", "a/x.go\npackage a\nfunc f(interface{ A(); B(); C(); D() })"},
		"no init functions":                        {"a/x.go\npackage a\nfunc init() {}"},
		"tests do not sleep in real time": {
			"a/x_test.go\npackage a\nimport \"time\"\nfunc f() { time.Sleep(1) }", "a/x_test.go\npackage a\nimport t \"time\"\nvar nap = t.Sleep",
			"a/x_test.go\npackage a\nimport (\n\"time\"\n\"testing/synctest\"\n)\nfunc TestA() { synctest.Test(nil, nil) }\nfunc TestB() { time.Sleep(1) }",
		},
		"packages have names that say something": {"a/util/x.go\npackage good", "a/x.go\npackage common", "pkg/a/x.go\npackage a", "a/x_test.go\npackage types_test"},
		"one file imports yaml":                  {"a/x.go\npackage a\nimport _ \"gopkg.in/yaml.v3\"\n~b/y_test.go\npackage b\nimport _ \"go.yaml.in/yaml/v4\""},
		"libraries do not read the environment":  {"a/x.go\npackage a\nimport \"os\"\nvar e = os.Getenv(\"A\")"},
		"tests use no fixed ports": {
			"a/x_test.go\npackage a\nimport \"net\"\nvar l, _ = net.Listen(\"tcp\", \"127.0.0.1:8931\")",
			"a/x_test.go\npackage a\nimport \"net/http\"\nvar s = http.Server{Addr: \":8080\"}",
			"a/x_test.go\npackage a\nvar args = []string{\"serve\", \"--addr\", \"localhost:8931\"}",
			"a/x_test.go\npackage a\nvar c = command(\"serve\", \"--http\", \"[::1]:9\")",
		},
		"no paths of a machine": {
			"README.md\nrun " + slash + "root" + slash + "go/bin/x", ".ci/run\ncd " + slash + "work", "a/x.go\npackage a\nvar p = \"" + slash + "tmp" + slash + "x.sock\"",
			"a.yaml\ndir: '" + slash + "home/me'",
		},
	}
}

// good breaks no rule, although it comes close.
func good() []string {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	return []string{
		"loadgen/x_test.go\npackage loadgen_test\nimport _ \"" + module + "/internal/memnet\"\nimport _ \"" + module + "/loadgen\"",
		"loadgen/judge/x.go\npackage judge\nimport \"time\"\nvar d = time.Second",
		"loadgen/judge/x_test.go\npackage judge\nimport _ \"os\"",
		"cmd/gapless/internal/lab/x.go\npackage lab\nimport _ \"" + module + "/refserver/store\"\nimport _ \"" + module + "/chaos\"",
		"cmd/gapless/x.go\npackage main\nimport \"os\"\nvar e = os.Getenv(\"A\")",
		"a/x.go\npackage a\nfunc f() {" + lines(69) + "}" + lines(600) + "type t struct{}\nfunc (t) init() {}",
		"a/x.go\npackage a\nimport \"io\"\ntype i interface { io.Reader; A(); B() }",
		"a/x.go\npackage a\nimport \"time\"\nfunc f() { time.Sleep(1) }",
		"a/x_test.go\npackage a\ntype sleeper struct{}\nfunc (sleeper) Sleep() {}\nvar time sleeper\nfunc f() { time.Sleep() }",
		"a/x_test.go\npackage a\nimport (\n\"time\"\n\"testing/synctest\"\n)\nfunc TestA() { synctest.Test(nil, func() { time.Sleep(1) }) }\nfunc wait() { time.Sleep(1) }",
		"a/x.go\npackage a\nimport _ \"gopkg.in/yaml.v3\"",
		"a/x_test.go\npackage a\nimport \"net\"\nvar l, _ = net.Listen(\"tcp\", \"127.0.0.1:0\")\nvar u = \"http://127.0.0.1:1/mcp\"",
		"README.md\nGET /mcp and a/t" + "mp/b, https://example.com/w" + "ork/x, $DIR/tmp, /template, /workers",
	}
}

// files parses the files of a sample, parted by a line with ~.
func files(t *testing.T, sample string) []source {
	t.Helper()
	var out []source
	for _, one := range strings.Split(sample, "\n~") {
		name, text, _ := strings.Cut(one, "\n")
		s, err := parseSource(name, text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, sample)
		}
		out = append(out, s)
	}
	return out
}

func TestArchitectureRulesFire(t *testing.T) {
	samples := bad()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if len(samples[r.name]) == 0 {
				t.Fatal("nothing shows that this rule fires")
			}
			for _, sample := range samples[r.name] {
				if len(r.check(files(t, sample))) == 0 {
					t.Errorf("the rule does not see\n%.300s", sample)
				}
			}
			for _, sample := range good() {
				for _, complaint := range r.check(files(t, sample)) {
					t.Errorf("false alarm: %s", complaint)
				}
			}
		})
		delete(samples, r.name)
	}
	for name := range samples {
		t.Errorf("samples for a rule that does not exist: %s", name)
	}
}
