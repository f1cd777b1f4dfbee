package chaos

import (
	"fmt"
	"strings"
)

// unknown is the error for a name that is not in the catalogue: what was probably
// meant, if anything is close, and all that is allowed.
func unknown(what, name string, allowed []string) error {
	hint := ""
	if best := nearest(name, allowed); best != "" {
		hint = fmt.Sprintf(", did you mean %q?", best)
	}
	return fmt.Errorf("unknown %s %q%s (allowed: %s)", what, name, hint, strings.Join(allowed, ", "))
}

// nearest returns the allowed name with the fewest edits, if those are few for its
// length; or one that begins with what was written.
func nearest(name string, allowed []string) string {
	best, fewest := "", len(name)/3+2
	for _, a := range allowed {
		if name != "" && strings.HasPrefix(a, name) {
			return a
		}
		if d := edits(name, a); d < fewest && d < len(a) {
			best, fewest = a, d
		}
	}
	return best
}

// edits is the number of insertions, deletions and replacements between a and b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
