package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// maxFile bounds what is read of a file with certificates or a key.
const maxFile = 16 << 20

// config reads the files. The result is a base: server name and protocols are added for
// each use.
func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure}
	var wrong error
	if t.CA != "" {
		pool, err := roots(t.CA)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("target.tls.ca (--ca-file): %w", err))
		}
		c.RootCAs = pool
	}
	switch {
	case t.Cert != "" && t.Key == "":
		wrong = errors.Join(wrong, errors.New("target.tls.cert is given without target.tls.key; a certificate is of use with its key only"))
	case t.Cert == "" && t.Key != "":
		wrong = errors.Join(wrong, errors.New("target.tls.key is given without target.tls.cert; name the certificate of the key"))
	case t.Cert != "":
		pair, err := keyPair(t.Cert, t.Key)
		if err != nil {
			wrong = errors.Join(wrong, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, wrong
}

// roots returns the roots of the system and those in the file.
func roots(name string) (*x509.CertPool, error) {
	text, err := readFile(name)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without roots still has those of the file
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", name)
	}
	return pool, nil
}

func keyPair(cert, key string) (tls.Certificate, error) {
	certText, err := readFile(cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("target.tls.cert: %w", err)
	}
	keyText, err := readFile(key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("target.tls.key: %w", err)
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	switch {
	case err == nil:
		return pair, nil
	case !holds(certText, "CERTIFICATE"):
		return pair, fmt.Errorf("target.tls.cert: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", cert)
	case holds(keyText, "ENCRYPTED PRIVATE KEY") || strings.Contains(string(keyText), "Proc-Type: 4,ENCRYPTED"):
		return pair, fmt.Errorf("target.tls.key: %s is encrypted; gapless asks for no passphrase, so give the key decrypted", key)
	case !holds(keyText, "PRIVATE KEY"):
		return pair, fmt.Errorf("target.tls.key: %s holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)", key)
	case strings.Contains(err.Error(), "does not match"):
		return pair, fmt.Errorf("target.tls.key: %s is not the key of the certificate in %s", key, cert)
	}
	return pair, fmt.Errorf("target.tls.cert and key (%s, %s) cannot be used: %w", cert, key, err)
}

// holds tells whether a PEM block whose type ends so is in the text.
func holds(text []byte, kind string) bool {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
}

// readFile reads a file within [maxFile]; its errors name it.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return text, nil
}

// A secureLink is TLS whose errors say what to do. Since TLS 1.3 a server judges the client
// certificate behind the handshake, so that the first exchange meets what it thinks of it.
type secureLink struct {
	*tls.Conn
	// asked: the server has asked for a client certificate; shown: it was given one.
	asked, shown bool
	heard        atomic.Bool // something from the server
}

// Read reads from the connection.
func (l *secureLink) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 && !l.heard.Load() {
		l.heard.Store(true)
	}
	if err != nil && !l.heard.Load() {
		err = l.plain(err)
	}
	return n, err
}

// Write writes to the connection.
func (l *secureLink) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if err != nil && !l.heard.Load() {
		err = l.plain(err)
	}
	return n, err
}

// plain says what the end of a connection means on which nothing was heard. The alert of the
// server says it best, but where we write at the same time it is often lost.
func (l *secureLink) plain(err error) error {
	var plain *handshakeError
	switch alert := plainAlert(err); {
	case errors.As(alert, &plain):
		return alert
	case !l.asked, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return err
	case !l.shown:
		return &handshakeError{err, "the server asked for a client certificate and broke the connection without one: give target.tls.cert and target.tls.key"}
	}
	return &handshakeError{err, "the server asked for a client certificate and then broke the connection: it may not accept the one in target.tls.cert"}
}

