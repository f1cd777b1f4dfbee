package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// limiting answers so many requests with a head, and then as it should.
func limiting(times int, head string, asked *int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { // ends with the link
			defer far.Close()
			r, err := http.ReadRequest(bufio.NewReader(far))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body) // a body that breaks off is no matter
			*asked++
			text := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`
			if *asked <= times {
				text = head + "Content-Length: 4\r\n\r\nslow"
			}
			_, _ = io.WriteString(far, text) // seen at the other end
		}()
		return near, nil
	}
}

func TestAServerThatLimitsTheRateIsAskedAgain(t *testing.T) {
	const date = "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\nRetry-After: Tue, 15 Nov 1994 08:12:41 GMT\r\n"
	for name, tt := range map[string]struct {
		times       int
		head        string
		patience    time.Duration
		deadline    time.Duration // of the caller; 0: none
		asked       int
		least, most time.Duration
		says        string
	}{
		"seconds":                {times: 2, head: "HTTP/1.1 429 X\r\nRetry-After: 3\r\n", patience: time.Minute, asked: 3, least: 6 * time.Second, most: 8 * time.Second},
		"a date":                 {times: 1, head: "HTTP/1.1 503 X\r\n" + date, patience: time.Minute, asked: 2, least: 10 * time.Second, most: 13 * time.Second},
		"no word":                {times: 2, head: "HTTP/1.1 429 X\r\n", patience: time.Minute, asked: 3, least: 750 * time.Millisecond, most: time.Second},
		"for ever":               {times: 99, head: "HTTP/1.1 429 X\r\nRetry-After: 0\r\n", patience: time.Minute, asked: 6, least: 7 * time.Second, most: 10 * time.Second, says: "limits the rate: 429 to 6 tries"},
		"longer than patience":   {times: 1, head: "HTTP/1.1 503 X\r\nRetry-After: 90\r\n", patience: time.Minute, asked: 1, says: "limits the rate: 503, come back after 1m30s"},
		"longer than the caller": {times: 1, head: "HTTP/1.1 429 X\r\nRetry-After: 5\r\n", patience: time.Minute, deadline: 4 * time.Second, asked: 1, says: "come back after 5s"},
		"no patience":            {times: 1, head: "HTTP/1.1 429 X\r\nRetry-After: 5\r\n", asked: 1, says: "status 429"},
		"nonsense":               {times: 1, head: "HTTP/1.1 429 X\r\nRetry-After: soon\r\n", patience: time.Minute, asked: 2, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := client.New(client.Config{URL: "http://h/mcp", Dial: limiting(tt.times, tt.head, &asked), Patience: tt.patience})
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				began := time.Now()
				_, err := c.Unasked("2025-11-25").Call(ctx, "ping", nil)
				took := time.Since(began)
				if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), "ping: ") || !strings.Contains(err.Error(), tt.says)) {
					t.Errorf("error %v, want %q", err, tt.says)
				}
				if asked != tt.asked || took < tt.least || took > tt.most {
					t.Errorf("asked %d times in %v, want %d in %v to %v", asked, took, tt.asked, tt.least, tt.most)
				}
			})
		})
	}
}

// TestTheWaitIsToldApart: what is measured of an answer begins with the try that it answers.
func TestTheWaitIsToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := client.New(client.Config{URL: "http://h/mcp", Dial: limiting(1, "HTTP/1.1 429 X\r\nRetry-After: 3\r\n", &asked), Patience: time.Minute})
		began := time.Now()
		a, err := c.Open(t.Context(), client.Request{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if wait := a.Sent.Sub(began); wait < 3*time.Second || a.Waited != wait || a.Status != 200 {
			t.Errorf("sent after %v, waited %v, status %d", wait, a.Waited, a.Status)
		}
		ctx, cancel := context.WithCancel(t.Context())
		asked = 0
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Open(ctx, client.Request{}); !errors.Is(err, context.Canceled) || time.Since(a.Sent) > time.Second {
			t.Errorf("%v after %v", err, time.Since(a.Sent))
		}
	})
}

func TestPlainHTTPWhereTLSIsSpoken(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	_, err := client.New(client.Config{URL: "http://" + web.Listener.Addr().String()}).Initialize(t.Context(), "2025-11-25")
	if want := "initialize: status 400: it speaks TLS there: https:// instead of http://?"; fmt.Sprint(err) != want {
		t.Errorf("%v", err)
	}
}
