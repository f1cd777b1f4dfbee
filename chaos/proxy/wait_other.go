//go:build !unix

package proxy

import "net"

// A waiter needs a buffer to wait with here.
type waiter struct{ p *Proxy }

func (w *waiter) init(_ net.Conn, p *Proxy)                   { w.p = p }
func (w *waiter) wait() *buffer                               { return w.p.getBuffer() }
func (w *waiter) found([]byte) (n int, err error, found bool) { return 0, nil, false }
func (w *waiter) parks() bool                                 { return false }
func (w *waiter) idle() bool                                  { return true }
