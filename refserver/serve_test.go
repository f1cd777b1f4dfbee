package refserver_test

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// A listener that fails takes everything with it: no stream goes on behind a Serve that
// has returned.
func TestServe_ListenerFails_StreamsAreEnded(t *testing.T) {
	f, err := refserver.NewFixture(refserver.Config{Store: newStore(t, store.Limits{})}, refserver.LedgerConfig{}, "test")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- refserver.Serve(t.Context(), ln, f.Handler, f.Handler) }()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	r := &rig{t: t, fixture: f, url: "http://" + ln.Addr().String(), client: &http.Client{Transport: transport}}
	s := r.open(latest).stream(ask{method: "GET"})
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if f.Handler.Healthy() {
		t.Error("sessions are still taken")
	}
	s.rest() // fails unless the body comes to its end
}
