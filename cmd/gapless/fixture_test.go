package main

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What follows is the text of help/fixture-go.txt, so that what people paste is what runs
// here.

type counting struct {
	N          int `json:"n"`
	IntervalMS int `json:"interval_ms,omitempty"`
}

func count(ctx context.Context, req *mcp.CallToolRequest, in counting) (*mcp.CallToolResult, any, error) {
	token, total := req.Params.GetProgressToken(), float64(in.N)
	for n := 1.0; n <= total; n++ {
		p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Total: total}
		if err := errors.Join(ctx.Err(), req.Session.NotifyProgress(ctx, p)); err != nil {
			return nil, nil, err
		}
		<-time.After(time.Duration(in.IntervalMS) * time.Millisecond)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
}

// declarations are the types and functions of the names in a Go file, as gofmt writes them.
func declarations(t *testing.T, name string, text []byte, names ...string) string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, d := range file.Decls {
		for _, want := range names {
			f, isFunc := d.(*ast.FuncDecl)
			g, isType := d.(*ast.GenDecl)
			isType = isType && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == want
			if isFunc && f.Name.Name == want || isType {
				if err := format.Node(&out, fset, d); err != nil {
					t.Fatal(err)
				}
				out.WriteString("\n")
			}
		}
	}
	return out.String()
}

// TestTheGoFixture: it is Go, it is what runs in this package, and a run against it holds.
func TestTheGoFixture(t *testing.T) {
	code, pasted, stderr := gapless(t, "help", "fixture", "--lang", "go")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	own, err := os.ReadFile("fixture_test.go")
	if err != nil {
		t.Fatal(err)
	}
	got := declarations(t, "pasted.go", []byte("package main\n"+pasted), "counting", "count")
	if want := declarations(t, "fixture_test.go", own, "counting", "count"); got != want || !strings.Contains(got, "func count") {
		t.Errorf("what is printed is not what runs here:\n%s\nand\n%s", got, want)
	}
	if _, formatted := format.Source([]byte(pasted)); formatted != nil {
		t.Error(formatted)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, count)
	http := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	defer http.Close()
	code, stdout, stderr := gapless(t, "run", "-q", "--seed", "7", "--target", http.URL+"/mcp", "--tool", "count",
		"--args", `{"n": 20, "interval_ms": 10}`, "--streams", "20", "--calls", "60")
	if code != exitHolds || !strings.Contains(stdout, "HOLDS  1,200 messages in 60 streams") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestFixturesAreShort: nobody reads more, and each says how it is tested.
func TestFixturesAreShort(t *testing.T) {
	for _, lang := range fixtureLangs() {
		code, text, _ := gapless(t, "help", "fixture", "--lang", lang)
		if code != 0 || !strings.Contains(text, `gapless run --target http://127.0.0.1:3000/mcp --tool count --args '{"n": 60, "interval_ms": 50}'`) {
			t.Errorf("%s: exit code %d\n%s", lang, code, text)
		}
		lines := 0
		for line := range strings.Lines(text) {
			if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "//") && !strings.HasPrefix(trimmed, "#") {
				lines++
			}
		}
		if lines > 17 {
			t.Errorf("%s has %d lines", lang, lines)
		}
	}
	for _, wrong := range [][]string{{"help", "fixture", "--lang", "cobol"}, {"help", "faults", "--lang", "go"}, {"help", "fixture", "--lang", ""}} {
		if code, _, stderr := gapless(t, wrong...); code != exitUsage || !strings.Contains(stderr, "--lang") {
			t.Errorf("%v: exit code %d: %s", wrong, code, stderr)
		}
	}
}

// TestThePythonFixture: it is Python, where there is one to ask.
func TestThePythonFixture(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	_, text, _ := gapless(t, "help", "fixture", "--lang", "py")
	pasted := filepath.Join(t.TempDir(), "pasted.py")
	if err := os.WriteFile(pasted, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command(python, "-m", "py_compile", pasted)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
