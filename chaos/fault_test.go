package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func ExampleParseFault() {
	f, err := ParseFault("rst@mid-event,between-events:1.5")
	fmt.Println(f.Kind, f.At, f.PerStream, err)
	_, err = ParseFault("rst@mid-evnt")
	fmt.Println(err)
	// Output:
	// rst [mid-event between-events] 1.5 <nil>
	// fault "rst@mid-evnt", column 5: unknown place "mid-evnt", did you mean "mid-event"? (allowed: after-priming, between-events, mid-event, before-response, mid-response, after-response, resume-before-headers, resume-before-first-event, mid-replay, at-live)
}

func TestParseFault(t *testing.T) {
	good := map[string]Fault{
		"none":                                {},
		"rst":                                 {Kind: RST, PerStream: 1},
		"fin:0.5":                             {Kind: FIN, PerStream: 0.5},
		"chunk-end@mid-response":              {Kind: ChunkEnd, At: []Place{MidResponse}, PerStream: 1},
		"rst@mid-event,between-events:1.5":    {Kind: RST, At: []Place{MidEvent, BetweenEvents}, PerStream: 1.5},
		"fin@resume-before-first-event:1e-01": {Kind: FIN, At: []Place{ResumeBeforeFirstEvent}, PerStream: 0.1},
	}
	for in, want := range good {
		got, err := ParseFault(in)
		if err != nil || got.Kind != want.Kind || !slices.Equal(got.At, want.At) || got.PerStream != want.PerStream {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%q parses to what is not valid: %v", in, err)
		}
	}
	bad := []struct{ in, want string }{
		{"", `column 1: unknown kind "" (allowed: none, rst, fin, chunk-end)`},
		{"rts", `column 1: unknown kind "rts", did you mean "rst"?`},
		{"chunk:1", `did you mean "chunk-end"?`},
		{"blackhole", `unknown kind "blackhole" (allowed`},
		{"rst@", `column 5: unknown place "" (allowed`},
		{"rst@mid-event,,at-live", `column 15: unknown place ""`},
		{"rst@mid-event,at-life", `column 15: unknown place "at-life", did you mean "at-live"?`},
		{"rst@mid-event,mid-event", `column 15: place mid-event is named twice`},
		{"chunk-end@between-events", `column 11: chunk-end@between-events is impossible: outside an event`},
		{"rst:0", `column 5: "0" is no number`},
		{"rst:-1", `"-1" is no number`},
		{"rst:NaN", `"NaN" is no number`},
		{"rst:x", `"x" is no number`},
		{"rst:", `"" is no number`},
		{"rst:2000", `at most 1000`},
		{"rst,every=30s", `rst takes no options`},
		{"rst:1,by=5ms", `column 7: rst takes no options`},
		{"none@mid-event", `none has no place`},
		{"none:1", `none takes nothing behind it`},
	}
	for _, c := range bad {
		if _, err := ParseFault(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q in it", c.in, err, c.want)
		}
	}
}

// FuzzParseFault: what parses is valid, and is written the way it was meant.
func FuzzParseFault(f *testing.F) {
	for _, s := range []string{"none", "rst", "fin@mid-event:2", "chunk-end@mid-event,mid-response:0.25", "rst@at-live:1,x=y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseFault(s)
		if err != nil {
			return
		}
		again, err := ParseFault(got.String())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(got) || got.Validate() != nil {
			t.Fatalf("%q is %+v, written %q, read %+v, %v", s, got, got.String(), again, err)
		}
	})
}

func TestCataloguesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range AllKinds() {
		if got, err := ParseKind(k.String()); err != nil || got != k || seen[k.String()] {
			t.Errorf("kind %d: name %q, parsed to %v, %v", k, k, got, err)
		}
		seen[k.String()] = true
		if !strings.HasSuffix(k.About(), ".") {
			t.Errorf("%s: %q is no sentence", k, k.About())
		}
	}
	for _, p := range AllPlaces() {
		if got, err := ParsePlace(p.String()); err != nil || got != p || seen[p.String()] {
			t.Errorf("place %d: name %q, parsed to %v, %v", p, p, got, err)
		}
		seen[p.String()] = true
		if !strings.HasSuffix(p.About(), ".") || !p.DrawnByDefault() || places[p].strikes == nil {
			t.Errorf("%s: incomplete", p)
		}
	}
	if len(AllKinds()) != 4 || len(AllPlaces()) != 10 || !strings.HasPrefix(Kind(9).String()+Place(99).String(), "kind(9)place(99)") {
		t.Error("the catalogues are not those of the issue")
	}
}
