package main_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule lists what breaks it, with the place.
type rule struct {
	name  string
	check func([]source) []string
}

func rules() []rule {
	return []rule{
		{"walls between parts", walls},
		{"leaves use the standard library alone", leaves},
		{"the judge does no I/O and reads no clock", pureJudge},
		{"functions have at most 70 lines", eachGo(shortFunctions)},
		{"files have at most 700 lines", eachGo(shortFiles)},
		{"interfaces have at most 3 methods", eachGo(smallInterfaces)},
		{"no init functions", eachGo(noInit)},
		{"tests do not sleep in real time", eachGo(noSleep)},
		{"packages have names that say something", eachGo(goodNames)},
		{"one file imports yaml", oneYAML},
		{"libraries do not read the environment", eachGo(noEnvironment)},
		{"tests use no fixed ports", eachGo(noFixedPorts)},
		{"no paths of a machine", noMachinePaths},
	}
}

// eachGo makes a rule of one about single Go files.
func eachGo(check func(source) []string) func([]source) []string {
	return func(sources []source) []string {
		var out []string
		for _, s := range sources {
			if s.file != nil {
				out = append(out, check(s)...)
			}
		}
		return out
	}
}

// allowed says what each folder may import of this module, longest folder
// first found. A folder that is not listed may import nothing until somebody
// decides what.
func allowed() map[string][]string {
	const guard = "internal/guard"
	return map[string][]string{
		"profiles":                  {},
		"internal/guard":            {},
		"internal/memnet":           {},
		"loadgen":                   {"loadgen/history", "loadgen/twin", "loadgen/wire", guard},
		"loadgen/twin":              {"loadgen/wire"},
		"loadgen/history":           {},
		"loadgen/judge":             {"loadgen/history"},
		"loadgen/report":            {"loadgen/result", "loadgen/history"},
		"loadgen/result":            {},
		"loadgen/wire":              {},
		"chaos":                     {"chaos/scan", guard},
		"chaos/scan":                {},
		"chaos/proxy":               {"chaos", "chaos/scan", guard},
		"refserver":                 {"refserver/store", "refserver/handoff", "refserver/lock", "refserver/defect", guard},
		"refserver/store":           {"refserver/lock"},
		"refserver/store/storetest": {"refserver/store"},
		"refserver/handoff":         {"refserver/store", "refserver/lock"},
		"refserver/lock":            {},
		"refserver/fixtures":        {},
		"refserver/umcp":            {"refserver"},
		"refserver/streams":         {"refserver"},
		"refserver/defect":          {},
		"cmd/gapless/internal/lab":  {"loadgen", "loadgen/*", "chaos", "chaos/*", "refserver", "refserver/*", "profiles", "cmd/gapless/internal/*", guard},

		"cmd/gapless/internal/api":      {"loadgen/report", "loadgen/result", guard},
		"cmd/gapless/internal/client":   {"loadgen/wire", guard},
		"cmd/gapless/internal/endpoint": {"loadgen/wire", guard},
		"cmd/gapless/internal/export":   {"loadgen", "loadgen/history", "loadgen/result", guard},
		"cmd/gapless/internal/probe":    {"cmd/gapless/internal/client", "loadgen/wire", guard},
		"cmd/gapless/internal/process":  {guard},
		"cmd/gapless/internal/stdio":    {"cmd/gapless/internal/process", guard},
		"cmd/gapless/internal/survey":   {},

		"cmd/bench": {"loadgen/wire", "refserver", "refserver/lock", "refserver/store"},

		"cmd/gapless": {"cmd/gapless/internal/*", "profiles", "loadgen/judge", "loadgen/report", "loadgen/result", "loadgen/wire", "chaos", "chaos/proxy", guard},
	}
}

// inTests says what the tests of a folder may import besides: a target to look at.
func inTests() map[string][]string {
	return map[string][]string{
		"refserver/store":             {"refserver/store/storetest"},
		"refserver/handoff":           {"refserver/store/storetest"},
		"cmd/gapless/internal/client": {"refserver", "refserver/store"},
		"cmd/gapless/internal/probe":  {"refserver", "refserver/store"},
		"cmd/gapless/internal/stdio":  {"cmd/gapless/internal/client", "loadgen/wire"},
	}
}

