package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// How much of a list a text shows.
const (
	shownItems = 20
	shownName  = 60 // bytes
	shownText  = 70
	shownNeeds = 8
)

// referenceTool is what is called where nobody named a tool; few other servers have it.
const referenceTool = "emit"

// advice keeps the values of an example from making calls that are over before a cut.
const advice = "choose values that make a call last a second or two"

// noArguments says of a tool or a prompt that its name is enough.
const noArguments = "needs no arguments"

// Check says why the tool cannot be called with these arguments: there is none of this name
// ([Survey.Complain]), or required arguments are missing. nil: as far as the list tells it can.
func (s Survey) Check(name string, args map[string]any) error {
	i := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("%s", s.Complain(name))
	}
	t := s.Tools[i]
	missing := without(t.Required, args)
	if why := t.lacks(missing); why != "" {
		if len(missing) > 0 && !t.tasks {
			why += " (" + advice + ")"
		}
		return fmt.Errorf("tool %s %s", show(name), why)
	}
	return nil
}

// CheckPrompt is [Survey.Check] for a prompt.
func (s Survey) CheckPrompt(name string, args map[string]any) error {
	i := slices.IndexFunc(s.Prompts, func(p Prompt) bool { return p.Name == name })
	if i < 0 {
		offers := make([]offer, len(s.Prompts))
		for i, p := range s.Prompts {
			offers[i] = offer{name: p.Name, about: p.Description, usable: len(p.Required) == 0, needs: noArguments}
			if len(p.Required) > 0 {
				offers[i].needs = "needs " + enumerate(p.Required)
			}
		}
		return fmt.Errorf("%s", complain(fmt.Sprintf("no prompt %q", show(name)), name, offers, s.noPrompts))
	}
	if missing := without(s.Prompts[i].Required, args); len(missing) > 0 {
		return fmt.Errorf("prompt %s needs %s", show(name), enumerate(missing))
	}
	return nil
}

// Complain is the text for a tool that the server does not have: what may have been meant,
// and what there is.
func (s Survey) Complain(name string) string {
	offers, advise := make([]offer, len(s.Tools)), false
	for i, t := range s.Tools {
		offers[i] = offer{name: t.Name, about: t.Description, usable: t.Usable, needs: cmp.Or(t.Why, noArguments)}
		advise = advise || t.example != ""
	}
	about := fmt.Sprintf("no tool %q", show(name))
	if name == referenceTool && len(offers) > 0 {
		about, name = "name the tool to call with --tool", ""
	}
	text := complain(about, name, offers, s.noTools)
	if advise {
		text += "\n" + advice
	}
	return text
}

// An offer is one thing of a list.
type offer struct {
	name, about string
	usable      bool
	needs       string // "": nothing is to be said
}

func complain(about, name string, offers []offer, missing error) string {
	var b strings.Builder
	b.WriteString(about)
	switch {
	case missing != nil:
		fmt.Fprintf(&b, ": the server has no list of them (%s)", plain(missing.Error(), 200))
		return b.String()
	case len(offers) == 0:
		b.WriteString(": the server offers none")
		return b.String()
	}
	if meant := closest(name, offers); meant != "" {
		fmt.Fprintf(&b, "; did you mean %s?", show(meant))
	} else {
		b.WriteByte(';')
	}
	b.WriteString(" the server offers:")
	slices.SortStableFunc(offers, func(x, y offer) int { // what needs nothing first
		switch {
		case x.usable && !y.usable:
			return -1
		case y.usable && !x.usable:
			return 1
		}
		return strings.Compare(x.name, y.name)
	})
	for _, o := range offers[:min(len(offers), shownItems)] {
		fmt.Fprintf(&b, "\n  %s", show(o.name))
		if o.needs != "" {
			b.WriteString("  " + o.needs)
		}
		if about := plain(o.about, shownText); about != "" {
			fmt.Fprintf(&b, "  (%s)", about)
		}
	}
	if n := len(offers) - shownItems; n > 0 {
		fmt.Fprintf(&b, "\n  and %d more", n)
	}
	return b.String()
}

// closest is the name that a slip of the finger may have made of the one given; "" if none
// is near. Of equals the first in the alphabet counts.
func closest(name string, offers []offer) string {
	if len(name) > shownName {
		return ""
	}
	type near struct {
		name string
		far  int
	}
	var all []near
	for _, o := range offers {
		if len(o.name) > shownName {
			continue
		}
		x, y := strings.ToLower(name), strings.ToLower(o.name)
		far := distance(x, y)
		if far > max(1, len(x)/3) && !(len(x) >= 3 && (strings.Contains(y, x) || strings.Contains(x, y) && len(y) >= 3)) {
			continue
		}
		all = append(all, near{o.name, far})
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(x, y near) int {
		return cmp.Or(cmp.Compare(x.far, y.far), strings.Compare(x.name, y.name))
	}).name
}

// distance counts the letters that have to be put in, taken out, replaced, or swapped with
// their neighbour, to make y of x.
func distance(x, y string) int {
	a, b := []rune(x), []rune(y)
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// without lists the names that are no key of args.
func without(names []string, args map[string]any) (missing []string) {
	for _, name := range names {
		if _, given := args[name]; !given {
			missing = append(missing, name)
		}
	}
	return missing
}

func enumerate(names []string) string {
	shown := make([]string, 0, shownNeeds+1)
	for _, name := range names[:min(len(names), shownNeeds)] {
		shown = append(shown, show(name))
	}
	if n := len(names) - shownNeeds; n > 0 {
		shown = append(shown, fmt.Sprintf("%d more", n))
	}
	return strings.Join(shown, ", ")
}

// quote makes one word for a shell of it.
func quote(s string) string {
	return "'" + strings.ReplaceAll(plain(s, maxExample+4), "'", `'\''`) + "'"
}

func show(name string) string { return plain(name, shownName) }

// plain makes one line of somebody else's text, without what a terminal would obey.
func plain(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
	return cut(strings.Join(strings.Fields(s), " "), most)
}

// cut leaves out the end of a long text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
