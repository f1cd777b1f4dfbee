package endpoint

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// answering gives each connection to a function and closes it afterwards.
func answering(l net.Listener, do func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			do(c)
		}()
	}
}

func TestPlainHTTPWhereTLSIsAskedFor(t *testing.T) {
	const refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
	for name, do := range map[string]func(net.Conn){
		"answers at once": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1)) // what follows is all the same
			_, _ = c.Write([]byte(refusal))
		},
		"waits for the end of a head": func(c net.Conn) {
			var head []byte
			for r := bufio.NewReader(c); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
				b, err := r.ReadByte()
				if err != nil {
					return
				}
				head = append(head, b)
			}
			_, _ = c.Write([]byte(refusal))
		},
		"hangs up": func(c net.Conn) {
			first := make([]byte, 4096)
			if n, _ := c.Read(first); bytes.HasPrefix(first[:n], []byte("OPTIONS * HTTP/1.1\r\nHost: ")) {
				_, _ = c.Write([]byte(refusal))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			go answering(l, do) // ends with the listener
			addr := l.Addr().String()
			for _, version := range []string{"auto", "2"} {
				e := made(t, Config{URL: "https://" + addr + "/mcp?token=hush-hush", HTTP: version, Timeout: 300 * time.Millisecond})
				for range 2 {
					_, err := e.Dial(t.Context())
					refused(t, err, "https://"+addr+"/mcp", "it speaks plain HTTP there: http://"+addr+"/mcp")
				}
			}
		})
	}
}

// TestWhoSpeaksTLSIsNotAskedInPlain: a handshake that fails later says nothing about it.
func TestWhoSpeaksTLSIsNotAskedInPlain(t *testing.T) {
	a := newAuthority(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	serve(t, l, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: one(a.pair(nil))})
	e := made(t, Config{URL: "https://" + l.Addr().String(), TLS: TLS{CA: a.file}})
	dial(t, e)
	if !e.shaken.Load() {
		t.Error("the handshake is not kept in mind")
	}
}

func TestTLSWherePlainHTTPIsAskedFor(t *testing.T) {
	alerting, closing := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	go answering(alerting, func(c net.Conn) { // ends with the listener
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte{21, 3, 1, 0, 2, 2, 70})
	})
	go shake(tls.NewListener(closing, one(newAuthority(t).pair(nil))))
	for name, l := range map[string]net.Listener{"an alert": alerting, "no word": closing} {
		t.Run(name, func(t *testing.T) {
			addr := l.Addr().String()
			e := made(t, Config{URL: "http://" + addr + "/mcp?token=hush-hush"})
			for range 2 {
				_, err := wire.NewConn(dial(t, e), wire.Limits{}).RoundTrip(request(e, "POST", "{}"))
				refused(t, err, "it speaks TLS there: https://"+addr+"/mcp")
			}
		})
	}
}

// TestAnEndWithoutAWord is told as it was where nobody speaks TLS.
func TestAnEndWithoutAWord(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	go answering(l, func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }) // ends with the listener
	e := made(t, Config{URL: "http://" + l.Addr().String()})
	if _, err := wire.NewConn(dial(t, e), wire.Limits{}).RoundTrip(request(e, "POST", "{}")); err != io.EOF {
		t.Error(err)
	}
}

// TestPlainLinksAreLookedAtOnce: behind the first answer the link is the connection itself.
func TestPlainLinksAreLookedAtOnce(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	serve(t, l, &http.Server{Handler: http.HandlerFunc(says)})
	e := made(t, Config{URL: "http://" + l.Addr().String()})
	first := dial(t, e)
	exchange(t, e, wire.NewConn(first, wire.Limits{}))
	if _, is := innermost(first).(*net.TCPConn); !is {
		t.Errorf("below it is a %T", innermost(first))
	}
	if second, is := dial(t, e).(*net.TCPConn); !is {
		t.Errorf("the second is a %T", second)
	}
}

func TestTheOtherScheme(t *testing.T) {
	for url, want := range map[string]string{
		"https://h":                   "http://h:443",
		"https://h/mcp?a=1":           "http://h:443/mcp?a=1",
		"https://h:8443?a=1":          "http://h:8443?a=1",
		"https://[::1]/mcp":           "http://[::1]:443/mcp",
		"https://[::1]:9/mcp?token=x": "http://[::1]:9/mcp?token=…",
	} {
		target, err := parseTarget(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.as("http"); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