// walls holds for subpackages and for tests; these may use the in-memory network.
func walls(sources []source) []string {
	var out []string
	for _, s := range sources {
		if s.file == nil {
			continue
		}
		home := s.dir()
		for home != "." && allowed()[home] == nil {
			home = path.Dir(home)
		}
		may, known := allowed()[home]
		if !known && len(s.ours()) > 0 {
			out = append(out, fmt.Sprintf("%s: no wall is drawn for folder %s; say in this test what it may import", s.path, s.dir()))
			continue
		}
		for _, dir := range s.ours() {
			ok := slices.Contains(may, dir) || slices.ContainsFunc(may, func(m string) bool {
				tree, all := strings.CutSuffix(m, "/*")
				return all && strings.HasPrefix(dir, tree+"/")
			})
			if !ok && !(s.isTest() && (dir == "internal/memnet" || home == dir || slices.Contains(inTests()[home], dir))) {
				out = append(out, fmt.Sprintf("%s imports %s across a wall", s.path, dir))
			}
		}
	}
	return out
}

func within(s source, dir string) bool { return s.dir() == dir || strings.HasPrefix(s.dir(), dir+"/") }

// leaves: what everything rests on rests on nothing.
func leaves(sources []source) []string {
	return imported(sources, []string{"loadgen/history", "loadgen/judge", "loadgen/result"}, func(p string) bool {
		return strings.Contains(strings.Split(p, "/")[0], ".") && !strings.HasPrefix(p, module+"/")
	})
}

func imported(sources []source, dirs []string, bad func(string) bool) []string {
	var out []string
	for _, s := range sources {
		if s.file == nil || s.isTest() || !slices.ContainsFunc(dirs, func(d string) bool { return within(s, d) }) {
			continue
		}
		for p := range s.imports() {
			if bad(p) {
				out = append(out, fmt.Sprintf("%s imports %s", s.path, p))
			}
		}
	}
	return out
}

func pureJudge(sources []source) []string {
	const judge = "loadgen/judge"
	out := imported(sources, []string{judge}, func(p string) bool {
		top, _, _ := strings.Cut(p, "/")
		return slices.Contains([]string{"os", "net", "io", "log", "syscall", "bufio", "embed", "context"}, top)
	})
	for _, s := range sources {
		if s.file == nil || s.isTest() || !within(s, judge) {
			continue
		}
		for _, n := range s.calls("time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker") {
			out = append(out, s.at(n)+": the judge reads a clock")
		}
	}
	return out
}

const (
	maxFunction  = 70
	maxFile      = 700
	maxInterface = 3
)

func shortFunctions(s source) []string {
	var out []string
	for _, d := range s.file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunction {
			out = append(out, fmt.Sprintf("%s: func %s has %d lines", s.at(f), f.Name.Name, n))
		}
	}
	return out
}

func shortFiles(s source) []string {
	if s.lines > maxFile {
		return []string{fmt.Sprintf("%s has %d lines", s.path, s.lines)}
	}
	return nil
}

// smallInterfaces counts an embedded interface as one method.
func smallInterfaces(s source) []string {
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if i, is := n.(*ast.InterfaceType); is {
			methods := 0
			for _, f := range i.Methods.List {
				methods += max(len(f.Names), 1)
			}
			if methods > maxInterface {
				out = append(out, fmt.Sprintf("%s: an interface with %d methods", s.at(i), methods))
			}
		}
		return true
	})
	return out
}

func noInit(s source) []string {
	var out []string
	for _, d := range s.file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && f.Name.Name == "init" {
			out = append(out, s.at(f)+": an init function")
		}
	}
	return out
}

