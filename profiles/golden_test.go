package profiles

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The golden files hold every built-in profile with all its defaults, so that a
// change of a default shows in each profile that it changes.
func TestBuiltinsResolveToTheirGoldenFiles(t *testing.T) {
	var known []string
	for _, name := range Builtin() {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".golden")
		known = append(known, path)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs (go test ./profiles -update writes it anew)\ngot\n%s", path, got)
		}
		again, err := Parse(path, want)
		if err != nil {
			t.Fatalf("the golden file is no profile: %v", err)
		}
		if second, err := again.YAML(); err != nil || string(second) != string(want) {
			t.Errorf("%s does not load to itself: %v", path, err)
		}
	}
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || !slices.Equal(files, known) {
		t.Errorf("golden files %v, profiles %v, error %v", files, known, err)
	}
}

// A place at which nothing was planned cannot be struck: enough faults of every
// kind are asked for that each of its places is dealt several.
func TestCutEverywhereCoversEveryKindAtEveryPlace(t *testing.T) {
	p, err := Load("cut-everywhere")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range builtKinds() {
		i := slices.IndexFunc(p.Faults.Mix, func(f Fault) bool { return f.Kind == kind })
		if i < 0 {
			if kind != "none" {
				t.Errorf("kind %s is missing", kind)
			}
			continue
		}
		f := p.Faults.Mix[i]
		if len(f.At) > 0 {
			t.Errorf("kind %s strikes at %v alone", kind, f.At)
		}
		drawn := len(places()) - 4 // those before the first id are drawn only when named
		if n := f.PerStream * float64(p.Load.Arrivals()) / float64(drawn); f.Every == 0 && n < 3 {
			t.Errorf("kind %s: %.1f faults per place", kind, n)
		}
	}
	if p.Load.GetStreams == 0 {
		t.Error("there is no GET stream to be struck at")
	}
}
