package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// defaultPath is where MCP servers answer by convention; for Unix sockets only, since
// there the end of a URL names the socket.
const defaultPath = "/mcp"

// maxSocket is how long the path of a Unix socket may be on Linux.
const maxSocket = 107

// target is the URL of a target in parts.
type target struct {
	secure bool
	host   string // a name in ASCII or an address, with its zone and without brackets
	port   string
	socket string // path of a Unix socket, instead of host and port
	// authority is the value of the Host field; it names no zone, which means something
	// on this machine only.
	authority string
	path      string // request target: path and query, escaped
	shown     string
}

func (t target) addr() string { return net.JoinHostPort(t.host, t.port) }

// name is the host as certificates and other machines know it.
func (t target) name() string {
	name, _, _ := strings.Cut(t.host, "%")
	return name
}

func (t target) local() bool { return t.socket != "" || isLoopback(t.host) }

// isLoopback tells the addresses of this machine and the names that never leave it
// (RFC 6761 §6.3).
func isLoopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

const unixScheme = "http+unix://"

func parseTarget(raw string) (target, error) {
	switch {
	case raw == "":
		return target{}, errors.New("is empty; give the URL of the MCP endpoint, such as http://HOST/mcp")
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return target{}, errors.New("holds a blank or a control character; escape it as %XX")
	case strings.Contains(raw, "#"):
		return target{}, errors.New("has a fragment (#…), which is never sent; leave it out")
	case len(raw) >= len(unixScheme) && strings.EqualFold(raw[:len(unixScheme)], unixScheme):
		return parseUnix(raw[len(unixScheme):])
	}
	u, err := parseURL(raw)
	if err != nil {
		return target{}, err
	}
	t := target{secure: u.Scheme == "https"}
	if t.host, t.port, t.authority, err = hostPort(u); err != nil {
		return target{}, err
	}
	t.path = u.RequestURI()
	before, _, _ := strings.Cut(raw, "?")
	t.shown = before + shownQuery(u)
	return t, nil
}

// parseURL parses the URL of something that is reached by HTTP. Its errors hold nothing of
// the URL but its scheme, since anything else may be part of a password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return nil, errors.New("has a port that is no number; it is http://HOST:PORT/PATH")
	case err != nil && strings.Contains(err.Error(), "URL escape"):
		return nil, errors.New("has a % that is not followed by two hexadecimal digits where an escape stands; write %25 for a % itself")
	case err != nil:
		return nil, errors.New("is not a URL; it is http://HOST[:PORT]/PATH")
	case u.Scheme == "":
		return nil, errors.New("names no scheme; put http:// or https:// before it")
	case u.Scheme != "http" && u.Scheme != "https" && u.Opaque != "":
		return nil, errors.New("names no scheme; put http:// or https:// before it")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("has the unknown scheme %q; http, https and http+unix are known", cut(u.Scheme))
	case u.User != nil:
		return nil, errors.New("has a user or password before the @; give it in a header or token")
	case u.Hostname() == "":
		return nil, fmt.Errorf("names no host; it is %s://HOST[:PORT]/PATH", u.Scheme)
	}
	return u, nil
}

// hostPort takes the address of a URL apart and completes it.
func hostPort(u *url.URL) (host, port, authority string, err error) {
	host, port = u.Hostname(), u.Port()
	switch n, numErr := strconv.Atoi(port); {
	case port == "" && strings.HasSuffix(u.Host, ":"):
		return "", "", "", errors.New("ends its host with a colon and names no port")
	case port != "" && (numErr != nil || n < 1 || n > 65535):
		return "", "", "", errors.New("has a port outside 1 to 65535")
	}
	if host, err = asciiHost(host); err != nil {
		return "", "", "", err
	}
	authority, _, _ = strings.Cut(host, "%")
	if strings.Contains(authority, ":") {
		authority = "[" + authority + "]"
	}
	standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	switch port {
	case "":
		port = standard
	case standard:
	default:
		authority += ":" + port
	}
	return host, port, authority, nil
}

// asciiHost returns the host as it is looked up. Underscores are let through: names inside
// container networks have them.
func asciiHost(host string) (string, error) {
	if strings.Contains(host, ":") {
		return host, nil // an address: url.Parse has looked at it
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", errors.New("names a host that is no name and no address")
		}
		return ascii, nil
	}
	if strings.ContainsFunc(host, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-._", r)
	}) {
		return "", errors.New("names a host that is no name and no address")
	}
	return host, nil
}

// parseUnix takes what follows http+unix://.
func parseUnix(rest string) (target, error) {
	const forms = "it is http+unix:///SOCKET, http+unix:///SOCKET:/PATH or http+unix://%2FSOCKET/PATH"
	rest, query, asks := strings.Cut(rest, "?")
	socket, path := rest, ""
	if strings.HasPrefix(rest, "/") {
		if i := strings.Index(rest, ":/"); i >= 0 {
			socket, path = rest[:i], rest[i+1:]
		}
	} else if i := strings.Index(rest, "/"); i >= 0 {
		socket, path = rest[:i], rest[i:]
	}
	socket, err := url.PathUnescape(socket)
	switch {
	case strings.Contains(rest, "@") && !strings.HasPrefix(rest, "/"):
		return target{}, errors.New("has a user or password before the @; give it in a header or token")
	case err != nil:
		return target{}, errors.New("has a % that is not followed by two hexadecimal digits; " + forms)
	case !strings.HasPrefix(socket, "/") || len(socket) < 2 || strings.ContainsRune(socket, 0):
		return target{}, errors.New("names no absolute path of a socket; " + forms)
	case len(socket) > maxSocket:
		return target{}, fmt.Errorf("names a socket by a path of %d bytes; systems allow %d", len(socket), maxSocket)
	}
	if path == "" {
		path = defaultPath
	}
	u, err := url.Parse("http://localhost" + path)
	if err != nil {
		return target{}, errors.New("has a bad path behind the socket; " + forms)
	}
	if asks {
		u.RawQuery = query
	}
	return target{
		socket: socket, authority: "localhost", path: u.RequestURI(),
		shown: unixScheme + rest + shownQuery(u),
	}, nil
}

// secretName tells names of query parameters whose values are not to be shown.
var secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|sig|cred|code|session|jwt|sas`)

// shownLength is how long a value may be and still be no secret by its looks.
const shownLength = 16

// shownQuery returns the query for people: a value that may be secret becomes "…".
func shownQuery(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	parts := strings.Split(u.RawQuery, "&")
	for i, part := range parts {
		name, value, has := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		switch {
		case !has && len(part) > shownLength:
			parts[i] = "…"
		case has && value != "" && (err != nil || secretName.MatchString(plain) || len(value) > shownLength):
			parts[i] = name + "=…"
		}
	}
	return "?" + strings.Join(parts, "&")
}

// cut makes text that somebody else wrote fit for a message: visible ASCII, and short.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}
