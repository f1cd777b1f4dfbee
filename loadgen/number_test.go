package loadgen

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/twin"
)

// logged is a log message with an id, that carries a number, their count and a digest.
func logged(k, n int, text, sum string) string {
	return fmt.Sprintf("id: l%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":{\"n\":%d,\"of\":%d,\"text\":%q,\"sum\":%q}}}\n\n",
		k, k, n, text, sum)
}

// right is logged with a text and its digest.
func right(k, n int) string {
	text := fmt.Sprintf("line\t%d", k)
	return logged(k, n, text, fmt.Sprintf("sha256:%X", sha256.Sum256([]byte(text))))
}

// byLog is the numbering of logged.
var byLog = Numbering{
	Method: "notifications/message", Sequence: "/params/data/n", Total: "/params/data/of",
	Digest: "/params/data/sum", Payload: "/params/data/text",
}

// counts shows the messages of stream 1 as number/total and what their digest is.
func (r *recorder) counts() string {
	var all []string
	for _, rec := range r.kind(history.KindEvent) {
		switch e := rec.Event; e.Class {
		case history.ClassProgress, history.ClassNotification:
			all = append(all, fmt.Sprintf("%d/%d%c", e.Seq, e.Total, "-+!"[e.Digest]))
		case history.ClassResponse:
			all = append(all, "end")
		}
	}
	return strings.Join(all, " ")
}

// beginning notes with how many delivered messages each exchange of a stream begins.
type beginning struct {
	plain
	delivered *[]int
}

func (b beginning) Begin(x Exchange) {
	if x.Observer != nil {
		*b.delivered = append(*b.delivered, x.Delivered)
	}
}

// shown keeps what Raw is given.
type shown struct {
	mu  sync.Mutex
	all map[uint32][][]byte
}

func (s *shown) raw(a Arrival, message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uint32][][]byte{}
	}
	s.all[a.Stream] = append(s.all[a.Stream], slices.Clone(message))
}

func TestLogMessagesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen, raw := newTarget(t), new(recorder), new(shown)
		g.call = func(v *visit) {
			time.Sleep(time.Millisecond) // nothing counts as cut at the start of the run
			v.sse()
			v.send(prime("p") + v.progress("x", v.token, 50, 100) + right(1, 4) + right(2, 4))
			v.end()
		}
		g.resume = func(v *visit, n int) {
			v.sse("Gapless-Missed: 3")
			v.send(right(2, 4) + logged(3, 4, "other", fmt.Sprintf("%x", sha256.Sum256(nil))))
			v.send("id: o\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":{\"n\":4,\"of\":4}}}\n\n")
			v.send("id: q\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n" + result("r", "1"))
			v.end()
		}
		var delivered []int
		g.hurt = func(c net.Conn) Link { return beginning{plain{c}, &delivered} }
		cfg := g.config(one)
		cfg.Observer, cfg.Raw = seen, raw.raw
		cfg.Calls[0].Expected, cfg.Calls[0].Numbering = 4, byLog
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "messages", seen.counts(), "0/0- 1/4+ 2/4+ 2/4+ 3/4! 4/4- 0/0- end")
		has(t, "delivered before each exchange", delivered, "[0 2]")
		has(t, "messages shown", len(raw.all[1]), 5)
		has(t, "caught up", rep.Latencies.Of(ResumeCaughtUp).TotalCount(), 1)
		for _, rec := range seen.kind(history.KindEvent)[2:4] {
			has(t, "class", rec.Event.Class, history.ClassNotification)
			has(t, "owner", rec.Event.Owner, history.OwnerUnmarked)
		}
		progress := seen.kind(history.KindEvent)[1].Event
		has(t, "progress that does not count", fmt.Sprint(progress.Class == history.ClassProgress, progress.Ordered, progress.Progress), "true true 50")
	})
}

