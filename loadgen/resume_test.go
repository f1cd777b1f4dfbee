package loadgen

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// gaps runs one call whose link ends after each event and returns the time from each
// end to the GET after it.
func gaps(t *testing.T, head string, change func(*Config), failing func(v *visit, n int) bool) (gaps []time.Duration, seen *recorder) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		seen = new(recorder)
		var ended time.Time
		g.call = func(v *visit) {
			v.sse()
			v.send(head + prime("p"))
			time.Sleep(time.Second)
			ended = time.Now()
			v.end()
		}
		g.resume = func(v *visit, n int) {
			gaps = append(gaps, time.Since(ended))
			ended = time.Now()
			if failing(v, n) {
				return
			}
			v.sse()
			v.send(result("r", "1"))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		change(&cfg)
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
	})
	return gaps, seen
}

func TestRetryIsRespectedToTheMillisecond(t *testing.T) {
	got, seen := gaps(t, "retry: 1234\n", func(*Config) {}, func(v *visit, n int) bool { return false })
	has(t, "waits", got, "[1.234s]")
	x := seen.kind(history.KindAttempt)[1].Exchange
	has(t, "attempt", x, history.Exchange{Resume: true, Cursor: 1, Asked: 1234 * time.Millisecond, Waited: 1234 * time.Millisecond})
}

func TestLatestRetryCounts(t *testing.T) {
	got, _ := gaps(t, "retry: 50\n", func(*Config) {}, func(v *visit, n int) bool {
		if n == 1 {
			v.sse()
			v.send("retry: 700\n" + prime("q"))
			v.end()
		}
		return n == 1
	})
	has(t, "waits", got, "[50ms 700ms]")
}

func TestJitterOnlyAdds(t *testing.T) {
	different := make(map[time.Duration]bool)
	for seed := range uint64(40) {
		got, _ := gaps(t, "retry: 1000\n", func(c *Config) { c.Seed, c.Resume.Jitter = seed, 0 }, func(*visit, int) bool { return false })
		if got[0] < time.Second || got[0] > 1100*time.Millisecond {
			t.Errorf("seed %d: waited %v for a retry of 1 s", seed, got[0])
		}
		different[got[0]] = true
	}
	if len(different) < 39 {
		t.Errorf("%d different waits in 40 seeds", len(different))
	}
}

func TestBackoffDoublesAndIsBounded(t *testing.T) {
	change := func(c *Config) { c.Resume.BackoffMax = time.Second }
	for _, c := range []struct{ name, head, want string }{
		{"retry absent – from the policy's own step", "", "[100ms 100ms 200ms 400ms 800ms 1s 1s]"},
		{"retry larger than the bound – never less than asked", "retry: 1500\n", "[1.5s 1.5s 1.5s 1.5s 1.5s 1.5s 1.5s]"},
		{"retry 0 – no busy loop", "retry: 0\n", "[10ms 100ms 200ms 400ms 800ms 1s 1s]"},
	} {
		got, _ := gaps(t, c.head, change, func(v *visit, n int) bool {
			if n < 7 {
				v.status(503)
			}
			return n < 7
		})
		has(t, c.name, got, c.want)
	}
}

func TestRetryAfterIsRespected(t *testing.T) {
	got, _ := gaps(t, "retry: 50\n", func(*Config) {}, func(v *visit, n int) bool {
		if n == 1 {
			v.status(429, "Retry-After: 3")
		}
		return n == 1
	})
	has(t, "waits", got, "[50ms 3s]")
}

func TestConflictIsRetriedForAMinute(t *testing.T) {
	got, seen := gaps(t, "retry: 10\n", func(c *Config) { c.Calls[0].Deadline = 30 * time.Second }, func(v *visit, n int) bool {
		v.status(409)
		return true
	})
	var sum time.Duration
	for _, d := range got[1:] {
		sum += d
	}
	if sum < time.Minute || sum > 66*time.Second {
		t.Errorf("409 was retried for %v, %d times", sum, len(got))
	}
	has(t, "outcome", seen.kind(history.KindSettled)[0].Outcome, history.OutcomeFailed)
}

func TestOwnCutsAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		var call, token string
		g.call = func(v *visit) { call, token = v.id, v.token; v.sse(); v.send(prime("p")) }
		g.resume = func(v *visit, n int) {
			v.sse()
			if n < 50 {
				v.hang()
				return
			}
			v.send(v.progress("e1", token, 1, 1) + result("r", call))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		cfg.Resume.Attempts = 3
		dial := cfg.Dial
		n := 0
		cfg.Dial = ctxDial(dial, func(l Link) Link {
			if n++; n >= 2 && n <= 50 {
				return &headCutter{Conn: l}
			}
			return l
		})
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes[history.OutcomeCompleted], 1)
		has(t, "injections", len(seen.kind(history.KindInjection)), 49)
		has(t, "attempted", rep.Resumes.Attempted, 50)
	})
}
