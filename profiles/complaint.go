package profiles

import "fmt"

// A Complaint is one thing that is wrong with a profile. [Load] returns all of
// them joined.
type Complaint struct {
	File         string
	Line, Column int
	// Text says what is wrong and, after a semicolon, what was probably meant.
	Text string
}

func (c *Complaint) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", c.File, c.Line, c.Column, c.Text)
}

type position struct {
	file      string
	line, col int
}

func complain(at position, format string, args ...any) error {
	return &Complaint{File: at.file, Line: at.line, Column: at.col, Text: fmt.Sprintf(format, args...)}
}

// nearest returns the candidate that word was probably meant to be, or "".
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+max(1, min(len(word)/2, 3))
	for _, c := range candidates {
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// meant finishes a complaint about word with a guess, or else with the choices.
func meant(word string, candidates []string) string {
	if guess := nearest(word, candidates); guess != "" {
		return fmt.Sprintf("did you mean %q?", guess)
	}
	return "known: " + oneOf(candidates)
}

func oneOf(words []string) string {
	s := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			s += " or "
		default:
			s += ", "
		}
		s += w
	}
	return s
}

// distance is the number of inserted, deleted, replaced or swapped characters
// between a and b. Words longer than any key of ours count as far away.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		rows = [3][]int{last, row, older}
	}
	return rows[1][len(b)]
}