// TestCanaryAndCancelCountLogMessages: what counts is what the numbering names.
func TestCanaryAndCancelCountLogMessages(t *testing.T) {
	call := func(v *visit) {
		v.sse()
		v.send(prime("p"))
		for k := 1; k <= 4; k++ {
			v.send(v.progress(fmt.Sprint("x", k), v.token, k, 4) + right(k, 4))
		}
		v.send(result("r", v.id))
		v.end()
	}
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = call
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, First: 7, Canary: 1, Sessions: 1})
		cfg.Observer = seen
		cfg.Calls[0].Expected, cfg.Calls[0].Numbering = 4, byLog
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		has(t, "canary", seen.counts(), "0/0- 1/4+ 0/0- 0/0- 3/4+ 0/0- 4/4+ end")
	})
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		told := make(chan struct{})
		g.special = func(v *visit) bool {
			if v.rpc == "notifications/cancelled" {
				v.status(202)
				close(told)
				return true
			}
			return false
		}
		g.call = func(v *visit) {
			v.sse()
			v.send(prime("p") + v.progress("x", v.token, 1, 1) + v.progress("y", v.token, 2, 2) + right(1, 4))
			synctest.Wait()
			v.send(right(2, 4))
			<-told
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer, cfg.Cancel = seen, 1
		cfg.Calls[0].Expected, cfg.Calls[0].Numbering = 4, byLog
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcome", rep.Outcomes[history.OutcomeCancelled], 1)
		has(t, "messages", seen.counts(), "0/0- 0/0- 1/4+ 2/4+")
	})
}

// TestPointersIntoProgress: other pointers into progress notifications, and none.
func TestPointersIntoProgress(t *testing.T) {
	for _, tt := range []struct {
		n    Numbering
		want string
	}{
		{Numbering{}, "10/30- 20/30- end"},
		{Numbering{Method: methodProgress}, "10/30- 20/30- end"},
		{Numbering{Sequence: "/params/_meta/steps/1"}, "1/30- 2/30- end"},
		{Numbering{Sequence: "/params/message", Total: "/params/nothing"}, "0/0- 0/0- end"},
		{Numbering{Method: "notifications/message", Sequence: "/params/_meta/steps/1"}, "0/0- 0/0- end"},
		{Numbering{Digest: "/params/sum", Payload: "/params/message"}, "10/30+ 20/30! end"},
		{Numbering{Digest: "/params/sum", Payload: "/params/nothing"}, "10/30! 20/30! end"},
		{Numbering{Digest: "/params/empty", Payload: "/params/nothing"}, "10/30! 20/30! end"},
		{Numbering{Digest: "/params/nothing", Payload: "/params/message"}, "10/30- 20/30- end"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			g.call = func(v *visit) {
				v.sse()
				for k := 1; k <= 2; k++ {
					v.send(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%q,\"progress\":%d,\"total\":30,\"message\":\"a\",\"empty\":\"00000000\",\"sum\":\"0cc175b9c0f1b6a831c399e26977266%d\",\"_meta\":{\"steps\":[0,%d]}}}\n\n",
						v.token, k*10, k, k))
				}
				v.send(result("r", v.id))
				v.end()
			}
			cfg := g.config(one)
			cfg.Observer, cfg.Calls[0].Numbering, cfg.Calls[0].Expected = seen, tt.n, 2
			if _, err := g.run(cfg); err != nil {
				t.Fatal(err)
			}
			has(t, fmt.Sprintf("%+v", tt.n), seen.counts(), tt.want)
		})
	}
}

// unnumbered is a log message without a number: its text and a stamp that never comes twice.
func unnumbered(id, text, stamp string) string {
	return fmt.Sprintf("id: %s\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%s\",\"_meta\":{\"at\":\"%s\"}}}\n\n", id, text, stamp)
}

// learntTwin is the twin of control calls that say these texts.
func learntTwin(t *testing.T, texts []string) *twin.Twin {
	var raw shown
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = func(v *visit) {
			v.sse()
			for i, text := range texts {
				v.send(unnumbered(fmt.Sprint(i), text, fmt.Sprint(v.id, i)))
			}
			v.send(result("r", v.id))
			v.end()
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 2, Sessions: 1})
		cfg.Raw, cfg.Calls[0].Numbering = raw.raw, Numbering{Method: "notifications/message"}
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
	})
	tw, err := twin.Learn([][][]byte{raw.all[1], raw.all[2]})
	if err != nil {
		t.Fatal(err)
	}
	has(t, "volatile", tw.Volatile(), "[/params/_meta/at]")
	return tw
}

