package refserver

import (
	"errors"
	"strconv"
	"time"
)

// errPolling ends the walk of a follower whose connection the server closes while the
// stream goes on.
var errPolling = errors.New("the server closed the connection, the stream goes on")

// CloseConnection ends the connection of the stream, cleanly, while the stream goes on
// in its log: the client is to come back after retry, a whole number of milliseconds,
// which is announced first unless it is zero ("2025-11-25 transports, Sending Messages
// to the Server 6"). What was appended before is written before, as far as it fits in
// one more write.
//
// It reports whether there was a connection that could be closed: one whose client
// negotiated 2025-11-25 or later and was sent a priming event that is in the store, or
// came with a cursor.
// Anybody else would not find back, and keeps the connection. A nil Stream has none.
func (s *Stream) CloseConnection(retry time.Duration) bool {
	if s == nil || !s.session.primed() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || s.follower == nil {
		return false
	}
	return s.follower.leave(farewell(retry))
}

// farewell announces a reconnection time, if there is one, in an event of its own. It has
// no data: nothing is dispatched and no cursor moves.
func farewell(retry time.Duration) []byte {
	line := retryLine(retry)
	if len(line) == 0 {
		return nil
	}
	return append(line, '\n')
}

// retryLine returns the field that announces a reconnection time, nothing for none.
func retryLine(retry time.Duration) []byte {
	ms := retry / time.Millisecond
	if ms <= 0 {
		return nil
	}
	return append(strconv.AppendInt([]byte("retry: "), int64(ms), 10), '\n')
}
