package report

import (
	"math"
	"testing"
)

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		seconds float64
		want    string
	}{
		{0, "0ms"}, {0.00001, "<0.1ms"}, {0.0001, "0.1ms"}, {0.0011, "1.1ms"}, {0.00996, "10ms"}, {0.104, "104ms"},
		{0.9996, "1.0s"}, {1.2, "1.2s"}, {59.94, "59.9s"}, {59.96, "1m00s"}, {125, "2m05s"}, {3720, "1h02m"},
		{-1, "?"}, {math.NaN(), "?"}, {math.Inf(1), "?"},
	} {
		if got := span(tc.seconds); got != tc.want {
			t.Errorf("span(%v) = %q, want %q", tc.seconds, got, tc.want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{3.0 / 428: "0.70 %", 0.3: "30 %", 3: "100 %", 0.00003: "0.003 %", 0.00012: "0.01 %"} {
		if got := percent(share); got != want {
			t.Errorf("percent(%v) = %q, want %q", share, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü…"}, {"", 0, ""}} {
		if got := cut(tc.s, tc.n); got != tc.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tc.s, tc.n, got, tc.want)
		}
	}
}
