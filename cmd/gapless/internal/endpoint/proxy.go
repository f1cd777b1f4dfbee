package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// maxHead bounds the head of a proxy's answer.
const maxHead = 64 << 10

// proxy is an HTTP proxy that links are tunnelled through. Targets with http:// are
// tunnelled too, so that it does not touch their streams.
type proxy struct {
	secure     bool
	host, port string
	authorize  string // value of Proxy-Authorization; "": none
	tls        *tls.Config
}

func (p *proxy) addr() string { return net.JoinHostPort(p.host, p.port) }

// chooseProxy returns the proxy for the target, nil for none. A target on this machine is
// never reached by a proxy of the environment.
func chooseProxy(setting string, t target, getenv func(string) string) (*proxy, error) {
	switch setting {
	case "none":
		return nil, nil
	case "", "env":
		if t.local() {
			return nil, nil
		}
		return proxyOf(t.secure, t.addr(), getenv)
	}
	if t.socket != "" {
		return nil, errors.New("target.http_proxy (--http-proxy): a Unix socket is not reached by a proxy; give none")
	}
	p, err := parseProxy(setting)
	if err != nil {
		return nil, fmt.Errorf("target.http_proxy (--http-proxy) %w", err)
	}
	return p, nil
}

// proxyOf asks the environment.
func proxyOf(secure bool, addr string, getenv func(string) string) (*proxy, error) {
	u, names := &url.URL{Scheme: "http", Host: addr}, []string{"http_proxy", "HTTP_PROXY"}
	if secure {
		u.Scheme, names = "https", []string{"https_proxy", "HTTPS_PROXY"}
	}
	name, value := first(getenv, names...)
	if value == "" {
		return nil, nil
	}
	_, none := first(getenv, "no_proxy", "NO_PROXY")
	// Whether there is one is asked with a name that is right; a wrong value would be
	// taken for none, and the run would go where it should not.
	const some = "http://proxy.invalid"
	rules := httpproxy.Config{HTTPProxy: some, HTTPSProxy: some, NoProxy: none, CGI: getenv("REQUEST_METHOD") != ""}
	chosen, err := rules.ProxyFunc()(u)
	if err != nil {
		return nil, fmt.Errorf("%s: REQUEST_METHOD is set too, so that a request could have set it: give --http-proxy", name)
	}
	if chosen == nil {
		return nil, nil
	}
	p, err := parseProxy(value)
	if err != nil {
		return nil, fmt.Errorf("%s in the environment %w", name, err)
	}
	return p, nil
}

func first(getenv func(string) string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// parseProxy reads [http://][USER:PASSWORD@]HOST[:PORT]. Its errors show nothing of it.
func parseProxy(raw string) (*proxy, error) {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL; it is http://[USER:PASSWORD@]HOST[:PORT], with special characters escaped")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("is a %s:// proxy; only http:// and https:// proxies are known", cut(u.Scheme))
	case u.Hostname() == "":
		return nil, errors.New("names no host; it is http://HOST:PORT")
	}
	p := &proxy{secure: u.Scheme == "https"}
	if p.host, p.port, _, err = hostPort(u); err != nil {
		return nil, err
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorize = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// tunnel opens a connection through the proxy to addr.
func (p *proxy) tunnel(ctx context.Context, open func(context.Context, string, string) (net.Conn, error), addr string) (net.Conn, error) {
	conn, err := open(ctx, "tcp", p.addr())
	if err != nil {
		return nil, fmt.Errorf("the proxy %s: %w", p.addr(), err)
	}
	if p.secure {
		name, _, _ := strings.Cut(p.host, "%")
		secure, err := encrypt(ctx, conn, p.tls, name)
		if err != nil {
			return nil, fmt.Errorf("the proxy %s: %w", p.addr(), err)
		}
		conn = secure
	}
	if err := p.connect(ctx, conn, addr); err != nil {
		_ = conn.Close() // nothing was sent through it
		return nil, err
	}
	return conn, nil
}

// connect asks for the tunnel. It reads not a byte more than the answer: what follows
// belongs to the target, and some begin before they are spoken to.
func (p *proxy) connect(ctx context.Context, conn net.Conn, addr string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	request := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if p.authorize != "" {
		request += "Proxy-Authorization: " + p.authorize + "\r\n"
	}
	_, err := io.WriteString(conn, request+"\r\n")
	var head []byte
	if err == nil {
		head, err = readHead(conn)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("the proxy %s does not answer to CONNECT: %w", p.addr(), err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("the proxy %s does not speak HTTP/1.1", p.addr())
	}
	_ = answer.Body.Close() // it lies in memory
	return p.judge(answer.StatusCode, addr)
}

func (p *proxy) judge(status int, addr string) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusProxyAuthRequired && p.authorize == "":
		return fmt.Errorf("the proxy %s answers 407: it wants credentials; give them in the proxy's URL, http://USER:PASSWORD@HOST:PORT", p.addr())
	case status == http.StatusProxyAuthRequired:
		return fmt.Errorf("the proxy %s answers 407: it wants credentials, other than those in its URL", p.addr())
	}
	return fmt.Errorf("the proxy %s answers %d %s to CONNECT %s", p.addr(), status, http.StatusText(status), addr)
}

// readHead reads up to and including the first empty line.
func readHead(conn net.Conn) ([]byte, error) {
	var head []byte
	var b [1]byte
	for len(head) < maxHead {
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return nil, err
		}
		head = append(head, b[0])
		if b[0] == '\n' && (bytes.HasSuffix(head, []byte("\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n"))) {
			return head, nil
		}
	}
	return nil, fmt.Errorf("its head is longer than %d bytes", maxHead)
}
