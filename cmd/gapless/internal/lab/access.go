package lab

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gapless-dev/gapless/refserver"
)

// Access says who may use the reference server, by which way, and how much of it.
type Access struct {
	Tokens         string   // file of principals and tokens; empty: nobody needs one
	Origins, Hosts []string // that are served besides those of loopback
	Cert, Key      string   // PEM files; both empty: no TLS
	Sessions       int      // open at once; 0: the server's default
	Connections    int      // open at once; 0: as many as the system takes
}

// apply puts what concerns the handler into its configuration.
func (a Access) apply(cfg *refserver.Config) error {
	cfg.AllowedOrigins, cfg.AllowedHosts, cfg.Limits.Sessions = a.Origins, a.Hosts, a.Sessions
	if a.Tokens == "" {
		return nil
	}
	var err error
	cfg.Verifier, err = refserver.TokensFromFile(a.Tokens)
	return err
}

// Listen opens a listener on HOST:PORT or unix:PATH, bounded and with TLS as a says.
func (a Access) Listen(addr string) (net.Listener, error) {
	if a.Connections < 0 {
		return nil, errors.New("the number of connections is negative")
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("TLS needs both a certificate and its key")
	}
	var secure *tls.Config
	if a.Cert != "" || a.Key != "" {
		pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate and key: %w", err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	ln, err := Listen(addr)
	if err != nil {
		return nil, err
	}
	if a.Connections > 0 {
		ln = refserver.Bounded(ln, a.Connections)
	}
	if secure != nil {
		ln = tlsListener{tls.NewListener(ln, secure)}
	}
	return ln, nil
}

// tlsListener tells [Serve] that URLs begin with https.
type tlsListener struct{ net.Listener }

// Listen opens a listener on HOST:PORT or unix:PATH.
func Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return net.Listen("unix", path)
	}
	return net.Listen("tcp", addr)
}

// LoopbackOnly closes a listener that other machines can reach, and says so. What it is
// for is not meant for them.
func LoopbackOnly(ln net.Listener) (net.Listener, error) {
	if exposed(ln) {
		return nil, errors.Join(errors.New("it can be reached from other machines, without TLS or a token: --yes says that it may"), ln.Close())
	}
	return ln, nil
}

// Warning is what whoever started a server should know about its listener, "" if nothing.
func (a Access) Warning(ln net.Listener) string {
	if a.Tokens != "" || !exposed(ln) {
		return ""
	}
	return ln.Addr().String() + " can be reached from other machines, and whoever reaches it may use it: --tokens FILE lets in only those who have a token"
}

// exposed tells whether other machines can reach a listener.
func exposed(ln net.Listener) bool {
	at, ok := ln.Addr().(*net.TCPAddr)
	return ok && !at.IP.IsLoopback()
}
