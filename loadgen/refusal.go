package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// refusalMax bounds what is read of the body of a refusal, in bytes.
const refusalMax = 64 << 10

// A CredentialError says that no credential could be got, so that nothing was sent.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return fmt.Sprintf("credential: %v", e.Err) }

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// authorize adds the Authorization field to a request that is about to be sent. Its
// errors are *CredentialError.
func (r *runner) authorize(ctx context.Context, req *wire.Request) error {
	if r.c.Credential == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.Handshake)
	defer cancel()
	value, err := r.c.Credential(ctx)
	if err != nil {
		return &CredentialError{err}
	}
	r.secret.Store(&value)
	fields := make([]wire.Field, 0, len(req.Fields)+1) // req.Fields may be shared
	req.Fields = append(append(fields, req.Fields...), wire.Field{Name: "Authorization", Value: value})
	return nil
}

// shortest is the length from which on what was sent is taken out of the target's words:
// what is shorter is no secret, and would be found in any text.
const shortest = 6

// hide takes what was sent in headers out of a text of the target's: it may repeat it.
func (r *runner) hide(text string) string {
	sent := make([]string, 0, len(r.c.Header)+1)
	for _, f := range r.c.Header {
		sent = append(sent, f.Value)
	}
	if value := r.secret.Load(); value != nil {
		sent = append(sent, *value)
	}
	for _, value := range sent {
		if _, token, ok := strings.Cut(value, " "); ok && len(token) >= shortest {
			text = strings.ReplaceAll(text, token, "…")
		}
		if len(value) >= shortest {
			text = strings.ReplaceAll(text, value, "…")
		}
	}
	return text
}

// refusal says in words what a status other than 2xx means for a request that was not
// accepted, and reads its body as far as it says more.
func (r *runner) refusal(resp *wire.Response, what string) string {
	switch resp.Status {
	case 300, 301, 302, 303, 307, 308:
		defer skip(resp)
		return "it redirects to " + r.leadsTo(resp.Get("Location")) + "; gapless follows no redirects, give that URL"
	case 401, 403:
		defer skip(resp)
		return r.credentials(resp)
	}
	text := what + " was not accepted"
	if !resp.JSON() {
		_ = skip(resp)
	} else if data, err := resp.ReadAll(refusalMax); err == nil {
		if said := complaint(data); said != "" {
			return text + ": " + said
		}
	}
	switch resp.Status {
	case 404, 405:
		text += "; is this the URL of an MCP endpoint, like http://HOST/mcp?"
	}
	return text
}

// leadsTo shows where a redirect leads: no query and no user, which may be secrets.
func (r *runner) leadsTo(location string) string {
	base, err := url.Parse(r.c.URL)
	if err != nil || location == "" {
		return "nowhere"
	}
	to, err := base.Parse(location)
	if err != nil || to.Host == "" {
		return "what is no URL"
	}
	return plainURL(to)
}

// plainURL is a URL without user, query and fragment, of at most 200 bytes.
func plainURL(u *url.URL) string {
	text := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	return text[:min(len(text), 200)]
}

// Of a challenge (RFC 9110 §11.6.1) the name of its scheme and, in it, where the metadata
// of the resource lie (RFC 9728 §5.1).
var (
	scheme   = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,32}`)
	metadata = regexp.MustCompile(`(?i)\bresource_metadata\s*=\s*"?([^",\s]{1,500})`)
)

// credentials says what 401 and 403 want.
func (r *runner) credentials(resp *wire.Response) string {
	text := "it wants credentials"
	given := r.c.Credential != nil
	for _, f := range r.c.Header {
		given = given || strings.EqualFold(f.Name, "Authorization")
	}
	if given {
		text = "it refuses the credentials that were sent"
	}
	challenge := resp.Get("WWW-Authenticate")
	var more []string
	if name := scheme.FindString(challenge); name != "" {
		more = append(more, name)
	}
	if m := metadata.FindStringSubmatch(challenge); m != nil {
		if u, err := url.Parse(m[1]); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
			more = append(more, "see "+plainURL(u))
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text + "; --token-env, --token-file or target.oauth give them"
}

// rpcError is the error member of a JSON-RPC message.
type rpcError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *rpcError) String() string {
	text := fmt.Sprintf("%d %.200s", e.Code, e.Message)
	var data struct{ Supported []string }
	if json.Unmarshal(e.Data, &data) == nil && len(data.Supported) > 0 { // 2026-07-28 versioning
		text += fmt.Sprintf(" (it speaks %.100s)", strings.Join(data.Supported, ", "))
	}
	return text
}

// front is what an answer says of who gives it or stands in between.
func front(resp *wire.Response) string {
	var all []string
	for _, name := range []string{"Server", "Via"} {
		if v := resp.Get(name); v != "" {
			all = append(all, v)
		}
	}
	text := strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e {
			return '?'
		}
		return c
	}, strings.Join(all, ", "))
	return text[:min(len(text), 80)]
}
