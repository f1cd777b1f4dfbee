//go:build e2e

package lab

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	verdictsFile = "testdata/verdicts.json"
	nodeFolder   = "testdata/node"
)

// A verdictRow says what gapless says of one server. Server, Package, Command and Why are
// written by hand; -update fills in the rest from what it sees.
type verdictRow struct {
	Server  string `json:"server"`
	Package string `json:"package"` // npm package, or Go module, that Version is of
	Version string `json:"version"`
	// Command runs in nodeFolder, with PORT set to a free port; "node" and "gapless" are
	// found in PATH, and so is "gosdk", built from testdata/gosdk.
	Command string `json:"command"`
	Verdict string `json:"verdict"`
	// Violated are the invariants that are violated whatever the seed; Sometimes those for
	// which it takes luck.
	Violated  []string `json:"violated"`
	Sometimes []string `json:"sometimes"`
	// Why is the reason, found in the server's source and seen on the wire.
	Why string `json:"why"`
}

func readVerdicts(t *testing.T) []verdictRow {
	t.Helper()
	text, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows []verdictRow
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatalf("%s: %v", verdictsFile, err)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", verdictsFile)
	}
	return rows
}

// installed returns the version of a package that is really there. What is missing is a
// failure: a suite that skips proves nothing.
func installed(t *testing.T, name string) string {
	t.Helper()
	if strings.HasPrefix(name, "@") {
		text, err := os.ReadFile(filepath.Join(nodeFolder, "node_modules", name, "package.json"))
		if err != nil {
			t.Fatalf("%v\nrun npm ci in %s first", err, nodeFolder)
		}
		var p struct{ Version string }
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		return p.Version
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", name).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// tools builds gapless and the server on the Go SDK, and returns the environment in which a
// row's command finds them and Node.
func tools(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatalf("these tests need Node 20: %v", err)
	}
	bin := t.TempDir()
	for _, folder := range []string{"../..", "./testdata/gosdk"} {
		build := exec.Command("go", "build", "-o", bin, folder)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build, err, out)
		}
	}
	return append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// freePort returns a port that nobody listens on. Somebody could take it before the server
// does; then the server dies and its last words say so.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}
