package lab

import (
	"context"
	"net"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/stdio"
	"github.com/gapless-dev/gapless/profiles"
)

// startStdio puts an HTTP endpoint before a server that speaks over its pipes, one
// process for each session.
func startStdio(ctx context.Context, t profiles.Target) (*Endpoint, error) {
	log := &tail{limit: logLimit}
	url, stop, err := stdio.Serve(context.WithoutCancel(ctx), func() (*process.Process, error) {
		return process.Start(process.Config{Command: t.Exec, Stdin: true, Stdout: true, Log: log})
	})
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return &Endpoint{
		URL: url, Shown: "stdio", Dial: d.DialContext, Stop: stop, log: log,
		died: func() error { return nil }, // what went wrong with one of its servers, its streams show
	}, nil
}
