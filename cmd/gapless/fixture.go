package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// fixtureLangs are the languages that `help fixture` knows, by the name of their file.
func fixtureLangs() []string { return []string{"go", "ts", "py"} }

// addFixtureFlag declares --lang on the help command.
func addFixtureFlag(cmd *cobra.Command) {
	cmd.Flags().String("lang", "", "with the topic fixture: print the tool for "+strings.Join(fixtureLangs(), ", ")+" as `LANG`")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(fixtureLangs(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// printFixture prints the tool for the language that --lang names; false if none is named.
func printFixture(cmd *cobra.Command, topic string) (printed bool, err error) {
	lang, err := cmd.Flags().GetString("lang")
	switch {
	case err != nil || lang == "" && !cmd.Flags().Changed("lang"):
		return false, err
	case topic != "fixture":
		return false, usageError{fmt.Errorf("--lang: only with gapless help fixture")}
	case !slices.Contains(fixtureLangs(), lang):
		return false, usageError{fmt.Errorf("--lang: no %q; known: %s", lang, strings.Join(fixtureLangs(), ", "))}
	}
	text, err := helpTexts.ReadFile("help/fixture-" + lang + ".txt")
	if err != nil {
		return false, err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return true, err
}
