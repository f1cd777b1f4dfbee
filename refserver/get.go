package refserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/store"
)

// get serves a resume, or the session's standalone stream ("2025-11-25 transports,
// Listening for Messages; Resumability and Redelivery").
func (h *Handler) get(w http.ResponseWriter, r *http.Request) *refusal {
	if !accepts(r, "text/event-stream") {
		return refuse(http.StatusNotAcceptable, "Accept must list text/event-stream")
	}
	s, refused := h.session(r)
	if refused != nil {
		return refused
	}
	if cursors := r.Header.Values(headerCursor); len(cursors) > 1 || len(cursors) == 1 && cursors[0] != "" {
		asked := time.Now()
		f, outcome, refused := h.resume(r, s, cursors)
		h.metrics.resumes[outcome].Inc()
		h.metrics.resuming[phaseLookup].Observe(time.Since(asked).Seconds())
		if refused != nil {
			h.cfg.OnEvent(Event{Kind: Resumed, Outcome: outcome})
			return refused
		}
		f.asked = asked
		h.metrics.replay.Observe(float64(f.replay))
		h.cfg.OnEvent(Event{Kind: Resumed, Outcome: outcome, Missed: f.replay})
		w.Header().Set(headerMissed, strconv.Itoa(f.replay))
		return h.follow(w, r, f, nil)
	}
	return h.listen(w, r, s)
}

// resume finds the stream that a cursor leads to and takes its place there. The
// cursor is judged before anything else happens, so that a bad one disturbs nobody.
func (h *Handler) resume(r *http.Request, s *session, cursors []string) (*follower, Outcome, *refusal) {
	if len(cursors) != 1 {
		return nil, ResumeUnknown, refuse(http.StatusBadRequest, "more than one Last-Event-ID")
	}
	if !store.ValidID(cursors[0]) { // never given out, and not every store need cope with it
		outcome, refused := h.unresumable(store.ErrUnknown)
		return nil, outcome, refused
	}
	tail, err := h.after(r, s, cursors[0])
	if err != nil {
		outcome, refused := h.unresumable(err)
		return nil, outcome, refused
	}
	f, err := s.claim(r.Context(), tail)
	if err != nil {
		_ = tail.Close() // nothing was read from it
		if errors.Is(err, errSessionEnded) {
			return nil, ResumeUnknown, unknownSession()
		}
		return nil, ResumeConflict, refuse(http.StatusConflict, errConflict.Error())
	}
	f.replay = tail.Position().Missed
	return f, ResumeOK, nil
}

// claim attaches a follower to the stream that a tail reads.
func (s *session) claim(ctx context.Context, tail store.Tail) (*follower, error) {
	for {
		stream := s.revive(tail.Position().Stream.Name)
		if stream == nil {
			return nil, errSessionEnded
		}
		f := newFollower(stream, tail)
		f.holdsID = true
		err := stream.attach(ctx, f, s.h.cfg.OnConflict == Takeover)
		if err == nil {
			return f, nil
		}
		f.release()
		if !errors.Is(err, errRetired) {
			return nil, err
		}
	}
}

// after finds the tail behind a cursor. A planted defect may move it by one event.
func (h *Handler) after(r *http.Request, s *session, id string) (store.Tail, error) {
	cursor := store.Cursor{Stream: store.Stream{Session: s.id}, ID: id}
	tail, err := h.store.After(r.Context(), cursor)
	if err == nil && tail.Position().Stream.Session != s.id {
		_ = tail.Close()             // nothing was read from it
		return nil, store.ErrForeign // one store serves all sessions, and not every one looks
	}
	if err != nil || h.cfg.Defect == (defect.Set{}) {
		return tail, err
	}
	shift := h.cfg.Defect.Shift(h.resumes.Add(1))
	moved, ok := shiftCursor(cursor, tail.Position().Stream, shift)
	if !ok {
		return tail, nil
	}
	shifted, err := h.store.After(r.Context(), moved)
	if err != nil {
		return tail, nil // there is no event to leave out
	}
	return shifted, tail.Close()
}

// shiftCursor moves a cursor of the memory store by a number of events.
func shiftCursor(c store.Cursor, stream store.Stream, shift int) (store.Cursor, bool) {
	dash := strings.LastIndexByte(c.ID, '-')
	if dash < 0 || shift == 0 {
		return c, false
	}
	seq, err := strconv.Atoi(c.ID[dash+1:])
	if err != nil {
		return c, false
	}
	if seq += shift; seq < 1 {
		return store.Cursor{Stream: stream}, true
	}
	c.ID = c.ID[:dash+1] + strconv.Itoa(seq)
	return c, true
}

// unresumable answers a cursor that leads nowhere: 400, promptly, and the value is
// not repeated. It is never 404, which would tell the client that its session is gone.
func (h *Handler) unresumable(err error) (Outcome, *refusal) {
	answer := refuse(http.StatusBadRequest, "this Last-Event-ID cannot be resumed")
	switch {
	case errors.Is(err, store.ErrUnknown):
		return ResumeUnknown, answer
	case errors.Is(err, store.ErrForeign):
		return ResumeForeign, answer
	case errors.Is(err, store.ErrEvicted):
		return ResumeExpired, answer
	}
	h.cfg.Logger.Error("the event store failed on a resume", "error", err)
	return ResumeStoreErr, refuse(http.StatusServiceUnavailable, "the event store is not available")
}

// listen lets a connection follow the standalone stream of the session from its end.
func (h *Handler) listen(w http.ResponseWriter, r *http.Request, s *session) *refusal {
	stream := s.standaloneStream()
	if stream == nil {
		return unknownSession()
	}
	if stream.attached() {
		return refuse(http.StatusConflict, errConflict.Error())
	}
	f, err := s.fromEnd(r.Context(), stream)
	if err != nil {
		return h.unopened(err)
	}
	if err := stream.attach(r.Context(), f, false); err != nil {
		f.discard()
		if errors.Is(err, errConflict) {
			return refuse(http.StatusConflict, errConflict.Error())
		}
		return h.unopened(err)
	}
	return h.follow(w, r, f, nil)
}

// delete ends a session ("2025-11-25 transports, Session Management 5").
func (h *Handler) delete(w http.ResponseWriter, r *http.Request) *refusal {
	s, refused := h.session(r)
	if refused != nil {
		return refused
	}
	s.end()
	w.WriteHeader(http.StatusNoContent)
	return nil
}
