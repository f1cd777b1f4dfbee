package profiles

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is written with a unit: 250ms, 30s, 8h. It is never negative.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes what [Duration.UnmarshalText] reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText refuses bare numbers: 250 says nothing about its unit.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return fmt.Errorf("bad duration %q: the unit is missing; did you mean %q or %q?", s, s+"ms", s+"s")
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf("bad duration %s; write it like 250ms, 30s or 8h", quote(s))
	case v < 0:
		return fmt.Errorf("bad duration %s: it is negative", quote(s))
	}
	*d = Duration(v)
	return nil
}

// Rate counts starts per second; it is written 50/s, 3000/m, 100/h or 0.
type Rate float64

// PerSecond returns the rate in starts per second.
func (r Rate) PerSecond() float64 { return float64(r) }

func (r Rate) String() string {
	if r == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s"
}

// MarshalText writes what [Rate.UnmarshalText] reads.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText refuses a bare number other than 0.
func (r *Rate) UnmarshalText(text []byte) error {
	s := string(text)
	num, unit, found := strings.Cut(s, "/")
	v, err := parseNumber(num)
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	switch {
	case err == nil && !found && v == 0:
		*r = 0
		return nil
	case err == nil && !found:
		return fmt.Errorf("bad rate %q: the unit is missing; did you mean %q?", s, s+"/s")
	case err != nil || per == 0:
		return fmt.Errorf("bad rate %s; write it like 50/s, 3000/m or 100/h", quote(s))
	}
	*r = Rate(v / per)
	return nil
}

// Size is a number of bytes; it is written 200B, 4KiB, 64MiB or 2GiB.
type Size int64

// sizeUnits is ordered from large to small: the first that divides is written.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
	}
}

type sizeUnit struct {
	name  string
	bytes float64
}

func (s Size) String() string {
	for _, u := range sizeUnits()[:3] {
		if n := int64(u.bytes); s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes what [Size.UnmarshalText] reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText refuses a bare number other than 0.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := parseSize(string(text))
	if err != nil {
		return err
	}
	*s = Size(v)
	return nil
}

func parseSize(s string) (float64, error) {
	if v, err := parseNumber(s); err == nil {
		if v == 0 {
			return 0, nil
		}
		return 0, fmt.Errorf("bad size %q: the unit is missing; did you mean %q or %q?", s, s+"B", s+"KiB")
	}
	for _, u := range sizeUnits() {
		num, found := strings.CutSuffix(s, u.name)
		if !found {
			continue
		}
		v, err := parseNumber(num)
		if v *= u.bytes; err == nil && v <= math.MaxInt64/2 && v == math.Trunc(v) {
			return v, nil
		}
		break
	}
	return 0, fmt.Errorf("bad size %s; write it like 200B, 4KiB or 64MiB", quote(s))
}

// Throughput is a number of bytes per second; it is written 4KiB/s or 0.
type Throughput int64

func (t Throughput) String() string {
	if t == 0 {
		return "0"
	}
	return Size(t).String() + "/s"
}

// MarshalText writes what [Throughput.UnmarshalText] reads.
func (t Throughput) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a size per second.
func (t *Throughput) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "0" {
		*t = 0
		return nil
	}
	size, found := strings.CutSuffix(s, "/s")
	v, err := parseSize(size)
	if !found || err != nil {
		return fmt.Errorf("bad rate of bytes %s; write it like 4KiB/s", quote(s))
	}
	*t = Throughput(v)
	return nil
}

// Percent is written 10% and lies between 0 and 100.
type Percent float64

// Fraction returns 0.1 for 10%.
func (p Percent) Fraction() float64 { return float64(p) / 100 }

func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%" }

// MarshalText writes what [Percent.UnmarshalText] reads.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText refuses a number without its sign.
func (p *Percent) UnmarshalText(text []byte) error {
	s := string(text)
	num, found := strings.CutSuffix(s, "%")
	v, err := parseNumber(num)
	switch {
	case err == nil && !found:
		return fmt.Errorf("bad percentage %q: the sign is missing; did you mean %q?", s, s+"%")
	case err != nil:
		return fmt.Errorf("bad percentage %s; write it like 10%%", quote(s))
	case v > 100:
		return fmt.Errorf("bad percentage %s: it is above 100%%", quote(s))
	}
	*p = Percent(v)
	return nil
}

// parseNumber reads a finite decimal number that is not negative.
func parseNumber(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || strings.ContainsAny(s, "xXpP_") {
		return 0, errors.New("not a number")
	}
	return v, nil
}

// Protocol is a revision of MCP, a date like 2025-11-25; empty means the one
// that goes with the dialect. YAML takes an unquoted date for a timestamp: both
// spellings are read.
type Protocol string

// UnmarshalText checks the shape; whether the revision exists is checked with
// the dialect.
func (p *Protocol) UnmarshalText(text []byte) error {
	if s := string(text); s != "" && !dateShape().MatchString(s) {
		return fmt.Errorf("bad protocol revision %s; write it like 2025-11-25", quote(s))
	}
	*p = Protocol(text)
	return nil
}

// MarshalText writes the date.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p), nil }

func dateShape() *regexp.Regexp { return regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`) }

// Count is a number of messages, or auto (0): learnt from control calls.
type Count int

func (c Count) String() string {
	if c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

// MarshalText writes what [Count.UnmarshalText] reads.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads auto or a positive whole number.
func (c *Count) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "auto" {
		*c = 0
		return nil
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 {
		return fmt.Errorf("bad count %s; write auto or a whole number from 1", quote(s))
	}
	*c = Count(v)
	return nil
}

// quote shows a value of the user in an error, short and without control
// characters.
func quote(s string) string {
	const max = 60
	if r := []rune(s); len(r) > max {
		s = string(r[:max]) + "…"
	}
	return strconv.Quote(s)
}
