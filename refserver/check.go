package refserver

import (
	"encoding/json"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Header names of Streamable HTTP, and our own two.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerCursor  = "Last-Event-Id"
	// headerMissed tells on the answer to a resume how many events the log held
	// behind the cursor when the connection was accepted.
	headerMissed = "Gapless-Missed"
	// headerCall carries the id of a request from the handler to the middleware, inside
	// the SDK. It is never on the wire: a client's own value is dropped.
	headerCall = "Gapless-Call"
	// headerAlone likewise marks a request without a session, and names the transport it
	// came by.
	headerAlone = "Gapless-Alone"
)

// Revisions of MCP that are served, and the one from which streams are primed.
const (
	revisionOldest = "2025-03-26"
	revisionMiddle = "2025-06-18"
	revisionPrimed = "2025-11-25"
)

// Revisions lists the revisions of MCP that a [Handler] can serve, newest first. The
// first has no sessions and needs [Config.Modern].
func Revisions() []string { return append([]string{revisionModern}, revisions()...) }

// revisions lists those with sessions, newest first.
func revisions() []string { return []string{revisionPrimed, revisionMiddle, revisionOldest} }

func supported(revision string) bool { return slices.Contains(revisions(), revision) }

// refusal is an answer other than 2xx.
type refusal struct {
	status int
	code   int64
	text   string
}

func (f *refusal) Error() string { return f.text }

func refuse(status int, text string) *refusal {
	return &refusal{status: status, code: -32000, text: text}
}

// unknownSession is the answer that sends a client back to initialize.
func unknownSession() *refusal {
	return &refusal{status: http.StatusNotFound, code: -32001, text: "session not found"}
}

// write sends the refusal as a JSON-RPC error without a request id.
func (f *refusal) write(w http.ResponseWriter) {
	writeError(w, f.status, nil, jsonrpc.Error{Code: f.code, Message: f.text})
}

func writeError(w http.ResponseWriter, status int, id any, failure jsonrpc.Error) {
	body, err := json.Marshal(struct {
		JSONRPC string        `json:"jsonrpc"`
		ID      any           `json:"id"`
		Error   jsonrpc.Error `json:"error"`
	}{"2.0", id, failure})
	if err != nil {
		panic(err) // strings, numbers and what was JSON before can always be written
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails, and nothing is lost
}

// checkOrigin refuses pages of foreign origins ("2025-11-25 transports, Security
// Warning 1"). A page that reached us by DNS rebinding names its own origin, so
// comparing it with Host would prove nothing.
func (h *Handler) checkOrigin(r *http.Request) *refusal {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if len(origins) == 1 && OriginAllowed(origins[0], h.cfg.AllowedOrigins) {
		return nil
	}
	return refuse(http.StatusForbidden, "this origin is not allowed")
}

// OriginAllowed reports whether pages of an origin, the value of an Origin header, may use
// a server: those of loopback may, and those that are listed, as in
// [Config.AllowedOrigins].
func OriginAllowed(origin string, allowed []string) bool {
	name, host, ok := parseOrigin(origin)
	return ok && (loopbackName(host) || slices.ContainsFunc(allowed, func(a string) bool {
		same, _, _ := parseOrigin(a)
		return name == same
	}))
}

// ValidOrigin reports whether text can be listed as an allowed origin:
// http://host[:port] or https://host[:port].
func ValidOrigin(text string) bool {
	_, _, ok := parseOrigin(text)
	return ok
}

// parseOrigin reads scheme://host[:port] and nothing more, and returns it in one
// spelling: lower case, without the port that its scheme has anyway.
func parseOrigin(text string) (origin, host string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !strings.EqualFold(text, u.Scheme+"://"+u.Host) {
		return "", "", false
	}
	host = strings.ToLower(u.Hostname())
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port), host, true
}

// loopbackName reports whether a host's name can only mean this machine.
func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// ForeignHost reports whether a request came in on a loopback address under a name that
// is neither of loopback nor allowed. It is for handlers of other dialects.
func ForeignHost(r *http.Request, allowed []string) bool { return foreignHost(r, allowed) }

// foreignHost reports whether a request came in on loopback under another name. A page
// that made its own name mean 127.0.0.1 (DNS rebinding) is of the same origin as
// the server to its browser, and betrays itself by that name alone ("2025-11-25
// transports, Security Warning").
func foreignHost(r *http.Request, allowed []string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return false // of a Unix socket no browser knows
	}
	host := hostName(r.Host)
	return !loopbackName(host) && !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) })
}

// hostName is a Host header without its port, and without the brackets of IPv6.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	return host
}

// headerLines is the most header lines that a request may have: they are kept while it
// is served, in forty times the memory they take on the wire if each has another name.
const headerLines = 100

// checkHead refuses a request for what can be told from its header, whoever made it.
func (h *Handler) checkHead(r *http.Request) *refusal {
	lines := 0
	for _, values := range r.Header {
		lines += len(values)
	}
	if lines > headerLines {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "too many header lines")
	}
	if foreignHost(r, h.cfg.AllowedHosts) {
		return refuse(http.StatusForbidden, "this host is not allowed")
	}
	return h.checkOrigin(r)
}

// checkVersion refuses a request that names a revision we do not serve. A request
// that names none is served as its session was negotiated.
func checkVersion(r *http.Request) *refusal {
	for _, v := range r.Header.Values(headerVersion) {
		if !supported(v) {
			return refuse(http.StatusBadRequest, "unsupported protocol version; supported: "+
				strings.Join(revisions(), ", "))
		}
	}
	return nil
}

// accepts reports whether the Accept header admits a media type.
func accepts(r *http.Request, media string) bool {
	group, _, _ := strings.Cut(media, "/")
	for _, line := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(line, ",") {
			name, params, err := mime.ParseMediaType(strings.TrimSpace(item))
			if err != nil || name != media && name != group+"/*" && name != "*/*" {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}

func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
