package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

func TestHTTPSOverBothFamilies(t *testing.T) {
	a := newAuthority(t)
	for _, family := range []struct{ network, addr string }{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
		t.Run(family.network, func(t *testing.T) {
			l := listen(t, family.network, family.addr)
			serve(t, l, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.pair(nil)}}})
			e := made(t, Config{URL: "https://" + l.Addr().String() + "/mcp?a=1", TLS: TLS{CA: a.file}})
			// The server offers HTTP/2 too and is not asked for it.
			if got := ask(t, e); got != "HTTP/1.1 "+l.Addr().String()+" /mcp?a=1" || len(e.Notes()) > 0 || !e.Local() {
				t.Errorf("answer %q, notes %q", got, e.Notes())
			}
			if n := l.count.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestResetUnderTLS(t *testing.T) {
	a := newAuthority(t)
	for _, version := range []string{"1.1", "2"} {
		t.Run(version, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			gone := make(chan struct{}, 1)
			serve(t, l, &http.Server{Handler: stream(gone, nil), TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.pair(nil)}}})
			e := made(t, Config{URL: "https://" + l.Addr().String() + "/mcp", HTTP: version, TLS: TLS{CA: a.file}})
			link := dial(t, e)
			resp, err := wire.NewConn(link, wire.Limits{}).RoundTrip(request(e, "POST", "{}"))
			if err != nil || !resp.SSE() {
				t.Fatal(err)
			}
			end := innermost(link)
			if err := end.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
				t.Fatal(err)
			}
			if err := end.Close(); err != nil {
				t.Fatal(err)
			}
			if !l.reset(t) {
				t.Errorf("the server saw %v", l.ends)
			}
			wait(t, gone)
		})
	}
}

func TestHandshakeErrors(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	now := time.Now()
	names := func(n ...string) *x509.Certificate { return &x509.Certificate{DNSNames: n} }
	for name, tt := range map[string]struct {
		server *tls.Config
		trust  TLS
		http   string
		says   []string
	}{
		"other name":         {server: one(a.pair(names("other.example"))), says: []string{"is for other.example, not for 127.0.0.1", "--insecure"}},
		"many names":         {server: one(a.pair(names("a", "b", "c", "d", "e"))), says: []string{"is for a, b, c and 2 more, not for"}},
		"no name":            {server: one(a.pair(names())), says: []string{"no name"}},
		"unknown authority":  {server: one(stranger.pair(nil)), says: []string{"unknown authority (gapless test authority)", "--ca-file"}},
		"expired":            {server: one(a.pair(&x509.Certificate{IPAddresses: []net.IP{{127, 0, 0, 1}}, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)})), says: []string{"expired on"}},
		"not yet valid":      {server: one(a.pair(&x509.Certificate{IPAddresses: []net.IP{{127, 0, 0, 1}}, NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)})), says: []string{"valid from", "clock"}},
		"old TLS":            {server: &tls.Config{Certificates: []tls.Certificate{a.pair(nil)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, says: []string{"no TLS that gapless does"}},
		"HTTP/1.1 refused":   {server: speaking(a.pair(nil), "spdy/3"), http: "1.1", says: []string{"none of the HTTP versions"}},
		"HTTP/2 refused":     {server: speaking(a.pair(nil), "spdy/3"), http: "2", says: []string{"refuses HTTP/2"}},
		"both refused":       {server: speaking(a.pair(nil), "spdy/3"), says: []string{"neither HTTP/1.1 nor HTTP/2"}},
		"HTTP/2 not offered": {server: one(a.pair(nil)), http: "2", says: []string{"does not speak HTTP/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			go shake(tls.NewListener(l, tt.server)) // ends with the listener
			e := made(t, Config{URL: "https://" + l.Addr().String() + "/mcp", HTTP: tt.http, TLS: TLS{CA: a.file}})
			_, err := e.Dial(t.Context())
			refused(t, err, append(tt.says, "https://"+l.Addr().String())...)
		})
	}
}

func one(pair tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }

func speaking(pair tls.Certificate, protocols ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}
}

// shake makes handshakes and closes the connections.
func shake(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = c.(*tls.Conn).Handshake()  // how it ends is seen at the other end
			_, _ = c.Read(make([]byte, 1)) // until the other end closes
			_ = c.Close()
		}()
	}
}

func TestInsecure(t *testing.T) {
	a := newAuthority(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	serve(t, l, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: one(a.pair(&x509.Certificate{DNSNames: []string{"x"}}))})
	e := made(t, Config{URL: "https://" + l.Addr().String() + "/mcp", TLS: TLS{Insecure: true}})
	if got := ask(t, e); !strings.HasPrefix(got, "HTTP/1.1") || !strings.Contains(strings.Join(e.Notes(), " "), "NOT CHECKED") {
		t.Errorf("answer %q, notes %q", got, e.Notes())
	}
}

