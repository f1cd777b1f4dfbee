package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// The elements of a JUnit report, in the order that its schemas want. What is required
// by one of them stands there even if it is empty.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Timestamp  string          `xml:"timestamp,attr"` // without zone, as the schema wants it; UTC
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Skipped *junitSkipped `xml:"skipped"`
	Error   *junitTrouble `xml:"error"`
	Failure *junitTrouble `xml:"failure"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitTrouble struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes r for the readers of test results in CI: a test case for the verdict, and
// one for each invariant, each thing that had to be reached and each threshold. Violated
// is a failure, inconclusive an error; what does not apply, was not exercised or only
// deviates from a SHOULD is skipped.
func JUnit(w io.Writer, r *result.Result, o Options) error {
	s := junitSuite{
		Name: "gapless " + clean(cut(r.Run.Profile, 60)), Package: "gapless", Timestamp: r.Run.Started.UTC().Format("2006-01-02T15:04:05"),
		Hostname: "localhost", Time: strconv.FormatFloat(r.Run.DurationSeconds, 'f', 3, 64), Out: clean(head(r)) + "\n",
	}
	for _, n := range r.Notes {
		s.Out += "note: " + clean(cut(n, maxText)) + "\n"
	}
	for _, p := range [][2]string{
		{"gapless", r.Run.Version}, {"profile", r.Run.Profile}, {"seed", strconv.FormatUint(r.Run.Seed, 10)}, {"target", r.Run.Target.URL},
		{"server", strings.TrimSpace(r.Run.Target.Name + " " + r.Run.Target.Version)}, {"protocol", r.Run.Target.Protocol},
		{"contract", r.Run.Target.Contract}, {"oracle", r.Run.Target.Oracle}, {"verdict", r.Verdict}, {"repeat", repeat(r, o)},
	} {
		s.Properties = append(s.Properties, junitProperty{p[0], clean(cut(p[1], maxText))})
	}
	s.Cases = append(s.Cases, verdictCase(r, o))
	for _, inv := range r.Invariants {
		s.Cases = append(s.Cases, invariantCase(r, inv, o))
	}
	for _, x := range r.Reached {
		s.Cases = append(s.Cases, reachedCase(x, o, r))
	}
	for _, t := range r.Thresholds {
		s.Cases = append(s.Cases, thresholdCase(t, o, r))
	}
	s.tally()
	body, err := xml.MarshalIndent(junitSuites{Suite: s}, "", "  ")
	if err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	if _, err := w.Write(slices.Concat([]byte(xml.Header), body, []byte("\n"))); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

func (s *junitSuite) tally() {
	s.Tests = len(s.Cases)
	for i := range s.Cases {
		c := &s.Cases[i]
		c.Time = "0"
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
}

// trouble is a message in one line, and lines of which the last says how to repeat it.
func trouble(kind, message string, lines []string, r *result.Result, o Options) *junitTrouble {
	text := ""
	for _, line := range append(lines, "repeat: "+cut(repeat(r, o), 4000)) {
		text += clean(line) + "\n"
	}
	return &junitTrouble{Type: kind, Message: clean(cut(message, maxText)), Text: text}
}

// verdictCase is there since a run can be inconclusive though nothing else failed.
func verdictCase(r *result.Result, o Options) junitCase {
	c := junitCase{Class: "gapless", Name: "verdict"}
	switch r.Verdict {
	case result.Holds:
	case result.Violated:
		c.Failure = trouble(result.Violated, r.Sentence, nil, r, o)
	default:
		var lines []string
		for _, w := range slices.Concat(r.Why, r.Next) {
			lines = append(lines, cut(w, maxText))
		}
		c.Error = trouble(result.Inconclusive, r.Sentence, lines, r, o)
	}
	return c
}

// maxShown bounds the evidence in a test case; result.json has more.
const maxShown = 10

func invariantCase(r *result.Result, inv result.Invariant, o Options) junitCase {
	c := junitCase{Class: "gapless.invariants", Name: clean(cut(inv.Name, 60))}
	became := stateOf(inv)
	if became == deviation && r.Verdict == result.Violated && tally(r)[deviation] == 0 { // strictness made it decide
		became = broken
	}
	switch {
	case became == kept:
	case became == broken:
		lines := []string{"claim: " + inv.Claim + " (" + inv.Level + ")"}
		for _, e := range inv.Evidence[:min(len(inv.Evidence), maxShown)] {
			lines = append(lines, seen(e))
		}
		c.Failure = trouble(result.Violated, inOneLine(inv), lines, r, o)
	case became == unsure && inv.Role != "watched":
		c.Error = trouble(result.Inconclusive, checked(inv), nil, r, o)
	default:
		c.Skipped = &junitSkipped{Message: clean(cut(string(became)+": "+checked(inv), maxText))}
	}
	return c
}

// seen is one violation in one line.
func seen(e result.Evidence) string {
	text := fmt.Sprintf("stream %d, session %d", e.Stream, e.Session)
	if e.Link > 0 {
		text += fmt.Sprintf(", link %d", e.Link)
	}
	if e.Messages != "" {
		text += ", messages " + cut(e.Messages, 100)
	}
	if e.Cursor >= 0 {
		text += fmt.Sprintf(", cursor #%d", e.Cursor)
	}
	if e.After != "" {
		text += ", after " + cut(e.After, 60)
	}
	if e.Text != "" {
		text += ": " + cut(e.Text, 200)
	}
	return text
}

func reachedCase(x result.Reached, o Options, r *result.Result) junitCase {
	c := junitCase{Class: "gapless.reach", Name: clean(cut(x.Name, 60))}
	if !x.OK {
		c.Error = trouble(result.Inconclusive, fmt.Sprintf("wanted %s, got %s", count(x.Want), count(x.Got)), nil, r, o)
	}
	return c
}

func thresholdCase(t result.Threshold, o Options, r *result.Result) junitCase {
	c := junitCase{Class: "gapless.thresholds", Name: clean(cut(t.Figure+" "+t.Expression, 100))}
	if !t.OK {
		c.Failure = trouble("threshold", got(t), nil, r, o)
	}
	return c
}
