package streams

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/auth"
)

// webSocket makes a WebSocket of a request. A text message of it is a JSON-RPC message.
func (s *Server) webSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{"mcp"},
		InsecureSkipVerify: true, // the origin was checked, by the rules for POST
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return // it is answered
	}
	conn.SetReadLimit(s.cfg.Limits.Message)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	ws := &socket{conn: conn, ctx: ctx, cancel: cancel, timeout: s.cfg.WriteTimeout}
	pinging := make(chan struct{})
	go func() {
		defer close(pinging)
		ws.ping(s.cfg.Ping)
	}()
	s.serveLink(ws, transportWebSocket, principalOf(r), r.Header, auth.TokenInfoFromContext(r.Context()))
	cancel()
	<-pinging
	_ = conn.CloseNow()
}

// socket is a WebSocket as a wire.
type socket struct {
	conn    *websocket.Conn
	ctx     context.Context
	cancel  context.CancelFunc
	timeout time.Duration
}

var errNotText = errors.New("a message is not text")

func (ws *socket) read() ([]byte, error) {
	t, text, err := ws.conn.Read(ws.ctx)
	if err != nil {
		return nil, err
	}
	if t != websocket.MessageText {
		_ = ws.conn.Close(websocket.StatusUnsupportedData, "messages are text")
		return nil, errNotText
	}
	return text, nil
}

func (ws *socket) write(text []byte) error {
	ctx, cancel := context.WithTimeout(ws.ctx, ws.timeout)
	defer cancel()
	return ws.conn.Write(ctx, websocket.MessageText, text)
}

// close says goodbye without waiting for the answer: the client reads what was sent
// before, and then that it was the server that left.
func (ws *socket) close(reason string) {
	if reason == "" {
		ws.cancel()
		_ = ws.conn.CloseNow()
		return
	}
	_ = ws.conn.Close(websocket.StatusGoingAway, reason)
	ws.cancel()
}

// ping ends the connection when its client does not answer.
func (ws *socket) ping(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ws.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(ws.ctx, every)
		err := ws.conn.Ping(ctx)
		cancel()
		if err != nil {
			ws.cancel()
			_ = ws.conn.CloseNow()
			return
		}
	}
}
