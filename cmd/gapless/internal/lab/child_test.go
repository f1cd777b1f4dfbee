package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary stand in for the reference server, in the ways in
// which one can misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "server" {
		standIn(os.Args[2], os.Args[3])
	}
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child := map[string]func(){
			"well": func() { announce(); _, _ = io.Copy(io.Discard, os.Stdin) },
			"mute": func() { fmt.Fprintln(os.Stderr, "no port left"); os.Exit(3) },
			"dies": func() { announce(); fmt.Fprintln(os.Stderr, "last words"); os.Exit(2) },
			"fails": func() {
				announce()
				_, _ = io.Copy(io.Discard, os.Stdin)
				fmt.Fprintln(os.Stderr, "at the end")
				os.Exit(1)
			},
			"absent": func() { fmt.Println("http://127.0.0.1:1/mcp"); fmt.Println("no admin") },
		}
		child[os.Args[2]]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func announce() { fmt.Print("http://127.0.0.1:1/mcp\nadmin http://127.0.0.1:2\n") }

func TestChild(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		start, stop string // what the error says; "" none
	}{
		{name: "well"},
		{name: "mute", start: "no port left"},
		{name: "absent", start: "no address"},
		{name: "dies", stop: "exit status 2\nlast words"},
		{name: "fails", stop: "at the end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := startChild(context.Background(), exe, "child", tc.name)
			if !says(err, tc.start) {
				t.Fatalf("start: %v, want %q", err, tc.start)
			}
			if err != nil {
				return
			}
			if e.URL != "http://127.0.0.1:1/mcp" || e.Admin != "http://127.0.0.1:2" {
				t.Errorf("endpoint %q, admin %q", e.URL, e.Admin)
			}
			if tc.name == "dies" {
				<-e.exited
			}
			if err := e.Stop(); !says(err, tc.stop) {
				t.Errorf("stop: %v, want %q", err, tc.stop)
			}
		})
	}
}

func says(err error, text string) bool {
	if err == nil {
		return text == ""
	}
	return text != "" && strings.Contains(err.Error(), text)
}

// TestTailKeepsTheEnd of what was written, however it came, and little more than that.
func TestTailKeepsTheEnd(t *testing.T) {
	long := tail{limit: 100}
	for i := range 1000 {
		fmt.Fprintf(&long, "line %d\n", i)
		if len(long.data) > 2*long.limit {
			t.Fatalf("%d bytes are kept", len(long.data))
		}
	}
	if got := long.String(); !strings.HasSuffix(got, "line 998\nline 999") || len(got) > 100 || len(got) < 90 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
