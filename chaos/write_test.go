package chaos

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const requestText = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"

func TestARequestIsCutAtEveryByte(t *testing.T) {
	for _, kind := range []Kind{RST, FIN} {
		for n := range len(requestText) {
			synctest.Test(t, func(t *testing.T) { checkRequest(t, kind, n) })
		}
	}
}

func checkRequest(t *testing.T, kind Kind, n int) {
	l, server := pair(t)
	var told []Injection
	v := victim(Planned{Kind: kind, Place: Request, Offset: (float64(n) + 0.5) / float64(len(requestText))})
	l.Begin(Exchange{Victim: v, OnInjection: func(in *Injection) { told = append(told, *in) }})
	wrote, err := io.WriteString(l, requestText)
	wantWrite, wantRead, peer := error(syscall.EPIPE), io.EOF, error(nil)
	if kind == RST {
		wantWrite, wantRead, peer = syscall.ECONNRESET, syscall.ECONNRESET, syscall.ECONNRESET
	}
	if wrote != n || !errors.Is(err, wantWrite) {
		t.Fatalf("%s: wrote %d, %v, want %d", kind, wrote, err, n)
	}
	want := Injection{Kind: kind, Place: Request, Link: 3, Offset: uint32(n), Ends: true}
	if len(told) != 1 || told[0] != want || v.Left() != 0 {
		t.Fatalf("told %+v, want %+v", told, want)
	}
	if _, err := l.Read(make([]byte, 9)); !errors.Is(err, wantRead) {
		t.Fatalf("%s: read: %v", kind, err)
	}
	got, err := io.ReadAll(server)
	if kind == FIN && string(got) != requestText[:n] || !errors.Is(err, peer) {
		t.Fatalf("%s: the target got %q, %v, want %d bytes", kind, got, err, n)
	}
	if l.End() {
		t.Fatal("the link may be used again")
	}
}

func TestOnlyTheRequestOfACallIsCut(t *testing.T) {
	for name, ex := range map[string]Exchange{"resume": {Resume: true, Attempt: 1}, "handshake": {Session: true}, "GET stream": {Get: true}} {
		l := NewLink(&scripted{}, 1)
		ex.Victim = victim(Planned{Kind: RST, Place: Request})
		l.Begin(ex)
		if n, err := io.WriteString(l, requestText); n != len(requestText) || err != nil || ex.Victim.Left() != 1 {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
	}
}

// resumeWrites begins a resume with the fault and writes its request.
func resumeWrites(t *testing.T, f Planned) (l *Link, server net.Conn, v *Victim, told *[]Injection, err error) {
	t.Helper()
	l, server = pair(t)
	v, told = victim(f), new([]Injection)
	l.Begin(Exchange{Attempt: 2, Resume: true, Delivered: 3, Victim: v, OnInjection: func(in *Injection) { *told = append(*told, *in) }})
	_, err = io.WriteString(l, requestText)
	return l, server, v, told, err
}

func TestARefusedResumeNeverLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server, v, told, err := resumeWrites(t, Planned{Kind: Refuse, Place: ResumeBeforeHeaders, After: 3})
		want := Injection{Kind: Refuse, Place: ResumeBeforeHeaders, Link: 3, Attempt: 2, AfterID: true, Ends: true}
		if !errors.Is(err, syscall.ECONNREFUSED) || len(*told) != 1 || (*told)[0] != want || v.Left() != 0 {
			t.Fatalf("%v, told %+v, want %+v", err, *told, want)
		}
		if _, err := l.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNREFUSED) || l.End() {
			t.Fatalf("read: %v", err)
		}
		if got, err := io.ReadAll(server); len(got) > 0 || err != nil {
			t.Fatalf("the target got %q, %v", got, err)
		}
	})
}

func TestAMadeUpAnswerReplacesTheTargets(t *testing.T) {
	cases := []struct {
		code  int
		after time.Duration
		want  string
		no    string
	}{
		{0, 0, "HTTP/1.1 503 Service Unavailable\r\n", "Retry-After"},
		{503, 1500 * time.Millisecond, "\r\nRetry-After: 2\r\n", "Retry-After: 1"},
		{429, 3 * time.Second, "HTTP/1.1 429 Too Many Requests\r\n", "Retry-After: 4"},
		{502, 3 * time.Second, "HTTP/1.1 502 Bad Gateway\r\n", "Retry-After"},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			f := Planned{Kind: Status, Place: ResumeBeforeHeaders, Code: c.code, For: c.after}
			l, server, v, told, err := resumeWrites(t, f)
			if n, err2 := io.WriteString(l, "more of the body"); err != nil || err2 != nil || n != 16 || len(*told) != 0 {
				t.Fatalf("wrote %d, %v, %v, told %+v", n, err, err2, *told)
			}
			got, err := readAll(l)
			if !strings.Contains(got, c.want) || strings.Contains(got, c.no) || !strings.HasSuffix(got, "made up by gapless\n") || err != io.EOF {
				t.Fatalf("%d: answered %q, %v", c.code, got, err)
			}
			if len(*told) != 1 || !(*told)[0].Ends || (*told)[0].For != c.after || v.Left() != 0 || l.End() {
				t.Fatalf("told %+v", *told)
			}
			if got, err := io.ReadAll(server); len(got) > 0 || err != nil {
				t.Fatalf("the target got %q, %v", got, err)
			}
		})
	}
}

func TestAResumeThatComesTooEarlyIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, v, told, err := resumeWrites(t, Planned{Kind: Refuse, Place: ResumeBeforeHeaders, After: 4})
		if err != nil || len(*told) != 0 || v.Left() != 1 {
			t.Fatalf("%v, told %+v", err, *told)
		}
	})
}

// A window that opens while the request is under way is too late to refuse it.
func TestARequestThatHasLeftIsNotRefused(t *testing.T) {
	cfg := full(1)
	cfg.Start = time.Second
	now := time.Duration(0)
	l := NewLink(&scripted{rest: missedHead(0) + lastChunk, piece: 99, end: io.EOF}, 1)
	NewNemesis(mustPlan(t, cfg), func() time.Duration { return now }).Add(l)
	v := victim(Planned{Kind: Refuse, Place: ResumeBeforeHeaders}, Planned{Kind: RST, Place: AtLive})
	l.Begin(Exchange{Resume: true, Victim: v})
	if _, err := io.WriteString(l, requestText); err != nil {
		t.Fatal(err)
	}
	now = time.Second
	if got, err := readAll(l); got != missedHead(0)+lastChunk || v.Left() != 2 {
		t.Fatalf("%q, %v", got, err)
	}
}
