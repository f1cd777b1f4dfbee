package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/profiles"
)

// How often progress is told: a terminal's line is redrawn, a log gets a new one.
const (
	redrawInterval = 200 * time.Millisecond
	logInterval    = 5 * time.Second
	progressWidth  = 110
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// A progressLine shows where a run is: one redrawn line on a terminal, else a new
// line at longer intervals.
type progressLine struct {
	w        io.Writer
	terminal bool
}

func newProgressLine(w io.Writer) progressLine { return progressLine{w, isTerminal(w)} }

func (l progressLine) interval() time.Duration {
	if l.terminal {
		return redrawInterval
	}
	return logInterval
}

func (l progressLine) show(text string) {
	if l.terminal {
		fmt.Fprintf(l.w, "\r\x1b[K%s", report.Fit(text, progressWidth))
		return
	}
	fmt.Fprintln(l.w, text)
}

// clear takes the redrawn line away.
func (l progressLine) clear() {
	if l.terminal {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// repeatCommand is the command that makes the same run again: the profile, every
// flag that was given, and the seed. Values of headers may be secrets: they are
// left out.
func repeatCommand(cmd *cobra.Command, p profiles.Profile, seed uint64) string {
	line := "gapless run"
	from, _ := cmd.Flags().GetString("from")
	if from != "" {
		line += " --from " + quote(from)
		if stream, _ := cmd.Flags().GetUint32("stream"); stream != 0 {
			line += fmt.Sprintf(" --stream %d", stream)
		}
	} else if p.Name != "" {
		line += " " + quote(p.Name)
	}
	for _, o := range overrides() {
		if flag := cmd.Flags().Lookup(o.name); flag.Changed {
			line += " --" + o.name + " " + quote(shown(o.name, flag.Value.String(), p))
		}
	}
	for _, name := range []string{"stage", "fault", "threshold"} {
		values, _ := cmd.Flags().GetStringArray(name) // declared by addOverrides
		for _, v := range values {
			line += " --" + name + " " + quote(v)
		}
	}
	headers, _ := cmd.Flags().GetStringArray("header")
	for range headers {
		line += " -H '…'"
	}
	for _, name := range []string{"strict", "insecure", "http2", "yes"} {
		if cmd.Flags().Changed(name) {
			line += " --" + name
		}
	}
	if from != "" {
		return line
	}
	return fmt.Sprintf("%s --seed %d", line, seed)
}

// shown is the value of a flag without what may be secret in it.
func shown(name, value string, p profiles.Profile) string {
	switch name {
	case "target":
		return lab.Withhold(p.Target).URL
	case "exec":
		return lab.Withhold(p.Target).Exec
	case "http-proxy":
		return lab.Withhold(p.Target).HTTPProxy
	}
	return value
}

// quote makes a word safe to paste into a shell.
func quote(s string) string {
	plain := s != ""
	for _, r := range s {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		for _, safe := range "-_./:@,=%+" {
			ok = ok || r == safe
		}
		plain = plain && ok
	}
	if plain {
		return s
	}
	out := "'"
	for _, r := range s {
		if r == '\'' {
			out += `'\''`
			continue
		}
		out += string(r)
	}
	return out + "'"
}