func TestClientCertificate(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.files(&x509.Certificate{Subject: pkixName("robot"), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for _, version := range []string{"1.1", "2"} {
		t.Run(version, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			c := one(a.pair(nil))
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
			serve(t, l, &http.Server{TLSConfig: c, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName) // seen at the other end
			})})
			config := Config{URL: "https://" + l.Addr().String() + "/mcp", HTTP: version, TLS: TLS{CA: a.file, Cert: cert, Key: key}}
			if got := ask(t, made(t, config)); got != "robot" {
				t.Errorf("answer %q", got)
			}
			// TLS 1.3 tells of a certificate that is missing behind the handshake.
			config.TLS.Cert, config.TLS.Key = "", ""
			refused(t, attempt(t, made(t, config)), "asked for a client certificate", "give target.tls.cert")
			config.TLS.Cert, config.TLS.Key = newAuthority(t).files(&x509.Certificate{})
			refused(t, attempt(t, made(t, config)), "client certificate", "target.tls.cert")
		})
	}
}

// attempt opens a link and makes an exchange, and returns what failed.
func attempt(t *testing.T, e *Endpoint) error {
	t.Helper()
	link, err := e.Dial(t.Context())
	if err != nil {
		return err
	}
	defer link.Close()
	_, err = wire.NewConn(link, wire.Limits{}).RoundTrip(request(e, "POST", "{}"))
	return err
}

func TestServerName(t *testing.T) {
	a := newAuthority(t)
	for host, want := range map[string]string{"mcp.example": "mcp.example", "127.0.0.1": ""} {
		t.Run(host, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			_, port, _ := net.SplitHostPort(l.Addr().String())
			asked := make(chan string, 1)
			pair := a.pair(&x509.Certificate{DNSNames: []string{"mcp.example"}, IPAddresses: []net.IP{{127, 0, 0, 1}}})
			serve(t, l, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				asked <- h.ServerName
				return &pair, nil
			}}})
			var dialled value
			e := made(t, Config{URL: "https://" + net.JoinHostPort(host, port) + "/mcp", TLS: TLS{CA: a.file}, Dial: dialled.to(l.Addr().String())})
			ask(t, e)
			if got := <-asked; got != want || dialled.get() != net.JoinHostPort(host, port) {
				t.Errorf("server name %q, dialled %q", got, dialled.get())
			}
		})
	}
}

func TestTargetsThatAreNotThere(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	addr := l.Addr().String()
	_ = l.Close() // so that nobody is there
	for _, scheme := range []string{"http", "https"} {
		_, err := made(t, Config{URL: scheme + "://" + addr + "/mcp?token=hush"}).Dial(t.Context())
		refused(t, err, addr, "refused")
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v is no ECONNREFUSED", err)
		}
	}
	_, err := made(t, Config{URL: "http+unix://" + filepath.Join(t.TempDir(), "x")}).Dial(t.Context())
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket that is not there: %v", err)
	}
}

// TestSilentTargets: a handshake that nobody answers ends in time, and with the caller.
func TestSilentTargets(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0") // accepts in the kernel and says nothing
	silent := l.Addr().String()
	for name, c := range map[string]Config{
		"TLS":       {URL: "https://" + silent + "/mcp"},
		"proxy":     {URL: "http://example.com/mcp", HTTPProxy: "http://" + silent},
		"TLS proxy": {URL: "http://example.com/mcp", HTTPProxy: "https://" + silent},
	} {
		t.Run(name, func(t *testing.T) {
			c.Timeout = 50 * time.Millisecond
			_, err := made(t, c).Dial(t.Context())
			refused(t, err, "no link within 50ms")
		})
	}
}

func TestUnixSocket(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x y.sock")
	serve(t, listen(t, "unix", name), &http.Server{Handler: http.HandlerFunc(says), Protocols: protocols(true, false, true)})
	escaped := strings.ReplaceAll(name, " ", "%20")
	for url, want := range map[string]string{
		"http+unix://" + escaped:                                            "localhost /mcp",
		"http+unix://" + escaped + ":/other/path?a=1":                       "localhost /other/path?a=1",
		"http+unix://" + strings.ReplaceAll(escaped, "/", "%2F") + "/third": "localhost /third",
	} {
		for version, proto := range map[string]string{"": "HTTP/1.1 ", "2": "HTTP/2.0 "} {
			if got := ask(t, made(t, Config{URL: url, HTTP: version})); got != proto+want {
				t.Errorf("%s: %q", url, got)
			}
		}
	}
}
