package main

import (
	"embed"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

//go:embed help/*.md help/fixture-*.txt
var helpTexts embed.FS

// tableMark stands in a help text where the generated table goes.
const tableMark = "{{table}}"

// topics lists the help topics with the tables that are generated from the
// catalogues, so that no text can name what does not exist.
func topics() []struct{ name, about, table string } {
	return []struct{ name, about, table string }{
		{"faults", "what hurts, and where it strikes", faultTable()},
		{"invariants", "what is promised, and at which level", invariantTable()},
		{"verdict", "when a run holds, is violated, or is inconclusive", ""},
		{"profile", "how a profile is written", ""},
		{"thresholds", "the figures that can have limits", figureTable()},
		{"fixture", "a tool that counts, to paste into a server: --lang go, ts or py", ""},
	}
}

func newHelpCommand() *cobra.Command {
	names := make([]string, 0, len(topics()))
	about := "Topics:\n"
	for _, t := range topics() {
		names = append(names, t.name)
		about += fmt.Sprintf("  %-12s %s\n", t.name, t.about)
	}
	cmd := &cobra.Command{
		Use:       "help [COMMAND or TOPIC]",
		Short:     "Help about a command or a topic: " + strings.Join(names, ", "),
		Long:      "Help about a command, or about a topic.\n\n" + about,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Root().Help()
			}
			if done, err := printFixture(cmd, args[0]); done || err != nil {
				return err
			}
			for _, t := range topics() {
				if t.name == args[0] {
					return printTopic(cmd, t.name, t.table)
				}
			}
			sub, _, err := cmd.Root().Find(args)
			if err != nil || sub == cmd.Root() {
				return usageError{fmt.Errorf("no command or topic %q; topics: %s", args[0], strings.Join(names, ", "))}
			}
			return sub.Help()
		},
	}
	addFixtureFlag(cmd)
	return cmd
}

func printTopic(cmd *cobra.Command, name, table string) error {
	text, err := helpTexts.ReadFile("help/" + name + ".md")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), strings.Replace(string(text), tableMark, strings.TrimRight(table, "\n"), 1))
	return err
}

// invariantTable lists the invariants as a run without a ledger would show them.
func invariantTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, inv := range judge.New(judge.Setup{}).Finish(judge.Tail{}).Invariants {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", inv.Name, inv.Level, inv.Claim)
	}
	_ = w.Flush()
	return b.String()
}

// A figure is something measured that a threshold can be about.
type figure struct{ name, about string }

// figures are all of them, in the order of a profile's errors: times, then counts.
func figures() []figure {
	return []figure{
		{"first_event", "time from when a call is due to its first message or response; an empty priming event is neither"},
		{"event_gap", "time between two messages that follow one another on one link"},
		{"completion", "time from when a call is due to its response"},
		{"start_delay", "time gapless itself took to write a call that was due"},
		{"resume_detect", "time until gapless saw the end of a link that it had cut"},
		{"resume_backoff", "time waited before coming back to a stream"},
		{"resume_connect", "time from the end of that wait to the head of the answer"},
		{"resume_first_event", "time from that head to the first event"},
		{"resume_caught_up", "time from the end of the cut link until all that was missed has come"},
		{"indeterminate", "calls cut before the first event id: nobody could have resumed them"},
		{"not_sent", "calls that were never written whole"},
		{"refused", "calls that the target refused, at once or when they were resumed"},
		{"undecided", "calls that the end of the run, or a slow generator, left open"},
		{"failed", "calls that hung, ended early or were refused without end"},
		{"dropped_arrivals", "calls of the open model that were due and never started: too many were open"},
		{"late", "messages read from an old link after the resume was sent"},
	}
}

func figureTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range figures() {
		fmt.Fprintf(w, "  %s\t%s\n", f.name, f.about)
	}
	_ = w.Flush()
	return b.String()
}
