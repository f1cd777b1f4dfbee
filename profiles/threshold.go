package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Thresholds are limits by the name of the figure they are about.
type Thresholds map[string][]Threshold

// A Threshold is a limit on a figure in k6's grammar, such as p(99)<1s.
type Threshold struct {
	Is string `yaml:"is"`
	// Abort ends the run as soon as the limit is passed.
	Abort bool `yaml:"abort"`
}

// UnmarshalText reads the short form: the expression alone.
func (t *Threshold) UnmarshalText(text []byte) error {
	*t = Threshold{Is: string(text)}
	return nil
}

// A Limit is a threshold that was understood. Its fields are those of result.Limit.
type Limit struct {
	Figure string
	// Expression is the threshold as it was written.
	Expression string
	// Aggregation is avg, min, med, max, p, count or rate; Quantile is the N of p(N),
	// in percent.
	Aggregation string
	Quantile    float64
	// Operator is <, <=, >, >=, == or !=; k6's === is ==.
	Operator string
	// Value is in seconds for a time, a number for count, a share of one for rate.
	Value float64
	Abort bool
}

// times and counted are the figures that a threshold can be about: the latencies and
// the counts of a result.
func times() []string {
	return []string{
		"first_event", "event_gap", "completion", "start_delay", "resume_detect", "resume_backoff",
		"resume_connect", "resume_first_event", "resume_caught_up",
	}
}

func counted() []string {
	return []string{"indeterminate", "not_sent", "refused", "undecided", "failed", "dropped_arrivals", "late"}
}

func figures() []string { return slices.Concat(times(), counted()) }

// Limits returns the thresholds by name of the figure, those of one figure as they are
// written. Errors are those of the first threshold that Validate complains about.
func (p Profile) Limits() ([]Limit, error) {
	var all []Limit
	for _, figure := range figures() {
		for _, t := range p.Thresholds[figure] {
			l, err := t.limit(figure)
			if err != nil {
				return nil, fmt.Errorf("thresholds.%s: %w", figure, err)
			}
			all = append(all, l)
		}
	}
	return all, nil
}

func (t Threshold) check(figure string) error {
	_, err := t.limit(figure)
	return err
}

func (t Threshold) limit(figure string) (Limit, error) {
	s := expression{text: t.Is, figure: figure, time: slices.Contains(times(), figure)}
	l := Limit{Figure: figure, Expression: t.Is, Abort: t.Abort}
	for _, step := range []func(*Limit) error{s.aggregation, s.operator, s.value} {
		if err := step(&l); err != nil {
			return l, err
		}
	}
	switch {
	case !l.Abort:
	case figure == "late":
		return l, s.wrong(0, "abort: late is known only at the end")
	case l.Operator != "<" && l.Operator != "<=":
		return l, s.wrong(s.at, "abort goes with < and <= only: every run starts below all limits")
	}
	return l, nil
}

// An expression is a threshold that is being read.
type expression struct {
	text, figure string
	time         bool // the figure is a time, not a count
	at, next     int  // bytes: where the last word began, where the next one does
}

// wrong says what is wrong at the given byte; people count characters from 1.
func (s *expression) wrong(at int, format string, args ...any) error {
	column := len([]rune(s.text[:min(at, len(s.text))])) + 1
	return fmt.Errorf("bad threshold %s, character %d: %s; write it like %s",
		quote(s.text), column, fmt.Sprintf(format, args...), s.example())
}

func (s *expression) example() string {
	if s.time {
		return "p(99)<1s"
	}
	return "count<5 or rate<1%"
}

