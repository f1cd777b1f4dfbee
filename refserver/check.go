package refserver

import (
	"encoding/json"
	"mime"
	"net"
	"net/http"
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
)

// Revisions of MCP that are served, and the one from which streams are primed.
const (
	revisionOldest = "2025-03-26"
	revisionMiddle = "2025-06-18"
	revisionPrimed = "2025-11-25"
)

func supported(revision string) bool {
	return revision == revisionPrimed || revision == revisionMiddle || revision == revisionOldest
}

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

// write sends the refusal as a JSON-RPC error without a request id.
func (f *refusal) write(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		JSONRPC string        `json:"jsonrpc"`
		ID      any           `json:"id"`
		Error   jsonrpc.Error `json:"error"`
	}{"2.0", nil, jsonrpc.Error{Code: f.code, Message: f.text}})
	if err != nil {
		panic(err) // strings and a number can always be written
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
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
	if len(origins) == 1 && (slices.Contains(h.cfg.AllowedOrigins, origins[0]) || loopbackOrigin(origins[0])) {
		return nil
	}
	return refuse(http.StatusForbidden, "this origin is not allowed")
}

func loopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// checkVersion refuses a request that names a revision we do not serve. A request
// that names none is served as its session was negotiated.
func checkVersion(r *http.Request) *refusal {
	for _, v := range r.Header.Values(headerVersion) {
		if !supported(v) {
			return refuse(http.StatusBadRequest, "unsupported protocol version; supported: "+
				strings.Join([]string{revisionPrimed, revisionMiddle, revisionOldest}, ", "))
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