func TestTwinNumbers(t *testing.T) {
	for _, tt := range []struct {
		name, texts, first, second, want string
	}{
		{"whole", "a b c d", "a b", "c d", "1/4+ 2/4+ 3/4+ 4/4+ end"},
		{"replayed", "a b c d", "a b", "b c d", "1/4+ 2/4+ 2/4+ 3/4+ 4/4+ end"},
		{"lost", "a b c d", "a b", "d", "1/4+ 2/4+ 4/4+ end"},
		{"swapped", "a b c d", "a c", "b d", "1/4+ 3/4+ 2/4+ 4/4+ end"},
		{"altered", "a b c d", "a b", "C d", "1/4+ 2/4+ 0/0! 4/4+ end"},
		{"equal ones, whole", "a a b a", "a a", "b a", "1/4+ 2/4+ 3/4+ 4/4+ end"},
		{"equal ones, one lost", "a a b a", "a", "b a", "1/4+ 3/4+ 2/4+ end"},
		{"equal ones, one twice", "a a b a", "a a", "b a a", "1/4+ 2/4+ 3/4+ 4/4+ 4/4+ end"},
		{"altered before the cut", "a b c d", "a B", "b c d", "1/4+ 0/0! 2/4+ 3/4+ 4/4+ end"},
	} {
		tw := learntTwin(t, strings.Fields(tt.texts))
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			say := func(v *visit, texts string) {
				v.sse()
				for i, text := range strings.Fields(texts) {
					v.send(unnumbered(fmt.Sprint(v.method, i), text, fmt.Sprint("now", v.method, i)))
				}
			}
			g.call = func(v *visit) { say(v, tt.first); v.end() }
			g.resume = func(v *visit, _ int) { say(v, tt.second); v.send(result("r", "1")); v.end() }
			var delivered []int
			g.hurt = func(c net.Conn) Link { return beginning{plain{c}, &delivered} }
			cfg := g.config(one)
			cfg.Observer = seen
			cfg.Calls[0].Expected, cfg.Calls[0].Numbering = tw.N(), Numbering{Method: "notifications/message", Twin: tw}
			if _, err := g.run(cfg); err != nil {
				t.Fatal(err)
			}
			has(t, tt.name, seen.counts(), tt.want)
			has(t, tt.name+": delivered before the resume", delivered[1], len(strings.Fields(tt.first))-strings.Count(tt.want[:12], "0/0"))
		})
	}
}

