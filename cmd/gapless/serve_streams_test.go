package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const declaresStreams = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"streams":{}},"clientInfo":{"name":"t","version":"1"}}}`

// pipes is serve --stdio in this process.
type pipes struct {
	t     *testing.T
	stdin *io.PipeWriter
	out   *bufio.Reader
	code  chan int
	errs  *strings.Builder
}

func onPipes(t *testing.T, args ...string) *pipes {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &pipes{t: t, stdin: stdin, out: bufio.NewReader(stdout), code: make(chan int, 1), errs: new(strings.Builder)}
	go func() {
		p.code <- run(append([]string{"serve", "--stdio"}, args...), in, out, p.errs)
		out.Close()
		in.Close()
	}()
	t.Cleanup(func() { stdin.Close() })
	return p
}

func (p *pipes) send(line string) *pipes {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
	return p
}

func (p *pipes) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// until reads up to a line with a text in it, and returns all.
func (p *pipes) until(text string) []string {
	p.t.Helper()
	for all := []string{}; ; {
		all = append(all, p.line())
		if strings.Contains(all[len(all)-1], text) {
			return all
		}
	}
}

// ask fills the names of a stream into a request.
func ask(method, create string) string {
	var m struct {
		Params struct {
			Stream struct{ StreamID, ResumeToken string }
		}
	}
	_ = json.Unmarshal([]byte(create), &m)
	return `{"jsonrpc":"2.0","id":"r","method":"` + method + `","params":{"streamId":"` + m.Params.Stream.StreamID + `","resumeToken":"` + m.Params.Stream.ResumeToken + `"}}`
}

const emitTen = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":{"messages":10,"interval_ms":30},"_meta":{"progressToken":"t"}}}`

// The pipe is killed, and a new relay resumes: the server outlives both. When it goes too,
// poll is answered with an error.
func TestSeed000_ARelayIsKilledAndANewOneResumes(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	said := served(t, 2, "--dialect", "streams", "--transport", "stdio", "--http", "127.0.0.1:0", "--addr", socket)
	if said[0] != socket {
		t.Errorf("the first line is %q, want %q", said[0], socket)
	}
	first := onPipes(t, "--upstream", socket)
	first.send(declaresStreams).until(`"id":0`)
	create := first.send(emitTen).line()
	if !strings.Contains(create, "notifications/stream/create") {
		t.Fatalf("no create: %s", create)
	}
	first.until(`"progress":3`)
	first.stdin.Close()
	if code := <-first.code; code != 0 {
		t.Errorf("the relay ended with %d: %s", code, first.errs)
	}
	second := onPipes(t, "--upstream", said[0])
	second.send(declaresStreams).until(`"id":0`)
	all := strings.Join(second.send(ask("stream/resume", create)).until(`"id":"r"`), "\n")
	for _, want := range []string{`"progress":4`, `"progress":10`, `"id":1,"result"`, "notifications/stream/end", `"id":"r","result":{}`} {
		before, after, found := strings.Cut(all, want)
		if !found {
			t.Fatalf("no %s behind %q: %s", want, before, all)
		}
		all = after
	}
	second.stdin.Close()
	<-second.code

	third := onPipes(t) // a server of its own, which knows nothing
	third.send(declaresStreams).until(`"id":0`)
	for _, method := range []string{"stream/poll", "stream/resume"} {
		if answer := third.send(ask(method, create)).line(); !strings.Contains(answer, `"error":{"code":-32602`) {
			t.Errorf("%s: %s", method, answer)
		}
	}
	third.send(emitTen).line()
	third.until("stream/end")
	third.stdin.Close()
	if code := <-third.code; code != 0 {
		t.Errorf("it ended with %d: %s", code, third.errs)
	}
	if code := <-onPipes(t, "--upstream", socket+"-gone").code; code == 0 {
		t.Error("a relay to nowhere ends well")
	}
}

func TestServe_StreamsOnWebSocketAndHTTP(t *testing.T) {
	said := served(t, 2, "--dialect", "streams", "--transport", "ws", "--http", "127.0.0.1:0", "--resume-min", "100ms", "--resume-max", "1m")
	url, admin := said[0], strings.TrimPrefix(said[1], "admin ")
	if !regexp.MustCompile(`^ws://127\.0\.0\.1:\d+/mcp/ws$`).MatchString(url) {
		t.Fatalf("the first line is %q", url)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	exchange := func(line, last string) (all string) {
		t.Helper()
		if err := conn.Write(ctx, websocket.MessageText, []byte(line)); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(all, last) {
			_, text, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("%v after %s", err, all)
			}
			all += string(text) + "\n"
		}
		return all
	}
	exchange(declaresStreams, `"id":0`)
	all := exchange(emitTen, "stream/end")
	if !strings.Contains(all, `"resumeInterval":{"min":0.1,"max":60}`) || !strings.Contains(all, "emitted 10") {
		t.Errorf("it says %s", all)
	}
	resp, err := http.Post(admin+"/ledger/take", "application/json", strings.NewReader(`{"calls":["t"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), `"emitted":10,"executions":1,"responses":1`) {
		t.Errorf("ledger: %s", text)
	}
	base := strings.TrimSuffix(strings.Replace(url, "ws://", "http://", 1), "/mcp/ws")
	for path, want := range map[string]int{"/healthz": 200, "/mcp": 405, "/other": 404} {
		resp, err := http.Get(base + path)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
}

func TestServe_StreamsSaysWhatItCannotDo(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a store":                {[]string{"--dialect", "streams", "--store", "memory"}, `--store memory: dialect streams has buffers`},
		"a defect":               {[]string{"--dialect", "streams", "--defect", "S03a"}, `--defect: dialect streams`},
		"another transport":      {[]string{"--dialect", "streams", "--transport", "tea"}, `--transport tea: it is http, ws or stdio`},
		"no time":                {[]string{"--dialect", "streams", "--resume-max", "0s"}, `--resume-max 0s`},
		"min above max":          {[]string{"--dialect", "streams", "--resume-max", "1s"}, `clients are to wait 5s and may wait no longer than 1s`},
		"lines on a port":        {[]string{"--dialect", "streams", "--transport", "stdio"}, `--transport stdio: lines are served on a Unix socket`},
		"lines with tokens":      {[]string{"--dialect", "streams", "--transport", "stdio", "--addr", "unix:x", "--tokens", "x"}, `--tokens: --transport stdio`},
		"flat elsewhere":         {[]string{"--flat"}, `--flat: it belongs to dialect streams`},
		"upstream elsewhere":     {[]string{"--upstream", "unix:x"}, `--upstream: it belongs to dialect streams`},
		"stdio of another":       {[]string{"--stdio", "--dialect", "umcp"}, `--stdio: it belongs to dialect streams`},
		"stdio that listens":     {[]string{"--stdio", "--http", "127.0.0.1:0"}, `--http: --stdio listens nowhere`},
		"stdio with tokens":      {[]string{"--stdio", "--tokens", "x"}, `--tokens: --stdio listens nowhere`},
		"upstream that is none":  {[]string{"--stdio", "--upstream", "http://x"}, `--upstream http://x: it is unix:PATH`},
		"relay with an interval": {[]string{"--stdio", "--upstream", "unix:x", "--resume-max", "1m"}, `--resume-max: it is for the server behind`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(append([]string{"serve"}, tc.args...), strings.NewReader(""), &stdout, &stderr)
			if code != exitUsage || !regexp.MustCompile(tc.want).MatchString(stderr.String()) || stdout.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
		})
	}
}
