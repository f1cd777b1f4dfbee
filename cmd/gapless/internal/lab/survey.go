package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/survey"
	"github.com/gapless-dev/gapless/profiles"
)

// A MisusedError is about what the user asked for: the target does not offer what the
// profile calls, or is there before it was started.
type MisusedError struct{ Text string }

func (e *MisusedError) Error() string { return e.Text }

// look asks a target that is not ours what it offers, so that a wrong name or a missing
// argument is told before the load. What cannot be listed is called without asking.
func (x *experiment) look(ctx context.Context) error {
	if x.c.Profile.Reference() {
		return nil
	}
	s, err := x.endpoint.ask(x.c.Profile.Target).Initialize(ctx, string(x.c.Profile.Target.Protocol))
	var none *client.UnreachableError
	var late net.Error
	switch {
	case errors.As(err, &none):
		hint := ""
		if errors.Is(err, io.EOF) && strings.HasPrefix(x.endpoint.Shown, "http://") {
			hint = " (the link was closed without an answer: is it https:// instead of http://?)"
		}
		return &UnreachableError{fmt.Errorf("target %s %w%s", x.endpoint.Shown, none, hint)}
	case errors.As(err, &late) && late.Timeout(): // once is enough
		return &UnreachableError{fmt.Errorf("target %s did not answer initialize: %w", x.endpoint.Shown, err)}
	}
	if err != nil {
		return nil // the control calls say what is wrong, in the same words as ever
	}
	defer s.Close(ctx)
	offers, err := survey.List(ctx, s)
	if err != nil {
		return nil // not to list what it has is the target's right
	}
	var all []error
	for _, c := range x.c.Profile.Calls {
		if err := check(offers, c); err != nil {
			all = append(all, &MisusedError{err.Error()})
		}
	}
	return errors.Join(all...)
}

// check says why a call cannot be made, and what can. What is in no list may be there all
// the same: resources are, and a list may be withheld.
func check(s survey.Survey, c profiles.Call) error {
	switch {
	case c.Resource != "":
		return nil
	case c.Prompt != "" && len(s.Prompts) > 0:
		return s.CheckPrompt(c.Prompt, c.Args)
	case c.Tool != "" && len(s.Tools) > 0 && !emits(c):
		return s.Check(c.Tool, c.Args)
	case c.Tool != "" && len(s.Tools) > 0 && !slices.ContainsFunc(s.Tools, func(t survey.Tool) bool { return t.Name == c.Tool }):
		return errors.New(s.Complain(c.Tool))
	}
	return nil
}
