package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// A route is one thing that can be asked.
type route struct {
	path, method string
	handle       func(*Server, http.ResponseWriter, *http.Request)
}

func routes() []route {
	return []route{
		{"/api/status", http.MethodGet, (*Server).getStatus},
		{"/api/start", http.MethodPost, (*Server).postStart},
		{"/api/stop", http.MethodPost, (*Server).postStop},
		{"/api/inject", http.MethodPost, (*Server).postInject},
		{"/api/result", http.MethodGet, (*Server).getResult},
		{"/api/thresholds", http.MethodGet, (*Server).getThresholds},
	}
}

const profiles = "/debug/pprof/"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch {
	case !s.named(r):
		fail(w, http.StatusForbidden, "the header Host does not name this listener")
	case !s.allowed(r):
		w.Header().Add("WWW-Authenticate", `Bearer realm="gapless"`)
		fail(w, http.StatusUnauthorized, "the token is missing or wrong: Authorization: Bearer TOKEN; gapless prints it when it starts")
	case http.NewCrossOriginProtection().Check(r) != nil:
		fail(w, http.StatusForbidden, "the request comes from a page of another origin")
	case strings.HasPrefix(r.URL.Path, profiles):
		profile(w, r)
	default:
		s.route(w, r)
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	for _, one := range routes() {
		switch {
		case one.path != r.URL.Path:
		case one.method == r.Method || one.method == http.MethodGet && r.Method == http.MethodHead:
			one.handle(s, w, r)
			return
		default:
			w.Header().Set("Allow", one.method)
			fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s", one.path, one.method))
			return
		}
	}
	switch r.URL.Path {
	case "/", "/metrics":
		fail(w, http.StatusNotFound, "this version has neither a live page nor metrics of a run; GET /api/status has the figures")
	default:
		fail(w, http.StatusNotFound, "nothing is here; there are "+known())
	}
}

func known() string {
	all := make([]string, 0, len(routes())+1)
	for _, one := range routes() {
		all = append(all, one.method+" "+one.path)
	}
	return strings.Join(append(all, "GET "+profiles), ", ")
}

// named tells whether Host names this listener: by the address that the request came
// to, by localhost if that is one of this machine's own, or by the name it was given.
func (s *Server) named(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || host == "" {
		return false
	}
	own := local.Network() == "unix"
	to, err := netip.ParseAddrPort(local.String())
	own = own || err == nil && to.Addr().Unmap().IsLoopback()
	if own && host == "localhost" || s.c.Host != "" && host == strings.ToLower(s.c.Host) {
		return true
	}
	given, bad := netip.ParseAddr(host)
	if bad != nil {
		return false
	}
	return own && given.IsLoopback() || err == nil && given.Unmap() == to.Addr().Unmap()
}

// allowed tells whether the request carries the token: as a bearer, or as the password
// that browsers and go tool pprof send.
func (s *Server) allowed(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		scheme, token = "bearer", password
	}
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.c.Token))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// profile serves the profiles of this process, but for its command line: that may hold
// secrets.
func profile(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it takes as long as it was asked to
	switch strings.TrimPrefix(r.URL.Path, profiles) {
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	load := s.load
	status := struct {
		State   string  `json:"state"`
		Elapsed float64 `json:"elapsed_seconds"`
		Figures
		Verdict string `json:"verdict"` // "" before the end
	}{State: s.state, Verdict: s.verdict}
	switch {
	case s.state == Done:
		status.Elapsed = s.took.Seconds()
	case !s.began.IsZero():
		status.Elapsed = time.Since(s.began).Seconds()
	}
	s.mu.Unlock()
	if load != nil {
		status.Figures = load.Figures()
	}
	answer(w, http.StatusOK, status)
}

func (s *Server) postStart(w http.ResponseWriter, _ *http.Request) {
	if !s.start() {
		fail(w, http.StatusConflict, "the run has begun already")
		return
	}
	answer(w, http.StatusOK, map[string]string{"state": Running})
}

func (s *Server) postStop(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"state": s.stop()})
}

func (s *Server) postInject(w http.ResponseWriter, r *http.Request) {
	share, err := shareOf(r)
	if err != nil {
		code := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("a body has at most %d bytes", maxBody)
		}
		fail(w, code, err.Error())
		return
	}
	s.mu.Lock()
	state, load := s.state, s.load
	s.mu.Unlock()
	switch {
	case state != Running:
		fail(w, http.StatusConflict, "nothing is injected while the run is "+state)
	case load == nil:
		fail(w, http.StatusConflict, "the load has not begun: control calls come first, and nothing hurts them")
	default:
		answer(w, http.StatusOK, map[string]int{"struck": load.Strike(share)})
	}
}

// shareOf reads which share of the links is to be struck; all of them if nothing says.
func shareOf(r *http.Request) (float64, error) {
	body := struct {
		Share *float64 `json:"share"`
	}{}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&body)
	if errors.Is(err, io.EOF) {
		return 1, nil
	}
	if err == nil && dec.More() {
		err = errors.New("something follows it")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf(`the body is not of the form {"share": 0.5}: %w`, err)
	case body.Share == nil:
		return 1, nil
	case !(*body.Share > 0 && *body.Share <= 1):
		return 0, errors.New("share: more than 0, at most 1")
	}
	return *body.Share, nil
}

func (s *Server) getResult(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	state, text := s.state, s.result
	s.mu.Unlock()
	if text == nil {
		fail(w, http.StatusNotFound, "there is no result yet: the run is "+state)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // whoever asked has gone
}

func (s *Server) getThresholds(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	state, load, all := s.state, s.load, s.thresholds
	s.mu.Unlock()
	if state != Done && load != nil {
		all = load.Thresholds()
	}
	answer(w, http.StatusOK, struct {
		State      string             `json:"state"`
		Thresholds []result.Threshold `json:"thresholds"` // none before the load
	}{state, append([]result.Threshold{}, all...)})
}

func fail(w http.ResponseWriter, code int, text string) {
	answer(w, code, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // whoever asked has gone
}
