package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/refserver"
)

// drip writes a text, then one byte a second until the link ends, and returns how long
// it lived.
func (a *attacker) drip(text, with string) (time.Duration, error) {
	begun := time.Now()
	conn, err := a.send(text)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // ends with the link
		close(ended)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return time.Since(begun), nil
		case <-tick.C:
			_, _ = io.WriteString(conn, with) // its failure shows in the reader
		}
		if time.Since(begun) > time.Hour {
			return 0, errors.New("a dripping client was served for an hour")
		}
	}
}

func dripping(text, with string, most time.Duration) func(*attacker) error {
	return func(a *attacker) error {
		return together(100, func(int) error {
			lived, err := a.drip(text, with)
			if err == nil && lived > most {
				err = fmt.Errorf("lived for %s", lived)
			}
			return err
		})
	}
}

const postHead = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Type: application/json\r\n"

func slowAttacks() []attack {
	return []attack{
		{name: "headers, a byte a second", run: dripping("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", "x", 11*time.Second)},
		{name: "a header line a second", run: dripping("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n", "X: y\r\n", 11*time.Second)},
		{name: "body, a byte a second", run: dripping(postHead+"Content-Length: 1000\r\n\r\n", " ", 40*time.Second)},
		{name: "body of a batch, a byte a second", run: dripping(postHead+"Content-Length: 1000\r\n\r\n[", " ", 40*time.Second)},
		{name: "chunks, one a second", run: dripping(postHead+"Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", 40*time.Second)},
		{name: "body of a refused request, a byte a second", run: dripping("POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n", " ", 40*time.Second)},
		{name: "body of a GET, a byte a second", run: dripping("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n", " ", 40*time.Second)},
		{name: "nothing at all", run: func(a *attacker) error {
			return together(300, func(int) error {
				conn, err := a.send("")
				if err == nil {
					_, err = ends(conn, 3*time.Minute)
				}
				return err
			})
		}},
		{name: "links that idle after a request", run: func(a *attacker) error {
			return together(100, func(int) error {
				conn, err := a.send("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
				if err == nil {
					_, err = ends(conn, 3*time.Minute)
				}
				return err
			})
		}},
		{name: "garbage instead of HTTP", run: garbage},
		{name: "floods of header lines", run: headerFloods},
	}
}

func garbage(a *attacker) error {
	random := make([]byte, 5000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	texts := []string{
		string(random), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(random), strings.Repeat("\x00", 70_000), "\r\n\r\n\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /mcp HTTP/1.1\r\n\r\n", "GET /mcp HTTP/9.9\r\nHost: a\r\n\r\n", "GET /mcp\r\n\r\n", postHead + "Content-Length: -1\r\n\r\n", postHead + "Content-Length: 1e3\r\n\r\n",
		postHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", postHead + "Content-Length: 99999999999999999999\r\n\r\n",
		postHead + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", postHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", postHead + "Transfer-Encoding: gzip\r\n\r\n",
		postHead + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n-1\r\n", "GET /mcp HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", "GET /mcp HTTP/1.1\r\nHost: a\r\nX\x00: x\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET http://evil.example/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	}
	return together(len(texts), func(i int) error {
		conn, err := a.send(texts[i])
		if err != nil {
			return err
		}
		status, err := ends(conn, 3*time.Minute)
		if strings.Contains(status, " 2") && !strings.HasPrefix(texts[i], "OPTIONS *") {
			err = fmt.Errorf("%.40q was answered with %s", texts[i], status)
		}
		return err
	})
}

func headerFloods(a *attacker) error {
	return together(50, func(i int) error {
		var head strings.Builder
		head.WriteString(postHead)
		switch i % 3 {
		case 0:
			for k := range 20_000 {
				fmt.Fprintf(&head, "X-%d: y\r\n", k)
			}
		case 1:
			head.WriteString("X: " + strings.Repeat("y", 1<<20) + "\r\n")
		case 2:
			head.WriteString(strings.Repeat("Cookie: a=b\r\n", 500))
		}
		head.WriteString("Content-Length: 2\r\n\r\n{}")
		conn, err := a.send(head.String())
		if err != nil {
			return err
		}
		status, err := ends(conn, 3*time.Minute)
		if status != "" && !strings.Contains(status, "431") {
			err = fmt.Errorf("a flood of headers was answered with %q", status)
		}
		return err
	})
}

func bodyAttacks() []attack {
	nested := func(open, shut string, n int) string { return strings.Repeat(open, n) + "0" + strings.Repeat(shut, n) }
	call := func(args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":` + args + `}}`
	}
	return []attack{
		{name: "bodies too large", run: func(a *attacker) error {
			return errors.Join(
				a.wants("announced", ask{method: "POST", body: strings.Repeat(" ", 5<<20)}, 413),
				a.wants("as large as may be", ask{method: "POST", body: strings.Repeat(" ", 4<<20)}, 400),
				a.endless(),
			)
		}},
		{name: "bodies that together are too large", cfg: refserver.Config{Limits: refserver.Limits{Body: 1 << 20, Bodies: 5 << 20}}, run: manyLarge},
		{name: "deeply nested JSON", run: func(a *attacker) error {
			own, err := a.session(latest)
			for _, n := range []int{5_000, 9_990, 20_000, 500_000} {
				err = errors.Join(err,
					a.wants("arrays", ask{method: "POST", session: own, body: nested("[", "]", n)}, 400),
					a.wants("objects", ask{method: "POST", session: own, body: nested(`{"a":`, "}", n)}, 400),
					a.wants("arguments", ask{method: "POST", session: own, body: call(nested("[", "]", n))}, 200, 400),
					a.wants("an id", ask{method: "POST", session: own, body: `{"jsonrpc":"2.0","method":"ping","id":` + nested("[", "]", n) + "}"}, 400),
					a.wants("unclosed", ask{method: "POST", session: own, body: strings.Repeat("[", n)}, 400),
				)
			}
			return err
		}},
		{name: "batches of too many", run: batchBombs},
		{name: "games with request ids", run: idGames},
		{name: "arguments beyond all bounds", run: func(a *attacker) error {
			own, err := a.session(latest)
			for _, args := range []string{`{"messages":1e300}`, `{"messages":-1}`, `{"messages":1,"bytes":9000000000000000000}`, `{"messages":1.5}`, `{"messages":2,"interval_ms":1e308}`, `{"messages":[]}`, `[]`, `null`} {
				err = errors.Join(err, a.wants(args, ask{method: "POST", session: own, body: call(args)}, 200, 400))
				err = errors.Join(err, a.wants("then", ask{method: "POST", session: own, body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}, 202))
			}
			return err
		}},
	}
}

// endless sends chunks for as long as they are taken.
func (a *attacker) endless() error {
	conn, err := a.send(postHead + "Transfer-Encoding: chunked\r\n\r\n")
	if err != nil {
		return err
	}
	chunk := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
	sent := 0
	for ; sent < 32<<20; sent += 1 << 16 {
		if _, err := io.WriteString(conn, chunk); err != nil {
			break
		}
	}
	if sent >= 32<<20 {
		err = fmt.Errorf("%d bytes of one body were taken", sent)
	}
	_, late := ends(conn, time.Minute)
	return errors.Join(err, late)
}

// manyLarge holds large bodies back at their last byte: a few are waited for, the others
// are refused, and small ones go through.
func manyLarge(a *attacker) error {
	const size = 1 << 20
	body := strings.Repeat(" ", size-1)
	var refused atomic.Int32
	err := together(20, func(int) error {
		conn, err := a.send(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead, size, body))
		if err != nil {
			return err
		}
		status, err := ends(conn, 40*time.Second)
		if strings.Contains(status, "503") {
			refused.Add(1)
		} else if status != "" && !strings.Contains(status, "400") {
			err = fmt.Errorf("a body that was held back was answered with %q", status)
		}
		return err
	})
	if n := refused.Load(); n == 0 || n > 15 { // there is room for five of the twenty; a refusal may be lost to the reset
		err = errors.Join(err, fmt.Errorf("%d bodies of 1 MiB were refused where 5 MiB have room", n))
	}
	return errors.Join(err, a.wants("afterwards", ask{method: "POST", body: body}, 400))
}

func batchBombs(a *attacker) error {
	own, err := a.session("2025-03-26")
	if err != nil {
		return err
	}
	pings := func(n int, id func(int) int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id(i))
		}
		return "[" + b.String()[1:] + "]"
	}
	count := func(i int) int { return i }
	return errors.Join(
		a.wants("too many", ask{method: "POST", session: own, body: pings(50_000, count)}, 400),
		a.wants("as many as may be", ask{method: "POST", session: own, body: pings(1000, count)}, 200),
		a.wants("all of one id", ask{method: "POST", session: own, body: pings(1000, func(int) int { return 1 })}, 400),
		a.wants("nothing", ask{method: "POST", session: own, body: "[]"}, 400),
		a.wants("nothing, often", ask{method: "POST", session: own, body: "[" + strings.Repeat("[],", 100_000) + "[]]"}, 400),
		a.wants("commas", ask{method: "POST", session: own, body: "[" + strings.Repeat(",", 100_000) + "]"}, 400),
		a.wants("a handshake inside", ask{method: "POST", session: own, body: "[" + initBody(latest) + "]"}, 400),
		together(20, func(i int) error {
			return a.wants("at once", ask{method: "POST", session: own, body: pings(500, func(k int) int { return 10_000 + 500*i + k })}, 200)
		}),
	)
}

