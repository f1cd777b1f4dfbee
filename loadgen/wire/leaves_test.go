package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func leavesOf(data string) (all []string, valid bool) {
	var w Leaves
	w.Reset([]byte(data))
	for {
		_, v, ok := w.Next()
		if !ok {
			return all, w.Valid()
		}
		all = append(all, w.Pointer()+"="+string(v))
	}
}

func TestLeaves(t *testing.T) {
	deep := strings.Repeat("[", LeafDepth) + "1" + strings.Repeat("]", LeafDepth)
	for _, tt := range []struct {
		in    string
		want  string
		valid bool
	}{
		{`{"a":1,"b":{"c":"x","d":{}},"e":[true,[],{"f":null}]}`, `/a=1 /b/c="x" /b/d={} /e/0=true /e/1=[] /e/2/f=null`, true},
		{` [ 1 , { } ] `, `/0=1 /1={ }`, true},
		{`7`, `=7`, true},
		{`{"~/\u0061":1,"":2}`, `/~0~1a=1 /=2`, true},
		{deep, strings.Repeat("/0", LeafDepth) + "=1", true},
		{"[" + deep + "]", "", false},
		{``, "", false},
		{`[1,]`, "/0=1", false},
		{`[1]]`, "/0=1", false},
		{`{"a":1`, "/a=1", false},
		{`{"a":1}x`, "/a=1", false},
		{`{"a" 1}`, "", false},
	} {
		got, valid := leavesOf(tt.in)
		if strings.Join(got, " ") != tt.want || valid != tt.valid {
			t.Errorf("%s: %v, %v", tt.in, got, valid)
		}
	}
}

func TestPlacesOfLeavesDiffer(t *testing.T) {
	var w Leaves
	seen := map[uint64]string{}
	for _, in := range []string{`{"0":1,"a":{"b":1},"b":{"a":1},"":{"":1},"ab":2,"1":{"0":3}}`, `[1,[2,3],[[4]],{"0":5}]`, `6`} {
		w.Reset([]byte(in))
		for {
			place, _, ok := w.Next()
			if !ok {
				break
			}
			if other, twice := seen[place]; twice {
				t.Errorf("%s has the place of %s", w.Pointer(), other)
			}
			seen[place] = w.Pointer()
		}
	}
	var other Leaves
	w.Reset([]byte(`{"x":0,"a":[0,1]}`))
	other.Reset([]byte(`{"\u0061":[5,6],"x":0}`))
	w.Next()
	for range 2 {
		a, _, _ := w.Next()
		b, _, _ := other.Next()
		if a != b {
			t.Errorf("%s has another place where it is written otherwise", w.Pointer())
		}
	}
}

// flat is Leaves over what encoding/json reads.
func flat(v any, at string, all *[]string) {
	switch in := v.(type) {
	case map[string]any:
		for k, v := range in {
			flat(v, at+"/"+strings.ReplaceAll(strings.ReplaceAll(k, "~", "~0"), "/", "~1"), all)
		}
		if len(in) == 0 {
			*all = append(*all, at)
		}
	case []any:
		for i, v := range in {
			flat(v, fmt.Sprintf("%s/%d", at, i), all)
		}
		if len(in) == 0 {
			*all = append(*all, at)
		}
	default:
		*all = append(*all, at)
	}
}

// FuzzLeaves: what encoding/json reads, and no other text is valid.
func FuzzLeaves(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":"x","d":{}},"e":[true,[],{"f":null}]}`))
	f.Add([]byte(`[[[[]]],{"a":{"b":[{}]}},"\u0041"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<13 {
			t.Skip("nothing new in size")
		}
		var got []string
		var w Leaves
		w.Reset(data)
		for {
			_, value, ok := w.Next()
			if !ok {
				break
			}
			if !json.Valid(value) {
				t.Fatalf("%q: leaf %q", data, value)
			}
			got = append(got, w.Pointer())
		}
		if w.l.deep {
			return
		}
		if w.Valid() != json.Valid(data) {
			t.Fatalf("%q: valid %v", data, w.Valid())
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if !w.Valid() || !utf8.Valid(data) || d.Decode(&v) != nil {
			return
		}
		var want []string
		flat(v, "", &want)
		slices.Sort(got)
		slices.Sort(want)
		if unique := slices.Compact(slices.Clone(got)); len(unique) == len(got) && !slices.Equal(got, want) && len(got) == len(want) {
			t.Fatalf("%q: %q, want %q", data, got, want)
		}
	})
}
