package chaos

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fault is one item of a mix: a kind, where it may strike, how often.
type Fault struct {
	Kind Kind
	// At lists the places; empty: every place drawn by default that the kind applies to.
	At []Place
	// PerStream is how many strike each stream; a fraction is the share of the streams
	// that get one more.
	PerStream float64
}

// maxPerStream bounds PerStream: more cuts than that say nothing new of a stream.
const maxPerStream = 1000

// Validate returns all complaints about the item in one error.
func (f Fault) Validate() error {
	var wrong []string
	if int(f.Kind) >= len(kinds) {
		wrong = append(wrong, fmt.Sprintf("there is no kind %d", f.Kind))
	}
	for _, p := range f.At {
		if int(p) >= len(places) {
			wrong = append(wrong, fmt.Sprintf("there is no place %d", p))
		}
	}
	if f.Kind != None && (math.IsNaN(f.PerStream) || f.PerStream <= 0 || f.PerStream > maxPerStream) {
		wrong = append(wrong, fmt.Sprintf("per stream must be above 0 and at most %d, not %v", maxPerStream, f.PerStream))
	}
	if f.Kind == None && (len(f.At) > 0 || f.PerStream != 0) {
		wrong = append(wrong, "none takes neither places nor a number")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("fault %s: %s", f, strings.Join(wrong, "; "))
	}
	return nil
}

// String writes the fault as a flag takes it.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	for i, p := range f.At {
		b.WriteByte("@,"[min(i, 1)])
		b.WriteString(p.String())
	}
	if f.Kind != None {
		b.WriteByte(':')
		b.WriteString(strconv.FormatFloat(f.PerStream, 'f', -1, 64))
	}
	return b.String()
}

// ParseFault reads KIND[@PLACE[,PLACE…]][:N] as the flag --fault takes it; N is 1 when
// it is missing. Errors name the column, from 1, and what is allowed there.
func ParseFault(text string) (Fault, error) {
	p := faultText{text: text}
	f, err := p.parse()
	if err != nil {
		return Fault{}, fmt.Errorf("fault %q, column %d: %w", text, p.at+1, err)
	}
	return f, nil
}

// faultText is a flag's value being read; at is where the part under way begins, next
// where the one behind it does.
type faultText struct {
	text     string
	at, next int
}

func (p *faultText) parse() (Fault, error) {
	var f Fault
	var err error
	name, next := p.part("@:,")
	if f.Kind, err = ParseKind(name); err != nil {
		return f, err
	}
	if next == '@' {
		if next, err = p.places(&f); err != nil {
			return f, err
		}
	}
	if next == ',' {
		return f, fmt.Errorf("%s takes no options", f.Kind)
	}
	if f.Kind == None {
		if next != 0 {
			return f, fmt.Errorf("none takes nothing behind it")
		}
		return f, nil
	}
	f.PerStream = 1
	if next != ':' {
		return f, nil
	}
	number, next := p.part(",")
	f.PerStream, err = strconv.ParseFloat(number, 64)
	if err != nil || !(f.PerStream > 0 && f.PerStream <= maxPerStream) {
		return f, fmt.Errorf("%q is no number of faults per stream: above 0, at most %d, like 1 or 0.5", number, maxPerStream)
	}
	if next == ',' {
		p.part("")
		return f, fmt.Errorf("%s takes no options", f.Kind)
	}
	return f, nil
}

// places reads the list behind the @ and returns the separator that ended it.
func (p *faultText) places(f *Fault) (byte, error) {
	if f.Kind == None {
		return 0, fmt.Errorf("none has no place")
	}
	for {
		name, next := p.part(",:")
		place, err := ParsePlace(name)
		if err != nil {
			return 0, err
		}
		if slices.Contains(f.At, place) {
			return 0, fmt.Errorf("place %s is named twice", place)
		}
		if why := misfit(f.Kind, place); why != "" {
			return 0, fmt.Errorf("%s@%s is impossible: %s", f.Kind, place, why)
		}
		f.At = append(f.At, place)
		if next != ',' {
			return next, nil
		}
	}
}

// part returns the text up to the next of the separators, and that separator; 0 at the
// end.
func (p *faultText) part(separators string) (string, byte) {
	p.at = p.next
	rest := p.text[p.at:]
	if i := strings.IndexAny(rest, separators); i >= 0 {
		p.next = p.at + i + 1
		return rest[:i], rest[i]
	}
	p.next = len(p.text)
	return rest, 0
}