func idGames(a *attacker) error {
	own, err := a.session(latest)
	if err != nil {
		return err
	}
	for id, want := range map[string]int{
		"null": 400, "1.5": 400, "true": 400, "{}": 400, "[]": 400, "1e400": 400, "-0.1": 400, "9007199254740993": 400, "99999999999999999999": 400, "01": 400, "": 400,
		"-1": 200, "0": 200, "9007199254740992": 400, "9007199254740991": 200, `""`: 200, `"1"`: 200, `"\u0000"`: 200, `"\n\r"`: 200, `"` + strings.Repeat("x", 1<<20) + `"`: 200, `"\ud800"`: 200,
	} {
		err = errors.Join(err, a.wants(fmt.Sprintf("id %.30s", id), ask{method: "POST", session: own, body: `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`}, want))
		err = errors.Join(err, a.wants(fmt.Sprintf("answer %.30s", id), ask{method: "POST", session: own, body: `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`}, 202, 400))
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"emit","arguments":{"messages":2,"interval_ms":5000},"_meta":{"progressToken":"d"}}}`
	conn, failed := a.send(fmt.Sprintf("%sMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", postHead, own, len(body), body))
	if failed != nil {
		return failed
	}
	if _, failed := conn.Read(make([]byte, 1)); failed != nil {
		return failed
	}
	err = errors.Join(err, together(50, func(int) error {
		return a.wants("an id that is in flight", ask{method: "POST", session: own, body: body}, 400)
	}))
	if status, late := ends(conn, time.Minute); late != nil {
		err = errors.Join(err, fmt.Errorf("the call in flight: %s %w", status, late))
	}
	return err
}

func sessionAttacks() []attack {
	return []attack{
		{name: "guesses of session ids", run: guesses},
		{name: "handshakes without end", cfg: refserver.Config{Limits: refserver.Limits{Sessions: 100, Idle: 5 * time.Minute}}, run: func(a *attacker) error {
			taken := 0
			for range 1000 {
				code, err := a.status(ask{method: "POST", body: initBody(latest)})
				if err != nil {
					return err
				}
				switch code {
				case 200:
					taken++
				case 503:
				default:
					return fmt.Errorf("a handshake was answered with %d", code)
				}
			}
			if taken != 99 { // one is of the client that behaves well
				return fmt.Errorf("%d sessions were opened", taken)
			}
			pass(6 * time.Minute)
			return a.wants("when they have idled away", ask{method: "POST", body: initBody(latest)}, 200)
		}},
		{name: "sessions opened and deleted", run: func(a *attacker) error {
			return together(10, func(int) error {
				for range 20 {
					own, err := a.session(latest)
					if err != nil {
						return err
					}
					err = errors.Join(
						a.wants("a call", ask{method: "POST", session: own, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":{"messages":50,"interval_ms":10},"_meta":{"progressToken":"d"}}}`}, 200),
						a.wants("delete", ask{method: "DELETE", session: own}, 204),
						a.wants("delete again", ask{method: "DELETE", session: own}, 404),
						a.wants("resume", ask{method: "GET", session: own, cursor: "x-1"}, 404),
					)
					if err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{name: "handshakes cut in the middle", run: func(a *attacker) error {
			return together(200, func(i int) error {
				body := initBody(latest)
				text := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead, len(body), body)
				conn, err := a.send(text[:len(text)-i%20])
				if err == nil {
					conn.Close()
				}
				return err
			})
		}},
	}
}

