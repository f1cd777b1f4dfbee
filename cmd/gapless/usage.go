package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// usageArgs makes wrong arguments a usage error; an unknown command is one too.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if cmd.HasSubCommands() && len(args) > 0 {
			err = fmt.Errorf("unknown command %q; %s --help lists them", args[0], cmd.CommandPath())
			for _, s := range cmd.SuggestionsFor(args[0]) {
				err = fmt.Errorf("unknown command %q; did you mean %q?", args[0], s)
			}
		}
		return usageError{err}
	}
}

// exactlyOne wants the argument that the usage line names; example shows one.
func exactlyOne(name, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing: %s", name, example)
		case len(args) > 1:
			return fmt.Errorf("one %s, not %d: %s", name, len(args), example)
		}
		return nil
	}
}

// atMostOne wants one argument or none. What is too much is often the value of a flag that
// was not quoted, a secret even: it is not shown.
func atMostOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("one %s, not %d; values of flags that have spaces have to be quoted", name, len(args))
		}
		return nil
	}
}

// wrongFlag says what was meant by a flag that there is not, or what a value has to be.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown interface {
		error
		GetSpecifiedName() string
		GetSpecifiedShortnames() string
	}
	var number *strconv.NumError
	switch cause := errors.Unwrap(err); {
	case errors.As(err, &number):
		err = fmt.Errorf("%sit has to be a whole number", strings.TrimSuffix(err.Error(), cause.Error()))
	case cause != nil && strings.HasPrefix(cause.Error(), "time: "):
		err = fmt.Errorf("%sit has to be a duration, such as 30s", strings.TrimSuffix(err.Error(), cause.Error()))
	case strings.HasPrefix(err.Error(), "unknown") && errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" { // one dash
			name, _, _ = strings.Cut(letters, "=")
		}
		if near := nearFlags(cmd, name); len(near) > 0 {
			return usageError{fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))}
		}
	}
	return usageError{fmt.Errorf("%w (%s --help lists the flags)", err, cmd.CommandPath())}
}

// nearFlags are the flags that a slip of the finger may have made of the name.
func nearFlags(cmd *cobra.Command, name string) (near []string) {
	if len(name) < 2 || len(name) > 40 {
		return nil
	}
	if cmd.Flags().Lookup(name) != nil { // one dash was missing
		return []string{"--" + name}
	}
	for most := range 2 { // nearer ones keep the others away
		names := &cobra.Command{SuggestionsMinimumDistance: most + 1}
		for _, line := range strings.Split(cmd.Flags().FlagUsages(), "\n") {
			if _, flag, found := strings.Cut(line, "--"); found {
				flag, _, _ = strings.Cut(flag, " ")
				names.AddCommand(&cobra.Command{Use: flag, Run: func(*cobra.Command, []string) {}})
			}
		}
		for _, flag := range names.SuggestionsFor(name) {
			near = append(near, "--"+flag)
		}
		if len(near) > 0 {
			return near[:min(len(near), 3)]
		}
	}
	return nil
}

// mistaken is the error about a URL where a profile is wanted. What may be secret in it is
// not shown.
func mistaken(profile string) error {
	shown := "URL"
	if u, err := url.Parse(profile); err == nil {
		u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
		shown = u.String()
	}
	return fmt.Errorf("a URL is no profile; did you mean --target %s?", shown)
}