// encrypt makes TLS over conn, which it owns from now on.
func encrypt(ctx context.Context, conn net.Conn, base *tls.Config, name string, protocols ...string) (*secureLink, error) {
	c, l := base.Clone(), new(secureLink)
	c.ServerName, c.NextProtos = name, protocols
	c.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		l.asked = true
		for i := range base.Certificates {
			if asked.SupportsCertificate(&base.Certificates[i]) == nil {
				l.shown = true
				return &base.Certificates[i], nil
			}
		}
		return new(tls.Certificate), nil // none
	}
	l.Conn = tls.Client(conn, c)
	if err := l.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // nothing was sent over it
		return nil, plainHandshake(err, name)
	}
	return l, nil
}

// plainHandshake says in plain words why a handshake failed and what to do.
func plainHandshake(err error, name string) error {
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &host):
		return &handshakeError{err, fmt.Sprintf("the certificate is for %s, not for %s: use a name that it is for, or --insecure", namesOf(host.Certificate), name)}
	case errors.As(err, &unknown):
		return &handshakeError{err, fmt.Sprintf("the certificate is signed by an unknown authority (%s): give that authority's certificate with --ca-file", issuerOf(err, unknown.Cert))}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if now := time.Now(); now.Before(invalid.Cert.NotBefore) {
			return &handshakeError{err, fmt.Sprintf("the certificate is valid from %s on only: check the clock of this machine", invalid.Cert.NotBefore.Format(time.RFC3339))}
		}
		return &handshakeError{err, fmt.Sprintf("the certificate expired on %s: renew it, or --insecure", invalid.Cert.NotAfter.Format(time.RFC3339))}
	case errors.As(err, &record):
		return &handshakeError{err, "the answer is no TLS: is it http:// instead of https://?"}
	case errors.Is(err, io.EOF):
		return &handshakeError{err, "the connection was closed in the TLS handshake: is it http:// instead of https://, or another port?"}
	}
	return plainAlert(err)
}

// plainAlert translates alerts of the other side, which Go gives as text only.
func plainAlert(err error) error {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return err
	}
	for _, alert := range [...]struct{ text, plain string }{
		{"certificate required", "the server asked for a client certificate: give target.tls.cert and target.tls.key"},
		{"bad certificate", "the server asked for a client certificate and accepts none or not this: see target.tls.cert and target.tls.key"},
		{"unknown certificate authority", "the server does not know who signed the client certificate in target.tls.cert"},
		{"expired certificate", "the server says that the client certificate in target.tls.cert has expired"},
		{"unrecognized name", "the server knows no host of this name"},
		{"protocol version not supported", "the server speaks no TLS that gapless does (1.2 and 1.3)"},
		{noProtocol, "the server speaks none of the HTTP versions that were offered: see target.http"},
	} {
		if strings.Contains(err.Error(), alert.text) {
			return &handshakeError{err, alert.plain}
		}
	}
	return err
}

// noProtocol is the text of the alert for a server that refuses all offered protocols.
const noProtocol = "no application protocol"

func refusesProtocol(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Error(), noProtocol)
}

// A handshakeError says in plain words what the error below means.
type handshakeError struct {
	err   error
	plain string
}

func (e *handshakeError) Error() string { return e.plain }
func (e *handshakeError) Unwrap() error { return e.err }

// namesOf lists a few names that a certificate is for.
func namesOf(cert *x509.Certificate) string {
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name (it has no subjectAltName)"
	}
	more := ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n)
	}
	for i := range names {
		names[i] = cut(names[i])
	}
	return strings.Join(names, ", ") + more
}

// issuerOf names who signed the certificate that could not be verified.
func issuerOf(err error, cert *x509.Certificate) string {
	var verify *tls.CertificateVerificationError
	if cert == nil && errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0 {
		cert = verify.UnverifiedCertificates[0]
	}
	switch {
	case cert == nil:
		return "not named"
	case string(cert.RawIssuer) == string(cert.RawSubject):
		return "itself"
	case cert.Issuer.CommonName != "":
		return cut(cert.Issuer.CommonName)
	}
	return cut(cert.Issuer.String())
}
