package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is one item of a mix: a kind, where it may strike, how often.
type Fault struct {
	Kind Kind
	// At lists the places; empty: every place drawn by default that the kind applies to.
	At []Place
	// PerStream is how many strike each stream; a fraction is the share of the streams
	// that get one more. At get-stream it counts for each standalone GET stream, at
	// initialize for each session.
	PerStream float64
	// Every is the clock of a kind that strikes the whole run, in place of PerStream;
	// Share is how much of the links it strikes, from 0 to 1. 0 is all.
	Every time.Duration
	Share float64
	// For is how long it acts: 0 is 1 s for what slows a link down, and until the run
	// heals for a black hole. Of a status it is what Retry-After says.
	For time.Duration
	// By is by how much a delay delays. Rate is the bytes per second of a throttle. Code
	// is a status; 0 is 503.
	By   time.Duration
	Rate float64
	Code int
}

const (
	// maxPerStream bounds PerStream: more cuts than that say nothing new of a stream.
	maxPerStream = 1000
	// minEvery keeps storms apart: a link that comes back has to live for a moment.
	minEvery = time.Millisecond
)

// Validate returns all complaints about the item in one error.
func (f Fault) Validate() error {
	if int(f.Kind) >= len(kinds) {
		return fmt.Errorf("fault %s: there is no kind %d", f, f.Kind)
	}
	var wrong []string
	for _, p := range f.At {
		if int(p) >= len(places) {
			wrong = append(wrong, fmt.Sprintf("there is no place %d", p))
		}
	}
	wrong = append(append(wrong, f.wrongNumber()...), f.wrongParameters()...)
	if len(wrong) > 0 {
		return fmt.Errorf("fault %s: %s", f, strings.Join(wrong, "; "))
	}
	return nil
}

func (f Fault) wrongNumber() []string {
	var wrong []string
	switch {
	case f.Kind == None:
		if len(f.At) > 0 || f.PerStream != 0 || f.Every != 0 {
			wrong = append(wrong, "none takes neither places nor a number")
		}
	case kinds[f.Kind].runWide:
		if f.Every < minEvery {
			wrong = append(wrong, fmt.Sprintf("every must be at least %v, not %v", minEvery, f.Every))
		}
		if !(f.Share >= 0 && f.Share <= 1) {
			wrong = append(wrong, fmt.Sprintf("share must be from 0 to 1, not %v", f.Share))
		}
		if len(f.At) > 0 || f.PerStream != 0 {
			wrong = append(wrong, fmt.Sprintf("a %s strikes the whole run: it has neither places nor a number per stream", f.Kind))
		}
	case !(f.PerStream > 0 && f.PerStream <= maxPerStream):
		wrong = append(wrong, fmt.Sprintf("per stream must be above 0 and at most %d, not %v", maxPerStream, f.PerStream))
	case f.Every != 0:
		wrong = append(wrong, fmt.Sprintf("%s strikes at positions of a stream and takes no every", f.Kind))
	}
	return wrong
}

func (f Fault) wrongParameters() []string {
	takes := kinds[f.Kind].takes
	var wrong []string
	if f.For < 0 || f.For > 0 && !takes.lasting {
		wrong = append(wrong, fmt.Sprintf("%s takes no for of %v", f.Kind, f.For))
	}
	if takes.by != (f.By > 0) || f.By < 0 {
		wrong = append(wrong, fmt.Sprintf("%s with by %v: a delay, and nothing else, has one above 0", f.Kind, f.By))
	}
	if takes.rate && !(f.Rate >= 1 && f.Rate <= maxRate) || !takes.rate && f.Rate != 0 {
		wrong = append(wrong, fmt.Sprintf("%s with rate %v: a throttle, and nothing else, has one of at least 1 byte per second", f.Kind, f.Rate))
	}
	if takes.code && f.Code != 0 && (f.Code < 400 || f.Code > 599) {
		wrong = append(wrong, fmt.Sprintf("status %d is no refusal", f.Code))
	}
	return wrong
}

// String writes the fault as a flag takes it.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	for i, p := range f.At {
		b.WriteByte("@,"[min(i, 1)])
		b.WriteString(p.String())
	}
	if f.PerStream != 0 {
		b.WriteByte(':')
		b.WriteString(strconv.FormatFloat(f.PerStream, 'f', -1, 64))
	}
	if f.Every > 0 {
		fmt.Fprintf(&b, ",every=%v", f.Every)
	}
	if f.Share > 0 && f.Share < 1 {
		fmt.Fprintf(&b, ",share=%v", f.Share)
	}
	return string(appendParameters([]byte(b.String()), f.For, f.By, f.Rate, f.Code, ",%s=%v"))
}

// share is how much of the links a fault of the whole run strikes.
func (f Fault) share() float64 {
	if f.Share == 0 {
		return 1
	}
	return f.Share
}

// maxRate is more than any link carries.
const maxRate = 1 << 40

// appendParameters writes those that were given.
func appendParameters(b []byte, lasting, by time.Duration, rate float64, code int, format string) []byte {
	if lasting != 0 {
		b = fmt.Appendf(b, format, "for", lasting)
	}
	if by != 0 {
		b = fmt.Appendf(b, format, "by", by)
	}
	if rate != 0 {
		b = fmt.Appendf(b, format, "rate", strconv.FormatFloat(rate, 'f', -1, 64)+"/s")
	}
	if code != 0 {
		b = fmt.Appendf(b, format, "code", code)
	}
	return b
}
