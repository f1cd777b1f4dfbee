package wire

import (
	"strings"
	"testing"
)

func TestElements(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"one", `[{"a":1}]`, `{"a":1}`},
		{"several, with white space and nesting", " [ {\"a\":[1,2]} ,\n[3,[4]], \"x,]\" , 5,null ] ", `{"a":[1,2]}|[3,[4]]|"x,]"|5|null`},
		{"empty", ` [ ] `, ``},
		{"no array", `{"a":[1]}`, ``},
		{"nothing", ``, ``},
		{"cut short – up to there", `[1,{"a":`, `1`},
		{"comma at the end – up to there", `[1,]`, `1`},
	} {
		var got []string
		for e := range Elements([]byte(c.data)) {
			got = append(got, string(e))
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%s: got %s, want %s", c.name, g, c.want)
		}
	}
	for range Elements([]byte(`[1,2]`)) {
		break // must not go on
	}
}
