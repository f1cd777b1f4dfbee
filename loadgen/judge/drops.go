package judge

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Drops say what a cut costs where a call cannot be taken up again. They are filled in
// every run, and tell most where nothing is resumed.
type Drops struct {
	// Unanswered of Cut calls of the load never got their response; UncutComplete of Uncut
	// calls met no cut and were answered.
	Cut, Unanswered, Uncut, UncutComplete int64
	// Share is Unanswered among all calls of the load, from 0 to 1.
	Share    float64
	Handlers Handlers
	Reissues Reissues
}

// Handlers say what became of the handlers of calls that were cut and never answered,
// as the ledger tells: Known = Finished + Cancelled + Running. Running ones had not ended
// when the ledger was asked. Without a ledger all are 0.
type Handlers struct{ Known, Finished, Cancelled, Running int64 }

// Reissues say how calls went that were made again under a new id.
type Reissues struct {
	Asked, Answered int64
	// Messages came again with the answered ones, of Want that the control calls let expect;
	// Foreign are messages of the calls that were cut, and came after all.
	Messages, Want, Foreign int64
	// Took, from the request to the response of the answered ones: quantiles, exact to 3 %.
	P50, P95, Max time.Duration
	// Twice of TwiceKnown calls ran twice, once for each time that they were made, as the
	// ledger tells.
	Twice, TwiceKnown int64
}

// drops is what the Judge keeps of them.
type drops struct {
	handlers Handlers
	reissues Reissues
	took     spread
}

// add takes over what a stream of the load tells. The Judge's lock is held.
func (d *drops) add(s *Stream) {
	known := s.ledger != nil && s.ledger.done && s.ledger.known
	if h := &d.handlers; known && s.faults.cuts > 0 && s.responses == 0 {
		h.Known++
		switch l := &s.ledger.call; {
		case l.Cancelled:
			h.Cancelled++
		case l.Responses > 0:
			h.Finished++
		default:
			h.Running++
		}
	}
	r, p := &d.reissues, s.reissue
	if p == nil {
		return
	}
	r.Asked++
	r.Foreign += int64(p.Foreign)
	if !p.Response {
		return
	}
	r.Answered++
	r.Messages += int64(p.Messages)
	r.Want += int64(p.Want)
	d.took.add(p.Took)
	if known {
		r.TwiceKnown++
		if s.ledger.call.Executions > 0 { // and its re-issue was answered, so it ran too
			r.Twice++
		}
	}
}

func (d *drops) export(sp *special, cut int64) Drops {
	out := Drops{Cut: cut, Unanswered: sp.cutUnanswered, Uncut: sp.uncut, UncutComplete: sp.uncutComplete,
		Handlers: d.handlers, Reissues: d.reissues}
	if all := cut + sp.uncut; all > 0 {
		out.Share = float64(sp.cutUnanswered) / float64(all)
	}
	r := &out.Reissues
	r.P50, r.P95, r.Max = d.took.quantile(0.5), d.took.quantile(0.95), d.took.Max
	return out
}

// seen puts the figures into sentences, the most telling first.
func (d *Drops) seen() []string {
	if d.Cut == 0 {
		return nil
	}
	never := "never got their response"
	if d.Cut == 1 {
		never = "never got its response"
	}
	first := fmt.Sprintf("%s of %s %s (%s of all calls with this fault mix)", thousands(d.Unanswered), plural(d.Cut, "cut call", "cut calls"),
		never, percent(d.Share))
	if d.Uncut > 0 {
		first += fmt.Sprintf("; %s of %s complete", thousands(d.UncutComplete), plural(d.Uncut, "uncut call", "uncut calls"))
	}
	out := []string{first}
	if d.Unanswered > 0 {
		out = append(out, d.Handlers.String())
	}
	if d.Reissues.Asked > 0 {
		out = append(out, d.Reissues.String())
	}
	return out
}

// String says whether the handlers ran on.
func (h Handlers) String() string {
	if h.Known == 0 {
		return "whether the handler of a cut call ran on cannot be told from outside"
	}
	text := fmt.Sprintf("of %s %s ran to the end", plural(h.Known, "cut call", "cut calls"), thousands(h.Finished))
	if h.Cancelled > 0 {
		text += ", " + plural(h.Cancelled, "was cancelled", "were cancelled")
	}
	if h.Running > 0 {
		text += fmt.Sprintf(", %s had not ended when the ledger was asked", thousands(h.Running))
	}
	return text + " (ledger)"
}

// String says what making a call again costs, and whether it then runs twice.
func (r Reissues) String() string {
	answered := fmt.Sprintf("%s of %s answered", thousands(r.Answered), plural(r.Asked, "re-issued call was", "re-issued calls were"))
	twice := "whether they ran twice cannot be told from outside"
	if r.TwiceKnown > 0 {
		twice = fmt.Sprintf("%s of %s ran twice (ledger)", thousands(r.Twice), thousands(r.TwiceKnown))
	}
	if r.Answered == 0 {
		return answered
	}
	cost := "a re-issue costs p50 " + short(r.P50)
	if again := (r.Messages + r.Answered/2) / r.Answered; again > 0 {
		all := ""
		if r.Messages >= r.Want {
			all = "all "
		}
		cost += " and " + all + plural(again, "message", "messages") + " again"
	}
	return fmt.Sprintf("%s (%s); %s", cost, answered, twice)
}

// percent writes a share with two digits.
func percent(share float64) string {
	switch p := share * 100; {
	case p == 0 || p >= 9.95:
		return fmt.Sprintf("%.0f %%", p)
	default:
		return fmt.Sprintf("%.2g %%", p)
	}
}

// short writes a time as people say it: "850ms", "1.2 s".
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return strings.Replace(fmt.Sprintf("%.1f s", d.Seconds()), ".0 s", " s", 1)
	}
	return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
}

// A spread counts durations in buckets, each at most 1/16 wider than the one below.
// It can hold no more than about a thousand buckets, and does not depend on the order.
type spread struct {
	Buckets map[uint16]int64
	N       int64
	Max     time.Duration
}

// fine is the number of bits by which durations of one power of two are told apart.
const fine = 4

func (s *spread) add(d time.Duration) {
	d = max(d, 1<<fine)
	if s.Buckets == nil {
		s.Buckets = map[uint16]int64{}
	}
	shift := bits.Len64(uint64(d)) - 1 - fine
	s.Buckets[uint16(shift)<<fine|uint16(d>>shift)&(1<<fine-1)]++
	s.N++
	s.Max = max(s.Max, d)
}

// quantile returns the middle of the bucket in which the q-th share of all lies.
func (s *spread) quantile(q float64) time.Duration {
	keys := make([]uint16, 0, len(s.Buckets))
	for k := range s.Buckets {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	rank := int64(q * float64(s.N))
	for _, k := range keys {
		if rank -= s.Buckets[k]; rank < 0 {
			shift := k >> fine
			from := time.Duration(1<<fine|int64(k)&(1<<fine-1)) << shift
			return min(from+(1<<shift)/2, s.Max)
		}
	}
	return s.Max
}
