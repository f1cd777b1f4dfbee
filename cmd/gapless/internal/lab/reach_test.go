package lab

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// serveOn serves the reference server on ln until the test is over.
func serveOn(t *testing.T, ln net.Listener) {
	t.Helper()
	fixture, err := NewFixture(ServeConfig{Server: profiles.Default().Server, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, fixture, ln, nil, io.Discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// plainServer is the reference server on loopback; it returns its HOST:PORT.
func plainServer(t *testing.T) string {
	t.Helper()
	ln := listen(t, "tcp", "127.0.0.1:0")
	serveOn(t, ln)
	return ln.Addr().String()
}

// tlsFront stands before the reference server: TLS, HTTP/2 if asked for, and a bearer
// token that it demands. It returns its URL and the file with its certificate.
func tlsFront(t *testing.T, h2 bool, requests *atomic.Int64) (target, ca string) {
	t.Helper()
	upstream := &url.URL{Scheme: "http", Host: plainServer(t)}
	relay := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		FlushInterval: -1, ErrorLog: quietLog(),
	}
	cert, file := certificate(t)
	s := &http.Server{
		ErrorLog: quietLog(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer open sesame" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if (r.ProtoMajor == 2) == h2 {
				requests.Add(1)
			}
			relay.ServeHTTP(w, r)
		}),
	}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(!h2)
	s.Protocols.SetHTTP2(h2)
	ln := listen(t, "tcp", "127.0.0.1:0")
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return "https://" + ln.Addr().String() + "/mcp", file
}

// certificate makes one for 127.0.0.1 and writes it to a file.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// connectProxy is an HTTP proxy that knows CONNECT alone.
func connectProxy(t *testing.T, tunnels *atomic.Int64) string {
	t.Helper()
	ln := listen(t, "tcp", "127.0.0.1:0")
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go tunnel(conn, tunnels)
		}
	}()
	return "http://" + ln.Addr().String()
}

func tunnel(client net.Conn, tunnels *atomic.Int64) {
	defer func() { _ = client.Close() }()
	in := bufio.NewReader(client)
	req, err := http.ReadRequest(in)
	if err != nil || req.Method != http.MethodConnect {
		return
	}
	server, err := net.Dial("tcp", req.Host)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	tunnels.Add(1)
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		defer func() { _ = client.Close() }()
		_, _ = io.Copy(client, server)
	}()
	_, _ = io.Copy(server, in)
}

// TestWaysToATarget: whatever lies between, the reference server loses nothing.
func TestWaysToATarget(t *testing.T) {
	var secure, second, tunnels atomic.Int64
	socket := filepath.Join(t.TempDir(), "s")
	for _, tc := range []struct {
		name string
		way  func(t *testing.T, target *profiles.Target)
		used *atomic.Int64 // counts what must have been used; nil: nothing to count
	}{
		{"https with a bearer token", func(t *testing.T, target *profiles.Target) {
			target.URL, target.TLS.CA = tlsFront(t, false, &secure)
			target.Token = profiles.Secret{Env: "TOKEN"}
		}, &secure},
		{"HTTP/2 with a bearer token", func(t *testing.T, target *profiles.Target) {
			target.URL, target.TLS.CA = tlsFront(t, true, &second)
			target.Token, target.HTTP = profiles.Secret{Env: "TOKEN"}, "2"
		}, &second},
		{"through an HTTP proxy", func(t *testing.T, target *profiles.Target) {
			target.URL, target.HTTPProxy = "http://"+plainServer(t)+"/mcp", connectProxy(t, &tunnels)
		}, &tunnels},
		{"a Unix socket", func(t *testing.T, target *profiles.Target) {
			ln := listen(t, "unix", socket)
			serveOn(t, ln)
			target.URL = endpointURL(ln) // as serve prints it
		}, nil},
		{"IPv6", func(t *testing.T, target *profiles.Target) {
			ln := listen(t, "tcp", "[::1]:0")
			serveOn(t, ln)
			target.URL = "http://" + ln.Addr().String() + "/mcp"
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := thirdParty(t)
			tc.way(t, &p.Target)
			r := load(t, p)
			if r.Verdict != result.Holds || r.Resumes.Succeeded == 0 {
				t.Errorf("%s %s %v", r.Verdict, r.Sentence, r.Why)
			}
			if tc.used != nil && tc.used.Load() == 0 {
				t.Error("the way was not taken")
			}
		})
	}
}

// thirdParty is a small load for a target that is not started by the run.
func thirdParty(t *testing.T) profiles.Profile {
	t.Helper()
	p, err := profiles.Load("third-party")
	if err != nil {
		t.Fatal(err)
	}
	p.Load.Calls, p.Load.Ramp = 40, 0
	p.Emit.Messages, p.Emit.Interval = 20, profiles.Duration(5*time.Millisecond)
	return p
}

// load runs a profile against its target.
func load(t *testing.T, p profiles.Profile) *result.Result {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	start, err := Target(p.Target, func(name string) string {
		if name == "TOKEN" {
			return "open sesame"
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return mustRun(t, Config{
		Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("secret"), Version: "test", Command: "gapless run", Start: start,
	})
}

// TestNoCredentialIsShown: whatever goes wrong, a token is in no result and no error.
func TestNoCredentialIsShown(t *testing.T) {
	var requests atomic.Int64
	p := thirdParty(t)
	p.Target.URL, p.Target.TLS.CA = tlsFront(t, false, &requests)
	p.Target.Headers = map[string]string{"Authorization": "Bearer hush"}
	start, err := Target(p.Target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: start})
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "hush") {
		t.Errorf("error %v; want 401 without the token", err)
	}
}

// quietLog drops what net/http says of links that were cut.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// A server that anybody can reach and use says so, and no other.
func TestAccess_Warning(t *testing.T) {
	for _, tc := range []struct {
		addr, tokens string
		warns        bool
	}{{"0.0.0.0:0", "", true}, {"127.0.0.1:0", "", false}, {"0.0.0.0:0", "file", false}} {
		ln := listen(t, "tcp", tc.addr)
		if got := (Access{Tokens: tc.tokens}).Warning(ln); (got != "") != tc.warns {
			t.Errorf("%s with tokens %q: %q", tc.addr, tc.tokens, got)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}
