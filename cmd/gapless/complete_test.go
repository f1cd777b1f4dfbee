package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/profiles"
)

// TestCompletedWordsAreTaken: a word that a shell offers is one that the flag takes.
func TestCompletedWordsAreTaken(t *testing.T) {
	for flag, words := range closedWords() {
		for _, word := range words {
			args := []string{"run", "--plan", "--seed", "7", "--" + flag, word}
			switch {
			case flag == "http-proxy" || word == "stdio" || word == "2026-07-28" || word == "modern":
				continue // they go with a target
			case flag == "fault" && slices.Contains([]string{"storm", "delay", "throttle"}, word):
				continue // they need a number as well
			}
			if code, _, stderr := gapless(t, args...); code != 0 {
				t.Errorf("--%s %s: exit code %d: %s", flag, word, code, stderr)
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", ""}, profiles.Builtin()},
		{[]string{"profiles", "show", ""}, profiles.Builtin()},
		{[]string{"run", "--contract", ""}, []string{"exactly-once", "bounded"}},
		{[]string{"run", "--fault", "r"}, []string{"rst", "refuse"}},
		{[]string{"proxy", "--fault", ""}, []string{"rst"}},
		{[]string{"serve", "--store", ""}, []string{"memory"}},
		{[]string{"run", "-o", ""}, []string{"junit"}},
		{[]string{"help", "fix"}, []string{"fixture"}},
	} {
		code, stdout, stderr := gapless(t, append([]string{"__complete"}, tc.args...)...)
		offered := strings.Split(stdout, "\n")
		for _, want := range tc.want {
			if code != 0 || !slices.Contains(offered, want) {
				t.Errorf("%q: %s is not offered: %d %q %s", tc.args, want, code, offered, stderr)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, _ := gapless(t, "completion", shell); code != 0 || !strings.Contains(stdout, "gapless") {
			t.Errorf("completion %s: exit code %d", shell, code)
		}
	}
}
