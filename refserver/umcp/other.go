package umcp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// recorder is the response of the handler of other paths.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// other serves what is not for the MCP endpoint.
func (s *Server) other(r *request, body []byte) (a *answer) {
	w := &recorder{header: make(http.Header)}
	defer func() {
		if v := recover(); v != nil { // as net/http does
			if v != http.ErrAbortHandler {
				s.cfg.Logger.Error("the handler of other paths panicked", "error", fmt.Sprint(v))
			}
			a = refuse(http.StatusInternalServerError, "internal error")
		}
	}()
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.cfg.Other.ServeHTTP(w, r.Request)
	w.WriteHeader(http.StatusOK)
	for _, name := range []string{"Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "Date", "Trailer", "Upgrade"} {
		w.header.Del(name) // framing is ours
	}
	if w.body.Len() > 0 && w.header.Get("Content-Type") == "" {
		w.header.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	return &answer{status: w.status, header: w.header, body: w.body.Bytes()}
}
