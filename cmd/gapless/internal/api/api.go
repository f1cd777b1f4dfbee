// Package api lets a program steer a run over HTTP and read how it goes: what k6's
// scripts, or any others, need to put gapless among their own steps.
//
//	request ─► Host ─► token ─► origin ─► path, method ─► JSON
//
// Everything is behind one token. The header Host must name the listener, so that no
// page in somebody's browser can reach it under a name of its own (DNS rebinding).
package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// States of a run.
const (
	Waiting  = "waiting"  // for POST /api/start
	Running  = "running"  // control calls, then the load
	Draining = "draining" // stopped: nothing strikes, what is open goes on to its end
	Done     = "done"     // judged
)

// A Load is what can be asked of a load that goes on, from any goroutine.
type Load interface {
	Figures() Figures
	// Strike resets a share (0 to 1) of the links that carry a stream and returns how many.
	Strike(share float64) int
	Thresholds() []result.Threshold
}

// Figures are where a load is.
type Figures struct {
	// Streams; settled ones have an outcome.
	Planned int64 `json:"planned"`
	Opened  int64 `json:"opened"`
	Open    int64 `json:"open"`
	Settled int64 `json:"settled"`
	// Delivered messages.
	Delivered int64 `json:"delivered"`
	// Cuts are injections that ended their link.
	Cuts    int64 `json:"cuts"`
	Resumes int64 `json:"resumes"`
	// Storms of the plan, Strikes that were asked for, and Struck links of both.
	Storms     int64 `json:"storms"`
	Strikes    int64 `json:"strikes"`
	Struck     int64 `json:"struck"`
	Violations int64 `json:"violations"`
}

// Config says what a [Server] serves. Token and Stop are required.
type Config struct {
	// Token is what requests have to carry: at least [LeastToken] visible ASCII characters.
	Token string
	// Host is the name that the listener was given; "" if it was given an address.
	Host string
	// Paused: the run waits for a start.
	Paused bool
	// Stop is called, once, when the run is to end early: faults heal, streams drain.
	Stop func()
}

// LeastToken is the length below which a token can be guessed.
const LeastToken = 16

// Bounds of what one request may cost, and all of them together.
const (
	maxHeader  = 8 << 10
	maxBody    = 4 << 10
	maxLinks   = 64
	headerTime = 5 * time.Second
	readTime   = 10 * time.Second
	idleTime   = 30 * time.Second
	writeTime  = 2 * time.Minute // a profile of a minute is not unusual
	closeTime  = time.Second
)

// A Server is the API of one run.
type Server struct {
	c       Config
	started chan struct{} // closed: the run may begin
	left    chan struct{} // closed: nobody needs the result any more

	mu    sync.Mutex
	state string
	began time.Time
	took  time.Duration // once done
	load  Load          // nil before the load
	// Of the result, once there is one:
	verdict    string
	result     []byte
	thresholds []result.Threshold
}

// New returns the API of a run that has not begun, or that begins now.
func New(c Config) (*Server, error) {
	if len(c.Token) < LeastToken || !visible(c.Token) {
		return nil, errors.New("the token must have at least 16 characters, all of them visible ASCII")
	}
	s := &Server{c: c, started: make(chan struct{}), left: make(chan struct{}), state: Waiting}
	if !c.Paused {
		s.start()
	}
	return s, nil
}

func visible(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Started is closed when the run may begin.
func (s *Server) Started() <-chan struct{} { return s.started }

// Left is closed when a stop came after the end: the result was fetched.
func (s *Server) Left() <-chan struct{} { return s.left }

// Armed tells that the load begins.
func (s *Server) Armed(l Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = l
}

// Halted tells that the run was interrupted from elsewhere.
func (s *Server) Halted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Running || s.state == Waiting {
		s.state = Draining
	}
}

// Done tells that the run is over, and what came of it.
func (s *Server) Done(r *result.Result) error {
	var text bytes.Buffer
	if err := r.Encode(&text); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.took = Done, time.Since(s.began)
	s.verdict, s.result, s.thresholds = r.Verdict, text.Bytes(), r.Thresholds
	return nil
}

// start begins the run; false if it has begun.
func (s *Server) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Waiting {
		return false
	}
	s.state, s.began = Running, time.Now()
	close(s.started)
	return true
}

// stop ends the run early, or the wait behind its end. It returns the state.
func (s *Server) stop() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case Waiting, Running:
		s.state = Draining
		s.c.Stop()
	case Done:
		select {
		case <-s.left:
		default:
			close(s.left)
		}
	}
	return s.state
}

// Serve answers until ctx ends; what is being answered then has a second to end.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	h := &http.Server{
		Handler: s, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: writeTime, IdleTimeout: idleTime, ErrorLog: log.New(io.Discard, "", 0),
	}
	var group guard.Group
	ctx, cancel := context.WithCancel(ctx)
	group.Go(func() {
		<-ctx.Done()
		late, stop := context.WithTimeout(context.Background(), closeTime)
		defer stop()
		if h.Shutdown(late) != nil {
			_ = h.Close() // a listener that is closed twice
		}
	})
	err := h.Serve(netutil.LimitListener(ln, maxLinks))
	cancel()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, group.Wait())
}
