package umcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// answer is a response with its whole body.
type answer struct {
	status int
	header http.Header // beside what each response has; may be nil
	body   []byte
	media  string // of the body; empty when header has it, or there is none
	close  bool   // the connection cannot go on
}

func (a *answer) with(name, value string) *answer {
	if a.header == nil {
		a.header = make(http.Header)
	}
	a.header.Set(name, value)
	return a
}

// failure is an answer with a JSON-RPC error that names no request.
func failure(status int, code int64, text string) *answer {
	body, err := json.Marshal(struct {
		JSONRPC string        `json:"jsonrpc"`
		ID      any           `json:"id"`
		Error   jsonrpc.Error `json:"error"`
	}{"2.0", nil, jsonrpc.Error{Code: code, Message: text}})
	if err != nil {
		panic(err) // strings and numbers can always be written
	}
	return result(status, body)
}

func refuse(status int, text string) *answer { return failure(status, -32000, text) }

func result(status int, body []byte) *answer {
	return &answer{status: status, body: body, media: "application/json"}
}

// bodiless tells which statuses have neither a body nor a Content-Length.
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// wire returns the bytes of an answer. A head alone answers HEAD.
func (a *answer) wire(connection http.Header, headOnly bool) []byte {
	var b bytes.Buffer
	writeHead(&b, a.status, a.header, connection)
	if a.media != "" {
		b.WriteString("Content-Type: " + a.media + "\r\n")
	}
	if !bodiless(a.status) {
		b.WriteString("Content-Length: " + strconv.Itoa(len(a.body)) + "\r\n")
	}
	b.WriteString("\r\n")
	if !headOnly && !bodiless(a.status) {
		b.Write(a.body)
	}
	return b.Bytes()
}

// writeHead writes a status line and headers, without the empty line behind them.
func writeHead(b *bytes.Buffer, status int, headers ...http.Header) {
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	b.WriteString("Date: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	for _, h := range headers {
		_ = h.Write(b) // a buffer takes all
	}
}
