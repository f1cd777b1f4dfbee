package refserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// principalOf returns on whose behalf a request is made: the UserID of its verified
// token, "" when there is none. A session is of one principal, and unknown to others
// ("2025-11-25 security best practices, Session Hijacking"); having its id proves
// nothing.
func principalOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		return info.UserID
	}
	return ""
}

// authenticate serves r once its bearer token is verified. Without a verifier it is
// served as it is: with the token that a middleware around the handler has verified,
// if any.
func (h *Handler) authenticate(w http.ResponseWriter, r *http.Request) *refusal {
	if h.cfg.Verifier == nil {
		return h.serve(w, r)
	}
	info, refused := h.verify(w, r)
	if refused != nil {
		return refused
	}
	// The SDK looks for a token under a key of its own, which only its middleware sets.
	verified := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	next := func(w http.ResponseWriter, r *http.Request) { refused = h.serve(w, r) }
	auth.RequireBearerToken(verified, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(http.HandlerFunc(next)).ServeHTTP(w, r)
	return refused
}

// verify finds out whose token a request carries (RFC 6750, 2.1 and 3.1).
func (h *Handler) verify(w http.ResponseWriter, r *http.Request) (*auth.TokenInfo, *refusal) {
	lines := r.Header.Values("Authorization")
	if len(lines) > 1 {
		return nil, h.challenge(w, http.StatusBadRequest, "invalid_request", "more than one Authorization header")
	}
	var fields []string
	if len(lines) == 1 {
		fields = strings.Fields(lines[0])
	}
	if len(fields) != 2 || !strings.EqualFold(fields[0], "bearer") {
		return nil, h.challenge(w, http.StatusUnauthorized, "", "a bearer token is needed")
	}
	info, err := h.cfg.Verifier(r.Context(), fields[1], r)
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		return nil, h.challenge(w, http.StatusUnauthorized, "invalid_token", "the bearer token is not valid")
	case errors.Is(err, auth.ErrOAuth):
		return nil, h.challenge(w, http.StatusBadRequest, "invalid_request", "the bearer token cannot be used here")
	case err != nil || info == nil:
		h.complain(err, fields[1])
		return nil, refuse(http.StatusServiceUnavailable, "bearer tokens cannot be verified now")
	case !info.Expiration.IsZero() && !time.Now().Before(info.Expiration):
		return nil, h.challenge(w, http.StatusUnauthorized, "invalid_token", "the bearer token has expired")
	}
	for _, scope := range h.cfg.Scopes {
		if !slices.Contains(info.Scopes, scope) {
			return nil, h.challenge(w, http.StatusForbidden, "insufficient_scope", "the bearer token does not reach so far")
		}
	}
	return info, nil
}

// complain reports a verifier that could not do its work. Its error may quote what it
// was given.
func (h *Handler) complain(err error, token string) {
	text := "it returned neither a token nor an error"
	if err != nil {
		text = strings.ReplaceAll(err.Error(), token, "[token]")
	}
	h.cfg.Logger.Error("the token verifier failed", "error", text)
}

// challenge refuses a request for its token and says what would do (RFC 6750, 3; RFC
// 9728, 5.1). A request that brought no token at all is given no error code.
func (h *Handler) challenge(w http.ResponseWriter, status int, code, text string) *refusal {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+value+`"`)
		}
	}
	add("error", code)
	add("scope", strings.Join(h.cfg.Scopes, " "))
	add("resource_metadata", h.cfg.ResourceMetadataURL)
	w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(params, ", ")))
	return refuse(status, text)
}
