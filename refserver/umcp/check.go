package umcp

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/auth"
)

// methods of the endpoint.
const methods = "GET, POST, DELETE, OPTIONS"

// allowedHeaders are what a page may send ("Browser access").
const allowedHeaders = "Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, Last-Event-ID, Authorization"

// endpoint tells whether a request is for the MCP endpoint, in its one spelling.
func (r *request) endpoint() bool { return r.URL.EscapedPath() == Path }

// check refuses a request for what can be told from its head, whoever made it.
func (s *Server) check(r *request) *answer {
	if e := r.Header.Get("Expect"); e != "" && !strings.EqualFold(e, "100-continue") {
		return refuse(http.StatusExpectationFailed, "this expectation cannot be met")
	}
	if !r.endpoint() {
		return nil
	}
	if !slices.Contains(strings.Split(methods, ", "), r.Method) {
		return refuse(http.StatusMethodNotAllowed, "method not allowed").with("Allow", methods)
	}
	origin := r.Header.Get("Origin")
	if r.Header["Origin"] != nil && !refserver.OriginAllowed(origin, s.cfg.AllowedOrigins) {
		return refuse(http.StatusForbidden, "this origin is not allowed")
	}
	if r.Method == http.MethodOptions {
		return nil // a browser asks before it knows a token
	}
	refused := s.authenticate(r)
	if refused == nil {
		refused = checkMedia(r)
	}
	return share(r, refused)
}

// share lets a page of an allowed origin read an answer, and the session id in it.
func share(r *request, a *answer) *answer {
	origin := r.Header.Get("Origin")
	if a == nil || origin == "" {
		return a
	}
	return a.with("Access-Control-Allow-Origin", origin).with("Vary", "Origin").with("Access-Control-Expose-Headers", headerSession)
}

// preflight answers OPTIONS.
func preflight(r *request) *answer {
	a := (&answer{status: http.StatusNoContent}).with("Allow", methods)
	if r.Header.Get("Origin") == "" {
		return a
	}
	return share(r, a).with("Access-Control-Allow-Methods", methods).with("Access-Control-Allow-Headers", allowedHeaders)
}

// checkMedia refuses what the client cannot take or send.
func checkMedia(r *request) *answer {
	switch {
	case r.Method == http.MethodGet && !listed(r, "text/event-stream", false):
		return refuse(http.StatusNotAcceptable, "Accept must list text/event-stream")
	case r.Method != http.MethodPost:
		return nil
	case r.Header["Accept"] != nil && !listed(r, "application/json", true):
		return refuse(http.StatusNotAcceptable, "Accept must admit application/json")
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	if e := r.Header.Values("Content-Encoding"); len(e) > 0 && (len(e) > 1 || !strings.EqualFold(e[0], "identity")) {
		return refuse(http.StatusUnsupportedMediaType, "the body must not be encoded")
	}
	return nil
}

// listed reports whether Accept names a media type, or admits it by a wildcard if that
// is enough.
func listed(r *request, media string, wild bool) bool {
	group, _, _ := strings.Cut(media, "/")
	for item := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(item))
		if err != nil || name != media && !(wild && (name == group+"/*" || name == "*/*")) {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
			return true
		}
	}
	return false
}

// authenticate finds out whose token a request carries (RFC 6750, 2.1 and 3).
func (s *Server) authenticate(r *request) *answer {
	if s.cfg.Verifier == nil {
		return nil
	}
	fields := strings.Fields(r.Header.Get("Authorization"))
	if len(fields) != 2 || !strings.EqualFold(fields[0], "bearer") {
		return refuse(http.StatusUnauthorized, "a bearer token is needed").with("WWW-Authenticate", "Bearer")
	}
	info, err := s.cfg.Verifier(r.Context(), fields[1], r.Request)
	if err == nil && info != nil && !info.Expiration.IsZero() && !time.Now().Before(info.Expiration) {
		err = auth.ErrInvalidToken
	}
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		return refuse(http.StatusUnauthorized, "the bearer token is not valid").with("WWW-Authenticate", `Bearer error="invalid_token"`)
	case errors.Is(err, auth.ErrOAuth):
		return refuse(http.StatusBadRequest, "the bearer token cannot be used here").with("WWW-Authenticate", `Bearer error="invalid_request"`)
	case err != nil || info == nil:
		s.complain(r.Context(), err, fields[1])
		return refuse(http.StatusServiceUnavailable, "bearer tokens cannot be verified now")
	}
	r.token = info
	return nil
}

// complain reports a verifier that could not do its work. Its error may quote what it
// was given.
func (s *Server) complain(ctx context.Context, err error, token string) {
	text := "it returned neither a token nor an error"
	if err != nil {
		text = strings.ReplaceAll(err.Error(), token, "[token]")
	}
	s.cfg.Logger.ErrorContext(ctx, "the token verifier failed", "error", text)
}

// principal is on whose behalf a request is made.
func (r *request) principal() string {
	if r.token == nil {
		return ""
	}
	return r.token.UserID
}

// version returns the version of MCP that a request names, which all but initialize
// have to.
func (r *request) version() (string, *answer) {
	v := r.Header.Get(headerVersion)
	if !slices.Contains(Versions(), v) {
		return "", refuse(http.StatusBadRequest, "MCP-Protocol-Version must be one of "+strings.Join(Versions(), ", "))
	}
	return v, nil
}
