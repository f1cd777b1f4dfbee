package defect

import "testing"

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want Set
		ok   bool
	}{
		{"", Set{}, true},
		{"S03", Set{ID: S03a}, true},
		{"S03a", Set{ID: S03a}, true},
		{"s03B", Set{ID: S03b}, true},
		{"S03b,k=10", Set{ID: S03b, Every: 10}, true},
		{"S05", Set{ID: S05a}, true},
		{"S05b", Set{ID: S05b}, true},
		{"S05b,k=2", Set{}, false},
		{"S03,k=0", Set{}, false},
		{"S03,k=x", Set{}, false},
		{"S03,", Set{}, false},
		{"S03,every=1", Set{}, false},
		{"S99", Set{}, false},
		{",k=1", Set{}, false},
		{" S03", Set{}, false},
	}
	for _, tt := range tests {
		got, err := Parse(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %+v, %v", tt.text, got, err)
		}
		if err != nil {
			continue
		}
		if again, err := Parse(got.String()); again != got || err != nil {
			t.Errorf("%q: written as %q, read as %+v, %v", tt.text, got, again, err)
		}
	}
}

func TestSet_TheZeroSetIsACorrectServer(t *testing.T) {
	var none Set
	for n := range uint64(20) {
		if none.Shift(n+1) != 0 {
			t.Errorf("resume %d is shifted", n+1)
		}
	}
	for _, attached := range []bool{false, true} {
		for _, response := range []bool{false, true} {
			if none.Swallow(attached, response) {
				t.Errorf("swallows with attached %t, response %t", attached, response)
			}
		}
	}
}

func TestAll_EachCanBeParsedAndDoesSomething(t *testing.T) {
	for _, d := range All() {
		set, err := Parse(string(d.ID))
		if err != nil || set.ID != d.ID {
			t.Errorf("%s: %+v, %v", d.ID, set, err)
		}
		if set.Shift(1) == 0 && !set.Swallow(false, true) {
			t.Errorf("%s does nothing", d.ID)
		}
	}
}
