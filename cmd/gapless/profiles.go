package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/profiles"
)

func newProfilesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the built-in profiles, show one, print the schema",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range profiles.Builtin() {
				p, err := profiles.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s\n", name, p.About)
			}
			return w.Flush()
		},
	}
	show := &cobra.Command{
		Use:   "show PROFILE",
		Short: "Print a profile, a built-in one or a file",
		Args:  usageArgs(exactlyOne("PROFILE", "gapless profiles show smoke")),
		RunE: func(cmd *cobra.Command, args []string) error {
			resolved, err := cmd.Flags().GetBool("resolved")
			if err != nil {
				return err
			}
			return showProfile(cmd, args[0], resolved)
		},
	}
	show.Flags().Bool("resolved", false, "with every default filled in and extends merged")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of profiles",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := profiles.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
	cmd.AddCommand(show, schema)
	return cmd
}

func showProfile(cmd *cobra.Command, name string, resolved bool) error {
	p, err := profiles.Load(name)
	if err != nil {
		return usageError{err}
	}
	var text []byte
	switch {
	case resolved:
		text, err = p.YAML()
	case slices.Contains(profiles.Builtin(), name):
		text, err = profiles.Source(name)
	default:
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}
