package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// tunnels is a CONNECT proxy. Whatever host is asked for, it goes to the same server.
type tunnels struct {
	*ears
	to     string // address of the server
	answer string // instead of a tunnel
	auth   string // Proxy-Authorization that is wanted

	mu    sync.Mutex
	asked []string // request lines
}

func newTunnels(t *testing.T, to string, c *tls.Config) *tunnels {
	t.Helper()
	p := &tunnels{ears: listen(t, "tcp", "127.0.0.1:0"), to: to}
	go func() { // ends with the listener
		for {
			conn, err := p.Accept()
			if err != nil {
				return
			}
			if c != nil {
				conn = tls.Server(conn, c)
			}
			go p.carry(conn)
		}
	}()
	return p
}

func (p *tunnels) carry(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI+" "+r.Host)
	answer := p.answer
	if p.auth != "" && r.Header.Get("Proxy-Authorization") != p.auth {
		answer = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 4\r\n\r\nhush"
	}
	p.mu.Unlock()
	if answer != "" {
		_, _ = io.WriteString(conn, answer) // seen at the other end
		return
	}
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer out.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }() // ends with either
	_, _ = io.Copy(conn, out)                                // the same
}

func (p *tunnels) lines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.asked, "\n")
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// TestTunnels: every kind of target through every kind of proxy.
func TestTunnels(t *testing.T) {
	a := newAuthority(t)
	plain, secure := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	serve(t, plain, &http.Server{Handler: http.HandlerFunc(says), Protocols: protocols(true, false, true)})
	serve(t, secure, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: one(a.pair(nil))})
	for _, target := range []struct{ url, server, http, proto string }{
		{"http://localhost:8080/mcp", plain.Addr().String(), "", "HTTP/1.1"},
		{"http://localhost:8080/mcp", plain.Addr().String(), "2", "HTTP/2.0"},
		{"https://localhost:8080/mcp", secure.Addr().String(), "", "HTTP/1.1"},
		{"https://localhost:8080/mcp", secure.Addr().String(), "2", "HTTP/2.0"},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(target.url+" "+target.proto+" by "+scheme, func(t *testing.T) {
				var c *tls.Config
				if scheme == "https" {
					c = one(a.pair(nil))
				}
				p := newTunnels(t, target.server, c)
				p.auth = "Basic dTpodXNo" // u:hush
				e := made(t, Config{
					URL: target.url, HTTP: target.http, TLS: TLS{CA: a.file},
					HTTPProxy: scheme + "://u:hush@" + p.Addr().String(),
				})
				if got := ask(t, e); got != target.proto+" localhost:8080 /mcp" {
					t.Errorf("answer %q", got)
				}
				if got := p.lines(); got != "CONNECT localhost:8080 localhost:8080" {
					t.Errorf("asked %q", got)
				}
				notes := strings.Join(e.Notes(), "\n")
				if !strings.Contains(notes, "proxy "+p.Addr().String()+":") || strings.Contains(notes, "hush") {
					t.Errorf("notes %q", notes)
				}
			})
		}
	}
}