// TestTwinOnAnotherStream: progress that belongs to a sibling is told by its mark, and
// numbered without being counted.
func TestTwinOnAnotherStream(t *testing.T) {
	var sibling string
	raw := func(token string, k int) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"step","sum":"%08x","progress":%d,"progressToken":%q}}`,
			crc32.ChecksumIEEE([]byte("step")), k*10, token)
	}
	tw, err := twin.Learn([][][]byte{{raw("a", 1), raw("a", 2)}, {raw("b", 1), raw("b", 2)}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		sibling = NewMarks("00000000", []byte("secret")).Of(1, 2)
		g.call = func(v *visit) {
			v.sse()
			for _, m := range [][]byte{raw(v.token, 1), raw(sibling, 2), raw(sibling, 3), raw(v.token, 2), raw(v.token, 4)} {
				v.send(fmt.Sprintf("data: %s\n\n", m))
			}
			v.send(result("r", v.id))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		cfg.Calls[0].Numbering = Numbering{Twin: tw, Digest: "/params/sum", Payload: "/params/message"}
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		has(t, "messages", seen.counts(), "1/2+ 2/0+ 0/0+ 2/2+ 0/0! end") // the digest of the last is right, and it is none of the call
		has(t, "owner", seen.kind(history.KindEvent)[1].Event.Owner, history.OwnerOtherStream)
	})
}

// TestUnmarkedOnAGetStream: only its token says that a message belongs to the call.
func TestUnmarkedOnAGetStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, called := hearing(t)
		seen := new(recorder)
		g.resume = func(v *visit, _ int) {
			v.sse()
			token := <-called
			for k := 1; k <= 2; k++ {
				v.send(fmt.Sprintf("id: u%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":%d}}\n\n", k, k))
			}
			for k := 1; k <= 3; k++ {
				v.send(v.progress(fmt.Sprint("e", k), token, k, 3))
			}
			v.hang()
		}
		cfg := getOnly(g, 1)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "messages", seen.counts(), "end 0/0- 0/0- 1/3- 2/3- 3/3-")
		has(t, "outcome", rep.Gets[history.OutcomeCompleted], 1)
		cfg.Calls[0].Numbering = byLog
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "1 GET streams need notifications/progress") {
			t.Errorf("got %v", err)
		}
	})
}

// TestForeignAmongEqualOnes: which of several equal messages a sibling lost cannot be told.
func TestForeignAmongEqualOnes(t *testing.T) {
	n := numbers{numbering: &numbering{twin: learntTwin(t, []string{"a", "a"})}}
	e := history.Event{Owner: history.OwnerOtherStream}
	_, text, _ := strings.Cut(unnumbered("x", "a", "now"), "data: ")
	if n.compare(&e, []byte(text)); e.Seq != 0 || e.Digest != history.DigestNone {
		t.Errorf("%+v", e)
	}
}

func TestBadPointersAreTold(t *testing.T) {
	cfg := newTarget(t).config(one)
	cfg.Calls[0].Numbering = Numbering{Sequence: "params/n"}
	cfg.Calls = append(cfg.Calls, Call{Name: "x", Numbering: Numbering{Digest: "/params/~"}})
	err := cfg.Validate()
	for _, want := range []string{`call 1: sequence "params/n": a JSON Pointer begins with a slash`, `call 2: digest "/params/~": a ~ must`, "there is no payload"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestDigests(t *testing.T) {
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc" (FIPS 180-4)
	for digest, want := range map[string]bool{
		sum: true, strings.ToUpper(sum): true, "sha256:" + sum: true, "SHA256:" + sum: true, sum[1:]: false, sum + "00": false, "b" + sum[:63]: false,
		"a9993e364706816aba3e25717850c26c9cd0d89d": true, "sha1:a9993e364706816aba3e25717850c26c9cd0d89d": true, "a9993e364706816aba3e25717850c26c9cd0d89e": false,
		"900150983cd24fb0d6963f7d28e17f72": true, "md5:900150983cd24fb0d6963f7d28e17f72": true, "sha1:900150983cd24fb0d6963f7d28e17f72": false,
		"352441c2": true, "crc32:352441C2": true, "352441c3": false, "sha256:352441c2": false, "crc:352441c2": false, ":352441c2": false,
		"": false, "sha256:": false, "0x352441c2": false, "352441c": false, "zzzzzzzz": false, strings.Repeat("0", 1000): false,
	} {
		if got := fits([]byte(digest), []byte("abc")); got != want {
			t.Errorf("%q: %v", digest, got)
		}
	}
	digest, payload := []byte("sha256:"+sum), []byte("abc")
	if n := testing.AllocsPerRun(100, func() { fits(digest, payload) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAnswersThatCannotBeRead: the exchange ends with a finding, and the stream goes on.
func TestAnswersThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  func(v *visit)
		illegal history.Illegal
	}{
		"compressed": {func(v *visit) { v.sse("Content-Encoding: gzip"); v.send("\x1f\x8b\x08") }, history.IllegalHTTP},
		"compressed, one message": {func(v *visit) {
			v.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd")
		}, history.IllegalHTTP},
		"too large": {func(v *visit) {
			v.sse()
			v.send("data: " + strings.Repeat("x", 3000) + "\n")
		}, history.IllegalSize},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			g.call = func(v *visit) { primed(v) }
			g.resume = func(v *visit, n int) {
				if n == 1 {
					tt.answer(v)
					v.hang()
					return
				}
				rest(v, g.of("tools/call")[0].token, "1")
			}
			cfg := g.config(one)
			cfg.Observer, cfg.Limits.Event = seen, 1000
			rep, err := g.run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			has(t, name, seen.ends(), fmt.Sprint([]history.End{history.EndTruncated, history.EndFrame, history.EndClean}))
			has(t, "completed", rep.Outcomes[history.OutcomeCompleted], 1)
			at := slices.IndexFunc(seen.kind(history.KindEvent), func(r history.Record) bool { return r.Event.Class == history.ClassJunk })
			if at < 0 || seen.kind(history.KindEvent)[at].Event.Illegal != tt.illegal {
				t.Errorf("%s: no finding: %v", name, seen.kind(history.KindEvent))
			}
		})
	}
}
