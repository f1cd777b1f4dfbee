package lab

import (
	"fmt"
	"math"
	"regexp"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// From when on a call says something about buffering: with fewer messages, or in less time,
// a burst at its end is nothing special.
const (
	burstMessages = 5
	burstCall     = time.Second
	burstSpan     = 250 * time.Millisecond // at most, and a twentieth of the call
	burstHead     = 4                      // a head in the first quarter of the call came at once
)

// A burst is what was seen of a call whose events all came together.
type burst struct {
	messages   int
	took, span time.Duration // from the request to the last event; from the first event to there
	head       time.Duration // from the request to the head
	primed     bool          // an event without a message was among them
}

// buffered says in one sentence that something between the target and us seems to hold
// answers back, "" if nothing hints at it. It looks at control calls: no fault is in their
// way. front is the name of who answered, as [loadgen.Target] has it.
//
// Where a server sends what it has as it has it, the first event of a call that takes its time
// comes long before the last. All events in one moment at the end is what a proxy does that
// collects an answer; a tool that says everything at its end looks the same, so the sentence
// says what was seen and what that usually means. A priming event settles it: servers send it
// at once, so one that came with the messages was held back. The head alone does not, though it
// turns the scales: a server may keep it until it has something to say (go-sdk without an event
// store does), and a proxy may pass it on and hold the rest. One call that flowed clears the way.
func buffered(calls [][]history.Record, front string) string {
	var most burst
	for _, records := range calls {
		b, long := lookAt(records)
		if long && b.span > min(burstSpan, b.took/20) {
			return ""
		}
		if long && b.messages > most.messages {
			most = b
		}
	}
	if most.messages == 0 {
		return ""
	}
	seen := fmt.Sprintf("%d messages of a %s call came within %s at its end", most.messages, seconds(most.took), milliseconds(most.span))
	box := inFront(front)
	const off = "turn buffering off there (for nginx: X-Accel-Buffering: no, or proxy_buffering off)"
	switch {
	case most.primed:
		return "the answers are buffered on the way: " + seen + ", and the event that opens the stream with them" + box + "; " + off
	case most.head < most.took/burstHead:
		return seen + ", though the head of the answer was there at once" + box +
			": either the tool says all at its end, or the answers are buffered on the way; if so, " + off
	default:
		return seen + ", and the head of the answer no sooner" + box +
			": unless the tool says all at its end, the answers are buffered on the way; " + off
	}
}

// lookAt measures a call; long: it had the messages and the time to show something, in one
// exchange that was answered by an event stream.
func lookAt(records []history.Record) (b burst, long bool) {
	var asked, first, last time.Duration
	events, sse := 0, false
	for i := range records {
		r := &records[i]
		if r.Attempt > 0 {
			return burst{}, false
		}
		switch r.Kind {
		case history.KindAttempt:
			asked = r.At
		case history.KindHead:
			sse, b.head = r.Head.Body == history.BodySSE, r.At-asked
		case history.KindEvent:
			if events++; events == 1 {
				first = r.At
			}
			last = r.At
			switch r.Event.Class {
			case history.ClassEmpty:
				b.primed = true
			case history.ClassProgress, history.ClassNotification:
				b.messages++
			}
		}
	}
	b.took, b.span = last-asked, last-first
	return b, sse && b.messages >= burstMessages && b.took >= burstCall
}

// inFront names who answered. A Via field, and some names of servers, say that somebody else
// stands behind.
func inFront(front string) string {
	if front == "" {
		return ""
	}
	via := regexp.MustCompile(`(^|, )(HTTP/)?[123](\.\d)? \S`)
	known := regexp.MustCompile(`(?i)nginx|openresty|cloudflare|cloudfront|envoy|varnish|haproxy|awselb|traefik|caddy|squid|google frontend|akamai|fly/|vercel`)
	if via.MatchString(front) || known.MatchString(front) {
		return " (" + front + " is in front)"
	}
	return " (it came from " + front + ")"
}

// What makes a silence and a group of them.
const (
	cutSilence = 5 * time.Second
	cutSpread  = time.Second // between its silences, or a twentieth of them; and more between its ends
	cutLinks   = 3
	cutWidth   = 1.005 // of a cell: where it ends, relative to its beginning
	cutCells   = 2000  // 5 s × 1.005²⁰⁰⁰ is more than a day
)

// idleCuts gathers how long links were silent before they ended, to recognise something
// that ends links because they are silent. Its memory is bounded; the zero value is ready.
type idleCuts struct {
	mu     sync.Mutex
	cells  [cutCells]*cutCell
	total  int           // ends after a silence
	longer time.Duration // the longest silence that ended otherwise
}

// A cutCell holds the silences of about one length.
type cutCell struct {
	links       int
	least, most time.Duration
	first, last time.Time // when the links ended
}

// note takes the end of an exchange, by nothing of ours but perhaps a limit, after the time in
// which nothing had come. It may be called by any goroutine.
func (c *idleCuts) note(quiet time.Duration, end history.End) {
	if quiet < cutSilence {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch end {
	case history.EndClean, history.EndMidEvent, history.EndTruncated, history.EndReset:
	default: // it was silent as long as that, and nobody cut it
		c.longer = max(c.longer, quiet)
		return
	}
	c.total++
	i := min(int(math.Log(float64(quiet)/float64(cutSilence))/math.Log(cutWidth)), cutCells-1)
	if c.cells[i] == nil {
		c.cells[i] = &cutCell{least: quiet, first: now}
	}
	c.cells[i].add(cutCell{1, quiet, quiet, now, now})
}

func (c *cutCell) add(o cutCell) {
	c.links += o.links
	c.least, c.most = min(c.least, o.least), max(c.most, o.most)
	if o.first.Before(c.first) {
		c.first = o.first
	}
	if o.last.After(c.last) {
		c.last = o.last
	}
}

// sentence says that links are cut for their silence, "" if that is not what was seen: at
// least three ended after about the same silence, they are half of all that ended after one, no
// link was silent for longer but for a tenth of them, and they did not all end at one
// instant, as when a server goes down.
func (c *idleCuts) sentence() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best cutCell
	above := 0 // ends after longer silences than best
	for i := range c.cells {
		if c.cells[i] == nil {
			continue
		}
		if group := c.groupAt(i); group.links > best.links {
			best = group
		}
	}
	for _, cell := range c.cells {
		if cell != nil && cell.least > best.most {
			above += cell.links
		}
	}
	spread := max(cutSpread, best.most/20)
	switch {
	case best.links < cutLinks, 2*best.links < c.total, 10*above > best.links,
		c.longer > best.most+spread, best.last.Sub(best.first) <= cutSpread:
		return ""
	}
	between := fmt.Sprintf("%.1f-%.1f s", best.least.Seconds(), best.most.Seconds())
	return fmt.Sprintf("something on the way, or the server, cuts links that are silent for %s (%d links, %s): "+
		"raise its idle timeout or let the server send keep-alive comments more often",
		seconds(best.least+(best.most-best.least)/2), best.links, between)
}

// groupAt joins the cells from i on whose silences are about the same.
func (c *idleCuts) groupAt(i int) cutCell {
	group := *c.cells[i]
	for _, cell := range c.cells[i+1:] {
		if cell == nil {
			continue
		}
		if cell.most-group.least > max(cutSpread, cell.most/20) {
			break
		}
		group.add(*cell)
	}
	return group
}

// seconds writes a time in seconds, with one decimal where it has one.
func seconds(d time.Duration) string {
	if d = d.Round(100 * time.Millisecond); d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", max(1, d.Round(time.Millisecond).Milliseconds()))
}
