package process

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// How much is kept of what a server says, and of one line of it, in bytes.
const (
	maxWords = 16 << 10
	maxLine  = 400
)

// words passes on what a server says and keeps the end of it.
type words struct {
	lines int
	log   io.Writer

	mu   sync.Mutex
	end  []byte
	left bool // somebody holds the pipes after the command has exited
}

// Write implements io.Writer. It never fails: the server goes on whatever becomes of its log.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log != nil {
		_, _ = w.log.Write(p)
	}
	w.end = append(w.end, p...)
	if over := len(w.end) - maxWords; over > 0 {
		w.end = w.end[:copy(w.end, w.end[over:])]
	}
	return len(p), nil
}

func (w *words) leftBehind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
}

func (w *words) background() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left
}

// String returns the last lines, as a terminal can show them.
func (w *words) String() string {
	w.mu.Lock()
	text := string(bytes.TrimRight(w.end, " \t\r\n"))
	w.mu.Unlock()
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-w.lines):]
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

// colours finds the sequences by which a program colours what it says.
func colours() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]") }

// plain leaves out of a line what a terminal would obey, and the end of a long one.
func plain(line string) string {
	line = colours().ReplaceAllString(strings.ToValidUTF8(line, "\uFFFD"), "")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, line)
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	return line
}