// word takes the bytes that belong to the next word, behind white space.
func (s *expression) word(belongs func(c byte) bool) string {
	for s.next < len(s.text) && strings.IndexByte(" \t", s.text[s.next]) >= 0 {
		s.next++
	}
	s.at = s.next
	for s.next < len(s.text) && belongs(s.text[s.next]) {
		s.next++
	}
	return s.text[s.at:s.next]
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isSign(c byte) bool { return strings.IndexByte("<>=!", c) >= 0 }

// aggregation reads avg, min, med, max, p(N), count or rate.
func (s *expression) aggregation(l *Limit) error {
	known := []string{"avg", "min", "med", "max", "p(N)", "count"}
	if !s.time {
		known = []string{"count", "rate"}
	}
	word := s.word(isLetter)
	switch {
	case word == "p" && s.time:
		l.Aggregation = word
		return s.quantile(l)
	case word == "":
		return s.wrong(s.at, "one of %s comes first", oneOf(known))
	case word == "mean" && s.time:
		return s.wrong(s.at, `unknown aggregation "mean"; did you mean "avg"?`)
	case !slices.Contains(known, word):
		return s.wrong(s.at, "%s of %s cannot be had; known: %s", quote(word), s.figure, oneOf(known))
	}
	l.Aggregation = word
	return nil
}

// quantile reads the (N) of p(N).
func (s *expression) quantile(l *Limit) error {
	from := s.next
	if from == len(s.text) || s.text[from] != '(' {
		return s.wrong(from, "after p comes the quantile in brackets, such as p(99)")
	}
	end := strings.IndexByte(s.text[from:], ')')
	if end < 0 {
		return s.wrong(len(s.text), "the bracket is not closed")
	}
	number := s.text[from+1 : from+end]
	q, err := parseNumber(number)
	if err != nil || q > 100 {
		return s.wrong(from+1, "%s is not a quantile from 0 to 100", quote(number))
	}
	l.Quantile, s.next = q, from+end+1
	return nil
}

func (s *expression) operator(l *Limit) error {
	known := []string{"<", "<=", ">", ">=", "==", "===", "!="}
	word := s.word(isSign)
	if !slices.Contains(known, word) {
		if word == "" {
			return s.wrong(s.at, "an operator is missing; known: %s", oneOf(known))
		}
		return s.wrong(s.at, "unknown operator %s; known: %s", quote(word), oneOf(known))
	}
	l.Operator = word
	if word == "===" {
		l.Operator = "=="
	}
	return nil
}

// value reads a time with its unit, a number or a share, whichever belongs to the
// aggregation.
func (s *expression) value(l *Limit) error {
	word := s.word(func(c byte) bool { return c != ' ' && c != '\t' })
	if rest := strings.TrimSpace(s.text[s.next:]); rest != "" {
		return s.wrong(s.next+strings.Index(s.text[s.next:], rest), "%s comes after its end", quote(rest))
	}
	if word == "" {
		return s.wrong(s.at, "the value is missing")
	}
	switch l.Aggregation {
	case "count":
		return s.number(l, word)
	case "rate":
		return s.share(l, word)
	}
	if number, err := strconv.ParseFloat(word, 64); err == nil {
		if number == 0 {
			return s.wrong(s.at, "a time of %s; no run is so fast", word)
		}
		return s.wrong(s.at, "the unit of %s is missing; did you mean %sms or %ss?", word, word, word)
	}
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 {
		return s.wrong(s.at, "%s is not a time", quote(word))
	}
	l.Value = d.Seconds()
	return nil
}

func (s *expression) number(l *Limit, word string) error {
	v, err := parseNumber(word)
	if err != nil {
		return s.wrong(s.at, "%s is not a number", quote(word))
	}
	l.Value = v
	return nil
}

func (s *expression) share(l *Limit, word string) error {
	digits, percent := strings.CutSuffix(word, "%")
	v, err := parseNumber(digits)
	if percent {
		v /= 100
	}
	switch {
	case err != nil:
		return s.wrong(s.at, "%s is not a share", quote(word))
	case v > 1 && !percent:
		return s.wrong(s.at, "a share of %s is above 1; did you mean %s%%?", word, word)
	case v > 1:
		return s.wrong(s.at, "a share of %s is above 100%%", word)
	}
	l.Value = v
	return nil
}