// noSleep: a sleep in a bubble of virtual time takes none. So a test that sleeps
// has to run in one itself, and a helper has to stand beside tests that do.
func noSleep(s source) []string {
	if !s.isTest() {
		return nil
	}
	bubbles := s.calls("testing/synctest", "Test")
	_, imports := s.imports()["testing/synctest"]
	var out []string
	for _, n := range s.calls("time", "Sleep") {
		virtual := imports
		if f := s.around(n); f != nil && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			virtual = slices.ContainsFunc(bubbles, func(b ast.Node) bool { return s.around(b) == f })
		}
		if !virtual {
			out = append(out, s.at(n)+": a test sleeps for real; use testing/synctest, or wait for what should happen")
		}
	}
	return out
}

func goodNames(s source) []string {
	for _, word := range append(strings.Split(s.dir(), "/"), strings.TrimSuffix(s.file.Name.Name, "_test")) {
		if slices.Contains([]string{"util", "utils", "common", "types", "pkg", "helpers", "misc"}, word) {
			return []string{fmt.Sprintf("%s: the name %s says nothing", s.path, word)}
		}
	}
	return nil
}

func oneYAML(sources []source) []string {
	var files []string
	for _, s := range sources {
		if s.file == nil {
			continue
		}
		for p := range s.imports() {
			if strings.Contains(p, "yaml") {
				files = append(files, s.path)
			}
		}
	}
	slices.Sort(files)
	if len(files) > 1 {
		return []string{"yaml is imported by " + strings.Join(files, " and ")}
	}
	return nil
}

func noEnvironment(s source) []string {
	var out []string
	if s.isTest() || within(s, "cmd") {
		return nil
	}
	for _, n := range s.calls("os", "Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv") {
		out = append(out, s.at(n)+": a library reads the environment")
	}
	return out
}

// listenArgument is an address to listen on, on this machine, with a port.
func listenArgument() *regexp.Regexp {
	return regexp.MustCompile(`^(|127\.\d+\.\d+\.\d+|0\.0\.0\.0|localhost|\[::1?\]):[1-9]\d*$`)
}

// noFixedPorts looks at what is handed to functions that listen, at fields
// named Addr, and at what follows a flag such as --addr.
func noFixedPorts(s source) []string {
	var out []string
	if !s.isTest() {
		return nil
	}
	address := listenArgument()
	fixed := func(n ast.Node) {
		lit, is := n.(*ast.BasicLit)
		if !is || lit.Kind != token.STRING {
			return
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && address.MatchString(text) {
			out = append(out, fmt.Sprintf("%s: fixed port %s; listen on port 0", s.at(lit), text))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			if strings.HasPrefix(called(x), "Listen") {
				for _, arg := range x.Args {
					fixed(arg)
				}
			}
			afterFlag(x.Args, fixed)
		case *ast.CompositeLit:
			afterFlag(x.Elts, fixed)
		case *ast.KeyValueExpr:
			if id, is := x.Key.(*ast.Ident); is && id.Name == "Addr" {
				fixed(x.Value)
			}
		}
		return true
	})
	return out
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func afterFlag(list []ast.Expr, fixed func(ast.Node)) {
	for i := 1; i < len(list); i++ {
		if lit, is := list[i-1].(*ast.BasicLit); is && slices.Contains([]string{`"--addr"`, `"--http"`, `"--admin"`}, lit.Value) {
			fixed(list[i])
		}
	}
}

// machinePath finds absolute paths that exist on one machine only. It is put
// together from parts, or it would find itself.
func machinePath() *regexp.Regexp {
	folders := strings.Join([]string{"work", "root", "tmp", "home"}, "|")
	return regexp.MustCompile(`(?:^|[\s"'` + "`" + `=(<\[,:])(/(?:` + folders + `)(?:/[\w.\-]+)*)(?:[^\w\-.]|$)`)
}

func noMachinePaths(sources []source) []string {
	var out []string
	find := machinePath()
	for _, s := range sources {
		if strings.Contains(s.path, "testdata/fuzz/") {
			continue // found by machine; they may contain anything
		}
		for i, line := range strings.Split(s.text, "\n") {
			if m := find.FindStringSubmatch(line); m != nil {
				out = append(out, fmt.Sprintf("%s:%d: %s is a path of one machine", s.path, i+1, m[1]))
			}
		}
	}
	return out
}
