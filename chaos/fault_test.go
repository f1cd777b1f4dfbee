package chaos

import (
	"strings"
	"testing"
)

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
		if !strings.HasSuffix(p.About(), ".") || p.DrawnByDefault() != (p <= AtLive) || (places[p].strikes == nil) != places[p].written {
			t.Errorf("%s: incomplete", p)
		}
	}
	if len(AllKinds()) != 12 || len(AllPlaces()) != 15 || !strings.HasPrefix(Kind(99).String()+Place(99).String(), "kind(99)place(99)") {
		t.Error("the catalogues are not those of the issue")
	}
}
