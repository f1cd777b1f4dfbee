package loadgen

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// maxRate is the highest rate a plan takes, in arrivals per second: more than any
// machine can start, and still a thousand nanoseconds from one to the next.
const maxRate = 1e6

// A Stage is one part of an open model: the rate goes to Rate in a straight line.
type Stage struct {
	// For is how long it takes; 0 makes it a step.
	For time.Duration
	// Rate is the rate at its end, in arrivals per second; 0 comes to rest.
	Rate float64
}

// segment is a stretch of time in which the rate does not change, or changes in a
// straight line. It begins with an arrival at once.
type segment struct {
	start, took time.Duration
	first, hits int // arrivals before it and in it
	from, to    float64
	constant    vegeta.ConstantPacer // where from equals to
	linear      vegeta.LinearPacer
}

// segments lays out the open model: Rate for Duration, then the stages.
func segments(c PlanConfig) (all []segment, hits float64) {
	rate, start := c.Rate, time.Duration(0)
	add := func(took time.Duration, to float64) {
		if took > 0 {
			s := newSegment(start, took, rate, to)
			s.first = int(hits)
			hits += float64(s.hits)
			all = append(all, s)
		}
		start, rate = start+took, to
	}
	add(c.Duration, c.Rate)
	for _, s := range c.Stages {
		add(s.For, s.Rate)
	}
	return all, hits
}

// newSegment sets up the pacer of a segment. To both pacers 0 means without limit: a
// rest has no pacer, and what starts from 0 starts from one arrival in 292 years.
func newSegment(start, took time.Duration, from, to float64) segment {
	s := segment{start: start, took: took, from: from, to: to}
	area := (from + to) / 2 * took.Seconds()
	s.hits = int(math.Ceil(area - 1e-6))
	switch {
	case s.hits == 0:
	case from == to:
		s.constant = per(from)
	default:
		s.linear = vegeta.LinearPacer{StartAt: vegeta.Rate{Freq: 1, Per: math.MaxInt64}, Slope: (to - from) / took.Seconds()}
		if from > 0 {
			s.linear.StartAt = per(from)
		}
	}
	return s
}

// per writes a rate as a whole number of arrivals in the shortest time that makes it
// one, at most a million seconds.
func per(rate float64) vegeta.Rate {
	seconds := 1.0
	for rate*seconds != math.Trunc(rate*seconds) && seconds < 1e6 {
		seconds *= 10
	}
	return vegeta.Rate{Freq: max(int(math.Round(rate*seconds)), 1), Per: time.Duration(seconds) * time.Second}
}

// due is when the k-th arrival of the segment is due, 0 ≤ k < hits, since its start.
func (s *segment) due(k int) time.Duration {
	if k == 0 {
		return 0
	}
	if s.from == s.to {
		// The pacer counts in whole nanoseconds between two arrivals. Taking each of its
		// periods by itself keeps what that leaves out from adding up.
		freq := s.constant.Freq
		d := time.Duration(k/freq) * s.constant.Per
		if k %= freq; k > 0 {
			wait, _ := s.constant.Pace(0, uint64(k-1))
			d += wait
		}
		return d
	}
	// The pacer goes on from where a generator is, by the rate at that point. So it is
	// asked from a thousandth of an arrival before, where that is exact.
	before := s.reached(float64(k) - 1e-3)
	wait, stop := s.linear.Pace(before, uint64(k-1))
	if stop || wait < 0 || before+wait > s.took {
		return before
	}
	return before + wait
}

// reached is when so many arrivals have been due.
func (s *segment) reached(hits float64) time.Duration {
	a := s.linear.Slope
	root := math.Sqrt(max(s.from*s.from+2*a*hits, 0))
	return time.Duration(2 * hits / (s.from + root) * 1e9)
}

// paced finds the arrival among the segments.
func (p Plan) paced(n int) time.Duration {
	i := len(p.segments) - 1
	for p.segments[i].first > n || p.segments[i].hits == 0 {
		i--
	}
	s := &p.segments[i]
	return s.start + s.due(n-s.first)
}

// open reports whether this is the open model.
func (c PlanConfig) open() bool { return c.Rate != 0 || c.Duration != 0 || len(c.Stages) > 0 }

// validateOpen reports what is wrong with the settings of the open model.
func (c PlanConfig) validateOpen() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Streams != 0 || c.Calls != 0 || c.Ramp != 0, "streams, calls and ramp belong to the closed model, rate, duration and stages to the open one")
	complain(c.MaxOpen < 0 || c.MaxOpen > maxOpen, "max open must be from 0 to %d, not %d", maxOpen, c.MaxOpen)
	complain(c.Duration < 0, "duration must not be negative: %v", c.Duration)
	complain(c.Duration > 0 && c.Rate == 0, "duration %v without a rate", c.Duration)
	complain(c.Duration == 0 && len(c.Stages) == 0, "rate %g without a duration", c.Rate)
	good := func(rate float64) bool { return rate >= 0 && rate <= maxRate } // NaN is neither
	complain(!good(c.Rate), "rate %g: must be from 0 to %g arrivals per second", c.Rate, maxRate)
	for i, s := range c.Stages {
		complain(s.For < 0, "stage %d must not last %v", i+1, s.For)
		complain(!good(s.Rate), "stage %d: rate %g: must be from 0 to %g arrivals per second", i+1, s.Rate, maxRate)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	_, hits := segments(c)
	complain(hits < 1, "not a single arrival")
	complain(hits > maxCalls, "%.0f arrivals are more than there are stream numbers", hits)
	return errors.Join(errs...)
}

// shape says how the rate goes, for people.
func (c PlanConfig) shape() string {
	text := func(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) + "/s" }
	s := text(c.Rate)
	if c.Duration > 0 {
		s += " for " + c.Duration.String()
	}
	for _, stage := range c.Stages {
		s += ", to " + text(stage.Rate) + " in " + stage.For.String()
	}
	return s
}
