package refserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gapless-dev/gapless/refserver/store"
)

// ErrUnstored is in the error of an event that the store did not take and that no
// client was connected to be given without an id.
var ErrUnstored = errors.New("the event store did not take the event")

// unstored is the fate of an event that the store did not take.
type unstored struct {
	cause   error
	written bool // to the client that was connected, without an id
}

func (u *unstored) Error() string {
	return fmt.Sprintf("%v: %v", ErrUnstored, u.cause)
}

func (u *unstored) Unwrap() []error { return []error{ErrUnstored, u.cause} }

// wasWritten reports whether an event that has this error reached the client.
func wasWritten(err error) bool {
	var u *unstored
	return errors.As(err, &u) && u.written
}

// looseEvent is an event on its way past the log.
type looseEvent struct {
	frame   []byte
	written chan error // takes one value
}

// passBy is what becomes of an event that the store refused: the failure is reported,
// and whoever is connected gets the event without an id. An outage of the store costs
// resumability and no request.
//
// It waits until the event is written. The one that emits appends its next event only
// then, so that its events stay in order although two ways lead to the client.
func (s *Stream) passBy(ctx context.Context, frame []byte, cause error) error {
	u := &unstored{cause: cause, written: s.sendLoose(ctx, frame)}
	if u.written {
		s.session.h.metrics.wrote(pathUnstored, 1, len(frame))
	}
	s.reportUnstored(cause, "the event store failed: events are sent without ids", u.written)
	return u
}

// reportUnstored tells of an event that the store failed, in the log once per stream.
func (s *Stream) reportUnstored(cause error, text string, written bool) {
	h := s.session.h
	h.metrics.storeErrors.Inc()
	if !s.failing.Swap(true) {
		h.cfg.Logger.Error(text, "stream", s.kind().String(), "error", cause)
	}
	h.cfg.OnEvent(Event{Kind: Unstored, Get: s.kind() == kindGet, Written: written})
}

func (s *Stream) sendLoose(ctx context.Context, frame []byte) bool {
	s.mu.Lock()
	f := s.follower
	s.mu.Unlock()
	if f == nil {
		return false
	}
	event := looseEvent{frame: slices.Clone(frame), written: make(chan error, 1)}
	f.pass(event)
	select {
	case err := <-event.written:
		return err == nil
	case <-ctx.Done():
		return false
	case <-f.left:
	}
	select {
	case err := <-event.written: // it was the last thing the follower did
		return err == nil
	default:
		return false
	}
}

// degrades reports whether the error of a store lets an event go on without an id. One
// that came after the end of its stream has no place there, and one whose sender has
// given up has nobody to go on for.
func degrades(ctx context.Context, err error) bool {
	return !errors.Is(err, store.ErrEnded) && ctx.Err() == nil
}
