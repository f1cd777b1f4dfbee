package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// inconclusive says why the run cannot tell, what was seen all the same and
// what to do next.
func inconclusive(p *page, r *result.Result) {
	missed := missed(r)
	var why []string
	for _, w := range r.Why {
		if !slices.Contains(missed, spoken(w)) && !strings.Contains(r.Sentence, w) { // else it is said beside it
			why = append(why, w)
		}
	}
	p.list("why", why)
	if len(missed) > 0 {
		p.list("not reached", []string{strings.Join(missed, "; ")})
	}
	p.list("seen", r.Seen)
	arrivalsLine(p, r)
	p.list("next", r.Next)
}

// spoken writes a name from a profile as people do.
func spoken(name string) string { return strings.ReplaceAll(name, "_", " ") }

// missed lists what the run wanted to meet and did not.
func missed(r *result.Result) []string {
	var out []string
	for _, x := range r.Reached {
		if !x.OK {
			out = append(out, fmt.Sprintf("%s: wanted %s, got %s", spoken(x.Name), count(x.Want), count(x.Got)))
		}
	}
	return out
}

// list writes texts under one label, each on a line of its own.
func (p *page) list(label string, texts []string) {
	for i, text := range texts {
		if i == maxTexts {
			text = fmt.Sprintf("and %d more", len(texts)-i)
		}
		p.row(15, label)
		p.text(15, text)
		if i == maxTexts {
			return
		}
		label = ""
	}
}
