package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// ringSize is how many event ids a reader remembers.
	ringSize = 8192
	// slowBytes is what a slow reader takes at once, slowPause how long it then rests.
	slowBytes = 4 << 10
	slowPause = 4 * time.Millisecond
	// receiveBuffer is what the kernel may take for it: with the default it would take
	// all that is replayed, and the server would not notice who is slow.
	receiveBuffer = 32 << 10
	// patience is how long it tries to reach the head.
	patience = time.Second
)

// pastReader reads a stream up to its head, and once it is told to, goes back into the
// past again and again: it resumes backlog events before the head, reads so many
// slowly, and catches up.
type pastReader struct {
	client   *client
	backlog  int
	interval time.Duration // between two events of the writer

	ids     [ringSize]string // by number of the message
	head    int              // the newest number seen
	resumes int64
	missing int64
}

func (r *pastReader) run(ctx context.Context, resuming *atomic.Bool) error {
	const endless = 1_000_000
	link := new(slowLink)
	r.client.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := dialSmall(ctx, addr)
		*link = slowLink{Conn: conn}
		return link, err
	}
	ms := float64(r.interval) / float64(time.Millisecond)
	s, err := r.client.call(ctx, toolArgs{Messages: endless, IntervalMS: ms, Bytes: messageBytes, Ahead: r.backlog + r.backlog/10})
	for err == nil {
		leave := context.AfterFunc(ctx, func() { _ = s.link.Close() })
		err = r.follow(ctx, s, link, resuming)
		leave()
		_ = s.link.Close()
		if err != nil || ctx.Err() != nil {
			break
		}
		from := max(r.head-r.backlog, 1)
		s, err = r.client.resume(ctx, r.ids[from%ringSize], from, endless)
		r.resumes++
	}
	if ctx.Err() != nil {
		return nil // whatever broke, it was because we left
	}
	return err
}

// follow reads one connection: as many events as were behind it slowly, the others as
// they come, until it is time to go back and the head is reached.
func (r *pastReader) follow(ctx context.Context, s *stream, link *slowLink, resuming *atomic.Bool) error {
	past := r.head - s.last
	begun := time.Now()
	var fast time.Time // when there was nothing to be slow for any more
	link.slow = past > 0
	for ctx.Err() == nil {
		before, events := s.last, s.events
		if err := s.next(); err != nil {
			return err
		}
		if s.events == events {
			continue
		}
		r.missing += int64(s.last - before - 1)
		r.ids[s.last%ringSize] = s.cursor()
		r.head = max(r.head, s.last)
		if s.events < past || !resuming.Load() {
			continue
		}
		if link.slow = false; fast.IsZero() {
			fast = time.Now()
		}
		// Writers keep to their plan, so the clock says where the head is.
		appended := int(time.Since(begun) / r.interval)
		if (s.events-past >= appended || time.Since(fast) > patience) && r.head > r.backlog {
			return nil
		}
	}
	return nil
}

// slowLink takes little at once and rests after it, while it is slow.
type slowLink struct {
	net.Conn
	slow bool
}

func (l *slowLink) Read(p []byte) (int, error) {
	if l.slow {
		time.Sleep(slowPause)
		p = p[:min(len(p), slowBytes)]
	}
	return l.Conn.Read(p)
}

// dialSmall connects with a small receive buffer.
func dialSmall(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
		})
		return errors.Join(err, failed)
	}}
	return d.DialContext(ctx, "tcp", addr)
}
