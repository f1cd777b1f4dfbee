package lab

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// controlled makes the records of a call: a head at this time, and events of these classes,
// each some time after the one before.
func controlled(head, first, step time.Duration, classes ...history.Class) []history.Record {
	const began = time.Hour // of the call in the run
	records := []history.Record{
		{Kind: history.KindAttempt, At: began},
		{Kind: history.KindHead, At: began + head, Head: history.Head{Status: 200, Body: history.BodySSE}},
	}
	at := began + first
	for i, class := range classes {
		if i > 0 {
			at += step
		}
		records = append(records, history.Record{Kind: history.KindEvent, At: at, Event: history.Event{Class: class}})
	}
	return append(records, history.Record{Kind: history.KindEnd, At: at}, history.Record{Kind: history.KindSettled, At: at})
}

// progress is n progress notifications and the response.
func progress(n int, before ...history.Class) []history.Class {
	for range n {
		before = append(before, history.ClassProgress)
	}
	return append(before, history.ClassResponse)
}

func TestBuffered(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	const off = "turn buffering off there (for nginx: X-Accel-Buffering: no, or proxy_buffering off)"
	resumed := controlled(3100*ms, 3100*ms, 33*us, progress(60)...)
	resumed[len(resumed)-2].Attempt = 1
	json := controlled(3100*ms, 3100*ms, 33*us, progress(60)...)
	json[1].Head.Body = history.BodyJSON
	held := controlled(3100*ms, 3100*ms, 33*us, progress(60)...)
	for name, c := range map[string]struct {
		calls [][]history.Record
		front string
		want  string
	}{
		"nothing was seen": {nil, "", ""},
		"all at the end, the head too": {[][]history.Record{held}, "nginx/1.25",
			"60 messages of a 3.1 s call came within 2 ms at its end, and the head of the answer no sooner (nginx/1.25 is in front): " +
				"unless the tool says all at its end, the answers are buffered on the way; " + off},
		"all at the end, the head at once": {[][]history.Record{controlled(2*ms, 2*time.Second, 0, progress(60)...)}, "",
			"60 messages of a 2 s call came within 1 ms at its end, though the head of the answer was there at once: " +
				"either the tool says all at its end, or the answers are buffered on the way; if so, " + off},
		"the priming event came late": {[][]history.Record{controlled(2*ms, 2*time.Second, 0, progress(60, history.ClassEmpty)...)}, "uvicorn, 1.1 varnish",
			"the answers are buffered on the way: 60 messages of a 2 s call came within 1 ms at its end, " +
				"and the event that opens the stream with them (uvicorn, 1.1 varnish is in front); " + off},
		"a name that is none of a proxy": {[][]history.Record{held}, "uvicorn",
			"60 messages of a 3.1 s call came within 2 ms at its end, and the head of the answer no sooner (it came from uvicorn): " +
				"unless the tool says all at its end, the answers are buffered on the way; " + off},
		"the longest list is told": {[][]history.Record{controlled(2*ms, 2*time.Second, 0, progress(9)...), held}, "",
			"60 messages of a 3.1 s call came within 2 ms at its end, and the head of the answer no sooner: " +
				"unless the tool says all at its end, the answers are buffered on the way; " + off},
		"the messages flow":          {[][]history.Record{controlled(2*ms, 2*ms, 50*ms, progress(60)...)}, "nginx", ""},
		"one call flowed":            {[][]history.Record{held, controlled(2*ms, 2*ms, 50*ms, progress(60)...), held}, "nginx", ""},
		"the priming event flowed":   {[][]history.Record{append(controlled(ms, ms, 0, history.ClassEmpty)[:3], held[2:]...)}, "nginx", ""},
		"a short call":               {[][]history.Record{controlled(900*ms, 900*ms, 10*us, progress(60)...)}, "nginx", ""},
		"few messages":               {[][]history.Record{controlled(9*time.Second, 9*time.Second, 10*us, progress(4)...)}, "nginx", ""},
		"the response alone":         {[][]history.Record{controlled(9*time.Second, 9*time.Second, 0, history.ClassResponse)}, "nginx", ""},
		"resumed":                    {[][]history.Record{resumed}, "nginx", ""},
		"one JSON body":              {[][]history.Record{json}, "nginx", ""},
		"a slow response at the end": {[][]history.Record{controlled(9*time.Second, 9*time.Second, 60*ms, progress(6)...)}, "nginx", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := buffered(c.calls, c.front); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestIdleCuts(t *testing.T) {
	const s = time.Second
	const truncated = history.EndTruncated
	type quiet struct {
		after time.Duration // since the end before
		quiet time.Duration
		end   history.End
	}
	many := func(n int, q quiet) (all []quiet) {
		for range n {
			all = append(all, q)
		}
		return all
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var random []quiet
	for range 5000 {
		random = append(random, quiet{s, 5*s + time.Duration(rng.ExpFloat64()*float64(60*s)), truncated})
	}
	scattered := many(3, quiet{9 * s, 60 * s, truncated})
	for i := range 10 {
		scattered = append(scattered, quiet{s, time.Duration(6+3*i) * s, truncated})
	}
	const cut = "something on the way, or the server, cuts links that are silent for "
	const advice = ": raise its idle timeout or let the server send keep-alive comments more often"
	for name, c := range map[string]struct {
		ends []quiet
		want string
	}{
		"nothing": {nil, ""},
		"a minute": {append(many(4, quiet{7 * s, 60 * s, truncated}), quiet{s, 59900 * time.Millisecond, history.EndReset}, quiet{s, 60100 * time.Millisecond, history.EndClean}, quiet{s, 60 * s, history.EndMidEvent}),
			cut + "60 s (7 links, 59.9-60.1 s)" + advice},
		"among short silences":         {append(many(900, quiet{s, 4900 * time.Millisecond, truncated}), many(3, quiet{9 * s, 10 * s, truncated})...), cut + "10 s (3 links, 10.0-10.0 s)" + advice},
		"among a few other ends":       {append(many(3, quiet{s, 20 * s, truncated}), many(5, quiet{9 * s, 30 * s, truncated})...), cut + "30 s (5 links, 30.0-30.0 s)" + advice},
		"five minutes, spread by 5 %":  {[]quiet{{9 * s, 290 * s, truncated}, {9 * s, 300 * s, truncated}, {9 * s, 304 * s, truncated}}, cut + "297 s (3 links, 290.0-304.0 s)" + advice},
		"two ends":                     {many(2, quiet{9 * s, 60 * s, truncated}), ""},
		"spread":                       {[]quiet{{9 * s, 10 * s, truncated}, {9 * s, 12 * s, truncated}, {9 * s, 14 * s, truncated}}, ""},
		"three of many":                {scattered, ""},
		"at random":                    {random, ""},
		"some live longer":             {append(many(9, quiet{9 * s, 30 * s, truncated}), quiet{s, 90 * s, truncated}), ""},
		"a link is silent and lives":   {append(many(9, quiet{9 * s, 30 * s, truncated}), quiet{s, 90 * s, history.EndIdle}), ""},
		"our own idle limit":           {many(9, quiet{9 * s, 30 * s, history.EndIdle}), ""},
		"the server went down at once": {many(50, quiet{0, 30 * s, history.EndReset}), ""},
		"no idle time at all":          {many(50, quiet{9 * s, 0, history.EndReset}), ""},
		"longer than anybody waits":    {many(3, quiet{9 * s, 1 << 62, history.EndReset}), cut + "4611686018.4 s (3 links, 4611686018.4-4611686018.4 s)" + advice},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cuts idleCuts
				for _, q := range c.ends {
					time.Sleep(q.after)
					cuts.note(q.quiet, q.end)
				}
				if got := cuts.sentence(); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// Streams tell of their ends from goroutines of their own.
func TestIdleCutsAtOnce(t *testing.T) {
	var cuts idleCuts
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				cuts.note(time.Duration(5+i)*time.Second, history.EndReset)
				_ = cuts.sentence()
			}
		})
	}
	all.Wait()
	if cuts.total != 8000 {
		t.Errorf("%d ends, want 8000", cuts.total)
	}
}
