package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/profiles"
)

// TestProbeTellsDialects: the probe says in which dialects our server speaks, whichever it
// was started in.
func TestProbeTellsDialects(t *testing.T) {
	for _, c := range []struct {
		dialect string
		want    []string
	}{
		{"resume", []string{"resume", "modern"}},
		{"umcp", []string{"umcp"}},
		{"streams", []string{"streams"}},
	} {
		t.Run(c.dialect, func(t *testing.T) {
			t.Parallel()
			reference, err := lab.NewReference(lab.ServeConfig{Dialect: c.dialect, Server: profiles.Default().Server, Version: "1"})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- reference.Run(ctx, ln) }()
			url := "http://" + ln.Addr().String() + "/mcp"
			code, stdout, stderr := gapless(t, "probe", url, "-o", "json")
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			var report struct {
				Target struct{ Dialects []string }
			}
			if err := json.NewDecoder(bytes.NewReader([]byte(stdout))).Decode(&report); err != nil || code != 0 {
				t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
			}
			if !slices.Equal(report.Target.Dialects, c.want) {
				t.Errorf("dialects %s, want %s\n%s", strings.Join(report.Target.Dialects, " "), strings.Join(c.want, " "), stdout)
			}
		})
	}
}