// guesses tries what an id might be. Nothing that is tried leaves a trace.
func guesses(a *attacker) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	before := leftovers(a.rig)
	err := together(10, func(i int) error {
		for range 300 {
			id := make([]byte, 26)
			for k := range id {
				id[k] = letters[rand.IntN(len(letters))]
			}
			q := ask{method: []string{"POST", "GET", "DELETE", "GET"}[i%4], body: ping, session: string(id)}
			if i%4 == 3 {
				q.cursor = string(id) + "-1"
			}
			if err := a.wants("a guess", q, 404); err != nil {
				return err
			}
		}
		return nil
	})
	if after := leftovers(a.rig); !strings.Contains(after, "gapless_server_sessions 1") {
		err = errors.Join(err, fmt.Errorf("from %s to %s", before, after))
	}
	for _, id := range []string{"get", "1", "*", "%00", strings.Repeat("x", 20_000), "' OR 1=1", "../../x"} {
		err = errors.Join(err, a.wants(fmt.Sprintf("%.20s", id), ask{method: "POST", body: ping, session: id}, 404))
	}
	return err
}

func streamAttacks() []attack {
	return []attack{
		{name: "takeovers of one stream", run: func(a *attacker) error { return a.storm(200) }},
		{name: "conflicts on one stream", cfg: refserver.Config{OnConflict: refserver.Refuse}, run: func(a *attacker) error { return a.storm(200, 409) }},
		{name: "standalone streams", run: func(a *attacker) error {
			own, err := a.session(latest)
			if err != nil {
				return err
			}
			return together(50, func(int) error {
				for range 10 {
					if err := a.wants("a GET", ask{method: "GET", session: own}, 200, 409); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{name: "streams that nobody reads", run: func(a *attacker) error {
			own, err := a.session(latest)
			if err != nil {
				return err
			}
			return together(15, func(i int) error {
				conn, err := a.call(own, i, `{"messages":5000,"bytes":2000}`)
				if err != nil {
					return err
				}
				defer conn.Close()
				pass(2 * time.Minute)
				return nil
			})
		}},
	}
}

// callAttacks are about what a client sends, or does not send, during a call.
func callAttacks() []attack {
	return []attack{
		{name: "requests of the server that nobody answers", run: func(a *attacker) error {
			own, err := a.session(latest)
			if err != nil {
				return err
			}
			return together(30, func(i int) error {
				conn, err := a.call(own, i, `{"messages":10,"requests":5}`)
				if err != nil {
					return err
				}
				_, err = ends(conn, 2*time.Minute)
				return err
			})
		}},
		{name: "bytes behind a request", run: func(a *attacker) error {
			own, err := a.session(latest)
			if err != nil {
				return err
			}
			return together(20, func(i int) error {
				conn, err := a.call(own, i, `{"messages":2,"interval_ms":600000}`)
				if err != nil {
					return err
				}
				sent, written := 0, 0
				for chunk := strings.Repeat("GET /mcp HTTP/1.1\r\n\r\n", 100); err == nil && sent < 8<<20; sent += written {
					written, err = io.WriteString(conn, chunk)
				}
				if err == nil {
					return errors.New("megabytes behind a request were taken")
				}
				return conn.Close()
			})
		}},
		{name: "cursors of all kinds", run: func(a *attacker) error {
			own, err := a.session(latest)
			if err != nil {
				return err
			}
			for _, cursor := range oddCursors() {
				if strings.TrimSpace(cursor) == "" {
					continue // HTTP takes it for nothing
				}
				err = errors.Join(err, a.wants(fmt.Sprintf("cursor %.30q", cursor), ask{method: "GET", session: own, cursor: cursor}, 400))
			}
			return err
		}},
	}
}

// call begins a call whose answer is not read.
func (a *attacker) call(session string, id int, args string) (net.Conn, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":{"progressToken":"h%d"}}}`, id, args, id)
	return a.send(fmt.Sprintf("%sMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", postHead, session, len(body), body))
}

// storm resumes one stream from many places at once; whoever comes last gets the rest.
func (a *attacker) storm(n int, alsoOK ...int) error {
	own, err := a.session(latest)
	if err != nil {
		return err
	}
	conn, err := a.call(own, 1, `{"messages":3,"interval_ms":60000}`)
	if err != nil {
		return err
	}
	defer conn.Close()
	head := make([]byte, 2000)
	got := 0
	for !strings.Contains(string(head[:got]), `"progress":1`) {
		n, err := conn.Read(head[got:])
		if err != nil {
			return err
		}
		got += n
	}
	_, after, _ := strings.Cut(string(head[:got]), "id: ")
	cursor, _, _ := strings.Cut(after, "\n")
	err = together(n, func(int) error {
		for range 5 {
			err := a.wants("a resume", ask{method: "GET", session: own, cursor: cursor}, append(alsoOK, 200)...)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) { // it was taken over at once
				return err
			}
		}
		return nil
	})
	conn.Close()
	pass(time.Second)
	return errors.Join(err, a.whole(own, cursor))
}

// whole resumes and wants all that is left of a call of three messages.
func (a *attacker) whole(session, cursor string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", a.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("Last-Event-ID", cursor)
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || strings.Count(string(text), `"progress":`) != 3 || strings.Count(string(text), `"result":`) != 1 {
		err = errors.Join(err, fmt.Errorf("after the storm: %d %s", resp.StatusCode, text))
	}
	return err
}
