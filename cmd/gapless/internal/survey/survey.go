// Package survey asks a server what it offers, so that a call that cannot work is told
// before it is made a thousand times.
//
// What a server says is somebody else's text: every page, item and name is bounded, and
// nothing of it reaches a terminal that the terminal would obey.
package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds on what one server may tell, for each of the three lists.
const (
	maxPages  = 100
	maxItems  = 1000
	maxCursor = 4 << 10  // bytes
	maxName   = 1 << 10  // bytes; what has a longer one is left out
	maxSchema = 64 << 10 // bytes; of a larger one nothing is known
	maxNeeds  = 50       // required arguments that are looked at
)

// A Caller makes one request in a session and returns its result.
type Caller interface {
	Call(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// A Survey is what a server offers, in its own order and its own words: names have to be
// sent as they are, and only the texts made here are fit to be shown.
type Survey struct {
	Tools     []Tool
	Resources []Resource
	Prompts   []Prompt
	// Notes says in sentences where a list was cut off.
	Notes []string

	noTools, noResources, noPrompts error // why there is no such list; nil if there is one
}

// A Tool is one that can be called by tools/call.
type Tool struct {
	Name, Description string
	// Required are the arguments without which the call is refused.
	Required []string
	// Usable: it can be called without arguments. Why says what it needs otherwise.
	Usable bool
	Why    string

	example string // arguments that may do, as JSON; "" unless Required
	tasks   bool   // it can be called as a task only
}

// A Resource is one that can be read by resources/read.
type Resource struct{ URI, Name string }

// A Prompt is one that can be had by prompts/get.
type Prompt struct {
	Name, Description string
	Required          []string
}

// List asks for tools, resources and prompts, page by page. A list that the server does not
// have, or does not give, is empty. The error is that of ctx, or what was wrong with all three.
func List(ctx context.Context, c Caller) (Survey, error) {
	var s Survey
	s.noTools = s.pages(ctx, c, "tools/list", "tools", func(raw json.RawMessage) {
		if t, ok := newTool(raw); ok {
			s.Tools = append(s.Tools, t)
		}
	})
	s.noResources = s.pages(ctx, c, "resources/list", "resources", func(raw json.RawMessage) {
		var r Resource
		if decode(raw, &r) && named(r.URI) {
			s.Resources = append(s.Resources, Resource{r.URI, cut(r.Name, maxName)})
		}
	})
	s.noPrompts = s.pages(ctx, c, "prompts/list", "prompts", func(raw json.RawMessage) {
		if p, ok := newPrompt(raw); ok {
			s.Prompts = append(s.Prompts, p)
		}
	})
	if err := ctx.Err(); err != nil {
		return s, err
	}
	if s.noTools != nil && s.noResources != nil && s.noPrompts != nil {
		return s, errors.Join(s.noTools, s.noResources, s.noPrompts)
	}
	return s, nil
}

// pages hands every item of one list to take. Its error is that of the first page: of a list
// that breaks off later, what has come is used.
func (s *Survey) pages(ctx context.Context, c Caller, method, field string, take func(json.RawMessage)) error {
	seen, cursor, items := map[string]bool{}, "", 0
	stopped := func(why string) error {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: %s, so only the first %d items are known", method, why, items))
		return nil
	}
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := c.Call(ctx, method, params)
		var page map[string]json.RawMessage
		var list []json.RawMessage
		if err == nil && !(decode(raw, &page) && decode(page[field], &list)) {
			err = fmt.Errorf("%s: the result has no list of %s", method, field)
		}
		switch {
		case err != nil && cursor == "":
			return err
		case err != nil:
			return stopped("a later page failed (" + plain(err.Error(), 200) + ")")
		}
		for _, item := range list {
			if items == maxItems {
				return stopped("there are more")
			}
			items++
			take(item)
		}
		if len(page["nextCursor"]) == 0 || !decode(page["nextCursor"], &cursor) || cursor == "" {
			return nil
		}
		if seen[cursor] || len(cursor) > maxCursor {
			return stopped("its cursors lead nowhere")
		}
		seen[cursor] = true
	}
	return stopped("there are more pages")
}

func decode(raw json.RawMessage, into any) bool {
	return len(raw) > 0 && json.Unmarshal(raw, into) == nil
}

func named(name string) bool { return name != "" && len(name) <= maxName }

func newTool(raw json.RawMessage) (Tool, bool) {
	var in struct {
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Execution   json.RawMessage `json:"execution"`
	}
	if !decode(raw, &in) || !named(in.Name) {
		return Tool{}, false
	}
	t := Tool{Name: in.Name}
	if decode(in.Description, &t.Description) {
		t.Description = cut(t.Description, maxName)
	}
	if len(in.InputSchema) <= maxSchema {
		t.Required, t.example = needs(in.InputSchema)
	}
	var execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	t.tasks = decode(in.Execution, &execution) && execution.TaskSupport == "required" // 2025-11-25 tasks
	t.Usable = len(t.Required) == 0 && !t.tasks
	t.Why = t.lacks(t.Required)
	return t, true
}

// lacks says what a call without these arguments would need.
func (t *Tool) lacks(missing []string) string {
	switch {
	case t.tasks:
		return "can be called as a task only, which gapless does not do"
	case len(missing) == 0:
		return ""
	}
	return "needs " + enumerate(missing) + ": --args " + quote(t.example)
}

func newPrompt(raw json.RawMessage) (Prompt, bool) {
	var in struct {
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description"`
		Arguments   json.RawMessage `json:"arguments"`
	}
	if !decode(raw, &in) || !named(in.Name) {
		return Prompt{}, false
	}
	p := Prompt{Name: in.Name}
	if decode(in.Description, &p.Description) {
		p.Description = cut(p.Description, maxName)
	}
	var arguments []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	}
	if decode(in.Arguments, &arguments) {
		for _, a := range arguments {
			if a.Required && named(a.Name) && len(p.Required) < maxNeeds {
				p.Required = append(p.Required, a.Name)
			}
		}
	}
	return p, true
}