// TestResetReachesTheProxy, through two layers of TLS.
func TestResetReachesTheProxy(t *testing.T) {
	a := newAuthority(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	gone := make(chan struct{}, 2)
	serve(t, l, &http.Server{Handler: stream(gone, nil), TLSConfig: one(a.pair(nil))})
	p := newTunnels(t, l.Addr().String(), one(a.pair(nil)))
	e := made(t, Config{URL: "https://localhost/mcp", TLS: TLS{CA: a.file}, HTTPProxy: "https://" + p.Addr().String()})
	link := dial(t, e)
	if _, err := wire.NewConn(link, wire.Limits{}).RoundTrip(request(e, "GET", "")); err != nil {
		t.Fatal(err)
	}
	end := innermost(link)
	if err := end.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	if !p.reset(t) {
		t.Errorf("the proxy saw %v", p.ends)
	}
	wait(t, gone)
}

func TestProxiesThatRefuse(t *testing.T) {
	p := newTunnels(t, "", nil)
	addr := p.Addr().String()
	const wants = "HTTP/1.1 407 No\r\nContent-Length: 4\r\n\r\nhush"
	for name, tt := range map[string]struct {
		url, answer string
		says        []string
	}{
		"wants credentials":       {"http://" + addr, wants, []string{"answers 407: it wants credentials", "USER:PASSWORD@"}},
		"wants other credentials": {"http://u:hush@" + addr, wants, []string{"answers 407: it wants credentials, other than"}},
		"forbids":                 {"http://" + addr, "HTTP/1.1 403 Forbidden\r\n\r\n", []string{"403 Forbidden to CONNECT target.example:80"}},
		"closes":                  {"http://" + addr, "HTTP/1.1 200", []string{"does not answer to CONNECT"}},
		"is none":                 {"http://" + addr, "SSH-2.0-x\r\n\r\n", []string{"does not speak HTTP/1.1"}},
		"talks for ever":          {"http://" + addr, "HTTP/1.1 200 OK\r\nX: " + longText("y", maxHead), []string{"longer than"}},
		"speaks no TLS":           {"https://" + addr, "HTTP/1.1 200 OK\r\n\r\n", []string{"the proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.mu.Lock()
			p.answer = tt.answer
			p.mu.Unlock()
			_, err := made(t, Config{URL: "http://target.example/mcp", HTTPProxy: tt.url}).Dial(t.Context())
			refused(t, err, append(tt.says, addr)...)
		})
	}
	_ = p.Close()
	_, err := made(t, Config{URL: "http://target.example/mcp", HTTPProxy: "http://" + addr}).Dial(t.Context())
	refused(t, err, "the proxy "+addr, "refused")
}

// TestServersThatBeginBeforeTheyAreSpokenTo lose nothing behind the proxy's answer.
func TestServersThatBeginBeforeTheyAreSpokenTo(t *testing.T) {
	p := newTunnels(t, "", nil)
	p.answer = "HTTP/1.1 200 OK\r\n\r\nhello"
	link := dial(t, made(t, Config{URL: "http://target.example/mcp", HTTPProxy: p.Addr().String()}))
	if got, err := io.ReadAll(link); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTunnelIsNotLeftWithADeadline: the time for opening is not the time for streams.
func TestTunnelIsNotLeftWithADeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := newTunnels(t, "", nil)
	p.answer = "HTTP/1.1 200 OK\r\n\r\nhello"
	link, err := made(t, Config{URL: "http://target.example/mcp", HTTPProxy: p.Addr().String()}).Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	cancel()
	if got, err := io.ReadAll(link); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// late is a connection whose caller gives up as the last byte of the proxy's answer comes.
type late struct {
	net.Conn
	read  int
	leave func()
	over  chan struct{} // closed by the deadline that follows
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.read += n; l.read == len("HTTP/1.1 200 OK\r\n\r\n") {
		l.leave()
		<-l.over
	}
	return n, err
}

func (l *late) SetDeadline(at time.Time) error {
	defer close(l.over)
	return l.Conn.SetDeadline(at)
}

// TestTunnelOfWhoGaveUp is none: its deadline is over.
func TestTunnelOfWhoGaveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := newTunnels(t, "", nil)
	p.answer = "HTTP/1.1 200 OK\r\n\r\nhello"
	open := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &late{Conn: conn, leave: cancel, over: make(chan struct{})}, err
	}
	_, err := made(t, Config{URL: "http://target.example/mcp", HTTPProxy: p.Addr().String(), Dial: open}).Dial(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestProxyOfTheEnvironment(t *testing.T) {
	const h, s = "http://plain:1", "secure:2"
	env := []string{"HTTP_PROXY", h, "HTTPS_PROXY", s}
	for name, tt := range map[string]struct {
		url, setting string
		env          []string
		want         string
	}{
		"http":                {"http://a.example", "env", env, "plain:1"},
		"https":               {"https://a.example", "", env, "secure:2"},
		"lower case first":    {"http://a.example", "env", append([]string{"http_proxy", "lower"}, env...), "lower:80"},
		"other scheme":        {"http://a.example", "env", []string{"HTTPS_PROXY", s}, ""},
		"none":                {"http://a.example", "none", env, ""},
		"URL":                 {"http://a.example", "https://given", env, "given:443"},
		"excepted":            {"http://a.example", "env", append([]string{"NO_PROXY", "b.example, a.example"}, env...), ""},
		"excepted by suffix":  {"https://x.a.example", "env", append([]string{"no_proxy", ".a.example"}, env...), ""},
		"excepted by port":    {"http://a.example:81", "env", append([]string{"NO_PROXY", "a.example:80"}, env...), "plain:1"},
		"excepted by network": {"http://10.1.2.3", "env", append([]string{"NO_PROXY", "10.0.0.0/8"}, env...), ""},
		"all excepted":        {"http://a.example", "env", append([]string{"NO_PROXY", "*"}, env...), ""},
		"exception and URL":   {"http://a.example", "http://given:3", append([]string{"NO_PROXY", "*"}, env...), "given:3"},
		"loopback":            {"http://127.0.0.1", "env", env, ""},
		"loopback 6":          {"http://[::1]:80", "env", env, ""},
		"localhost":           {"https://localhost:443", "env", env, ""},
		"below localhost":     {"https://a.localhost", "env", env, ""},
		"localhost by URL":    {"https://localhost", "given:3", env, "given:3"},
		"socket":              {"http+unix:///x", "env", env, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := made(t, Config{URL: tt.url, HTTPProxy: tt.setting, Getenv: environment(tt.env...)})
			got := ""
			if e.proxy != nil {
				got = e.proxy.addr()
			}
			if got != tt.want {
				t.Errorf("proxy %q, want %q", got, tt.want)
			}
		})
	}
}

// TestProxySeesNoClientCertificate: it is for the target.
func TestProxySeesNoClientCertificate(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.files(&x509.Certificate{})
	l := listen(t, "tcp", "127.0.0.1:0")
	serve(t, l, &http.Server{Handler: http.HandlerFunc(says)})
	shown := make(chan int, 1)
	c := one(a.pair(nil))
	c.ClientAuth = tls.RequestClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error { shown <- len(s.PeerCertificates); return nil }
	p := newTunnels(t, l.Addr().String(), c)
	e := made(t, Config{URL: "http://localhost/mcp", TLS: TLS{CA: a.file, Cert: cert, Key: key}, HTTPProxy: "https://" + p.Addr().String(), Timeout: 5 * time.Second})
	ask(t, e)
	if n := <-shown; n != 0 {
		t.Errorf("%d certificates", n)
	}
}
