package main

import (
	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/profiles"
)

// closedWords are the values of flags that take one of a few words.
func closedWords() map[string][]string {
	var faults []string
	for _, k := range chaos.AllKinds() {
		faults = append(faults, k.String())
	}
	return map[string][]string{
		"contract": {"exactly-once", "at-least-once", "bounded", "none"},
		"delivery": {"follow", "handoff"}, "lock": {"stream", "session", "global"},
		"dialect": {"resume", "streams", "umcp", "modern"}, "fault": faults, "on-conflict": {"takeover", "409"},
		"oracle": {"auto", "ledger", "numbered", "twin"}, "protocol": {"2025-11-25", "2025-06-18", "2025-03-26", "2026-07-28"},
		"seat": {"client", "proxy"}, "store": {"memory", "none"}, "transport": {"http", "stdio"}, "http-proxy": {"none"},
	}
}

// completeWords makes a shell complete the profiles, the words of flags, and directories
// where only those will do.
func completeWords(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		for name, words := range closedWords() {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
			}
		}
		for _, name := range []string{"save", "from", "compare"} {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.MarkFlagDirname(name)
			}
		}
		switch cmd.Name() {
		case "run":
			cmd.ValidArgsFunction = profileNames
		case "judge", "report":
			cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
		case "profiles":
			for _, sub := range cmd.Commands() {
				if sub.Name() == "show" {
					sub.ValidArgsFunction = profileNames
				}
			}
		}
	}
}

// profileNames are the built-in profiles; a file does as well.
func profileNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return profiles.Builtin(), cobra.ShellCompDirectiveDefault
}
