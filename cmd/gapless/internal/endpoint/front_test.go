package endpoint

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// patience is how long a test waits for what should happen at once, on a busy machine.
const patience = 30 * time.Second

// authority signs the certificates of one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	var der []byte
	a.key, der = a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "gapless test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	a.cert, _ = x509.ParseCertificate(der)
	a.file = a.write("CERTIFICATE", der)
	return a
}

func (a *authority) make(c *x509.Certificate, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, signer = c, key
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

func (a *authority) write(kind string, der []byte) string {
	a.t.Helper()
	name := filepath.Join(a.t.TempDir(), "file.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return name
}

// files returns the names of a certificate and its key.
func (a *authority) files(c *x509.Certificate) (cert, key string) {
	a.t.Helper()
	private, der := a.make(c, a.cert, a.key)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("CERTIFICATE", der), a.write("PRIVATE KEY", text)
}

// pair returns a certificate for localhost and the loopback addresses, or what c says.
func (a *authority) pair(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	if c == nil {
		c = &x509.Certificate{DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	}
	pair, err := tls.LoadX509KeyPair(a.files(c))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// ears is a listener that keeps how each connection ended.
type ears struct {
	net.Listener
	count atomic.Int32
	mu    sync.Mutex
	ends  []error
	heard chan struct{} // one for each end
}

func listen(t *testing.T, network, addr string) *ears {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil && network == "tcp6" {
		t.Skip("no IPv6 here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &ears{Listener: l, heard: make(chan struct{}, 1000)}
}

func (e *ears) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	if err == nil {
		e.count.Add(1)
		c = &ear{Conn: c, of: e}
	}
	return c, err
}

// reset waits until a connection has ended and tells whether all have by a reset.
func (e *ears) reset(t *testing.T) bool {
	t.Helper()
	wait(t, e.heard)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.ends {
		if !errors.Is(err, syscall.ECONNRESET) {
			return false
		}
	}
	return true
}

type ear struct {
	net.Conn
	of   *ears
	once sync.Once
}

func (e *ear) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		e.once.Do(func() {
			e.of.mu.Lock()
			e.of.ends = append(e.of.ends, err)
			e.of.mu.Unlock()
			e.of.heard <- struct{}{}
		})
	}
	return n, err
}

func wait[T any](t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("what should happen did not within %v", patience)
	}
}

// serve serves h on l until the test ends.
func serve(t *testing.T, l net.Listener, s *http.Server) {
	t.Helper()
	s.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.TLSConfig != nil {
			_ = s.ServeTLS(l, "", "") // ends with Close
		} else {
			_ = s.Serve(l)
		}
	}()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// protocols is what a server speaks.
func protocols(h1, h2, h2c bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(h1)
	p.SetHTTP2(h2)
	p.SetUnencryptedHTTP2(h2c)
	return p
}

// says answers with the version of HTTP, the host and the path.
func says(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Proto+" "+r.Host+" "+r.URL.RequestURI()) // seen at the other end
}

func made(t *testing.T, c Config) *Endpoint {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = patience
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// dialled opens a link that closes with the test.
func dial(t *testing.T, e *Endpoint) net.Conn {
	t.Helper()
	link, err := e.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	if err := link.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return link
}

// request is one as the load generator makes it.
func request(e *Endpoint, method string, body string) *wire.Request {
	rest := strings.TrimPrefix(e.URL(), "http://")
	host, path, _ := strings.Cut(rest, "/")
	return &wire.Request{Method: method, Target: "/" + path, Host: host, Fields: []wire.Field{{Name: "Accept", Value: "text/event-stream"}}, Body: []byte(body)}
}

// ask makes one exchange on a link of its own and returns the body of the answer.
func ask(t *testing.T, e *Endpoint) string {
	t.Helper()
	return exchange(t, e, wire.NewConn(dial(t, e), wire.Limits{}))
}

func exchange(t *testing.T, e *Endpoint, c *wire.Conn) string {
	t.Helper()
	resp, err := c.RoundTrip(request(e, "POST", `{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resp.ReadAll(1 << 20)
	if err != nil || resp.Status != 200 {
		t.Fatalf("status %d, %v", resp.Status, err)
	}
	return string(text)
}

// value keeps which address was dialled last.
type value struct{ atomic.Value }

func (v *value) get() string { s, _ := v.Load().(string); return s }

// to makes a Dial that reaches addr whatever is asked for.
func (v *value) to(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, asked string) (net.Conn, error) {
		v.Store(asked)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

func pkixName(name string) pkix.Name { return pkix.Name{CommonName: name} }

// refused expects an error that says all of the texts and none of the secret.
func refused(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("%q holds a secret", err)
	}
}
