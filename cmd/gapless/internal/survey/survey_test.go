package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// A server answers a method with a page, by cursor.
type server func(method, cursor string) (string, error)

func (f server) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	var p struct{ Cursor string }
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	answer, err := f(method, p.Cursor)
	return json.RawMessage(answer), err
}

var errNotOffered = errors.New("error -32601: Method not found")

// tools is a server that has tools alone, on one page.
func tools(list string) server {
	return func(method, _ string) (string, error) {
		if method != "tools/list" {
			return "", errNotOffered
		}
		return `{"tools":` + list + `}`, nil
	}
}

func list(t *testing.T, c Caller) Survey {
	t.Helper()
	s, err := List(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestListReadsAllPages(t *testing.T) {
	s := list(t, server(func(method, cursor string) (string, error) {
		switch method + cursor {
		case "tools/list":
			return `{"tools":[{"name":"a"},{"name":"b","description":"bee"}],"nextCursor":"2"}`, nil
		case "tools/list2":
			return `{"tools":[{"name":"c"}],"nextCursor":""}`, nil
		case "resources/list":
			return `{"resources":[{"uri":"file:///x","name":"x"}]}`, nil
		}
		return `{"prompts":[{"name":"p","arguments":[{"name":"who","required":true},{"name":"how"}]}]}`, nil
	}))
	if got := fmt.Sprint(s.Tools, s.Resources, s.Prompts, s.Notes); got != "[{a  [] true   false} {b bee [] true   false} {c  [] true   false}] [{file:///x x}] [{p  [who]}] []" {
		t.Errorf("got %s", got)
	}
	if err := s.CheckPrompt("p", nil); err == nil || err.Error() != "prompt p needs who" {
		t.Error(err)
	}
	if err := s.CheckPrompt("p", map[string]any{"who": 1}); err != nil {
		t.Error(err)
	}
	if err := s.CheckPrompt("q", nil); err == nil || !strings.HasPrefix(err.Error(), "no prompt \"q\"; did you mean p? the server offers:\n  p  needs who") {
		t.Error(err)
	}
}

func TestListIsBounded(t *testing.T) {
	item := `{"name":"t"},`
	for name, c := range map[string]struct {
		page  func(cursor string) (string, error)
		tools int
		note  string
	}{
		"a cursor that repeats": {func(string) (string, error) { return `{"tools":[{"name":"t"}],"nextCursor":"x"}`, nil }, 2, "its cursors lead nowhere, so only the first 2 items"},
		"always another cursor": {func(c string) (string, error) { return `{"tools":[{"name":"t"}],"nextCursor":"x` + c + `"}`, nil }, 100, "there are more pages"},
		"a huge cursor": {func(string) (string, error) {
			return `{"tools":[],"nextCursor":"` + strings.Repeat("x", 5000) + `"}`, nil
		}, 0, "lead nowhere"},
		"a huge page": {func(string) (string, error) { return `{"tools":[` + strings.Repeat(item, 5000) + `{}]}`, nil }, 1000, "there are more, so only the first 1000"},
		"a page that fails": {func(c string) (string, error) {
			if c == "" {
				return `{"tools":[{"name":"t"}],"nextCursor":"x"}`, nil
			}
			return "", errors.New("boom\x1b[2J")
		}, 1, "a later page failed (boom\uFFFD[2J)"},
		"a cursor that is none": {func(string) (string, error) { return `{"tools":[{"name":"t"}],"nextCursor":7}`, nil }, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := list(t, server(func(method, cursor string) (string, error) {
				if method != "tools/list" {
					return "", errNotOffered
				}
				return c.page(cursor)
			}))
			if notes := strings.Join(s.Notes, "\n"); len(s.Tools) != c.tools || !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
				t.Errorf("%d tools, notes %q; want %d, %q", len(s.Tools), notes, c.tools, c.note)
			}
		})
	}
}

func TestListFails(t *testing.T) {
	_, err := List(context.Background(), server(func(string, string) (string, error) { return "", errNotOffered }))
	if err == nil || strings.Count(err.Error(), "-32601") != 3 {
		t.Errorf("nothing offered: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := List(ctx, tools(`[]`)); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	for _, answer := range []string{`null`, `7`, `{}`, `{"tools":{}}`, ``} {
		s := list(t, server(func(method, _ string) (string, error) {
			if method == "tools/list" {
				return answer, nil
			}
			return `{"prompts":[],"resources":[]}`, nil
		}))
		if got := s.Complain("x"); got != `no tool "x": the server has no list of them (tools/list: the result has no list of tools)` {
			t.Errorf("%s: %s", answer, got)
		}
	}
}

func TestExample(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"types": {`{"required":["s","i","n","b","a","o"],"properties":{"s":{"type":"string"},"i":{"type":"integer","minimum":5},
			"n":{"type":"number","minimum":-1},"b":{"type":["null","boolean"]},"a":{"type":"array","minItems":2,"items":{"type":"string"}},"o":{"type":"object"}}}`,
			`{"s": "x", "i": 5, "n": 1, "b": true, "a": ["x"], "o": {}}`},
		"values of its own": {`{"required":["d","e","c","x"],"properties":{"d":{"type":"string","default":"it's"},"e":{"enum":["red",2]},"c":{"const":3},"x":{"examples":[[4, 5]]}}}`,
			`{"d": "it'\''s", "e": "red", "c": 3, "x": [4,5]}`},
		"nested": {`{"required":["o"],"properties":{"o":{"type":"object","required":["p"],"properties":{"p":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}}}`,
			`{"o": {"p": 1}}`},
		"references": {`{"required":["r"],"properties":{"r":{"$ref":"#/$defs/R"}},"$defs":{"R":{"type":"array","items":{"type":"boolean"},"minItems":1}}}`,
			`{"r": [true]}`},
		"a schema of itself": {`{"type":"object","required":["r"],"properties":{"r":{"type":"object","required":["r","r"],"properties":{"r":{"$ref":"#/properties/r"}}}}}`,
			`{"r": {"r": {"r": null}}}`},
		"unknown":  {`{"required":["u","v"],"properties":{"u":{"$ref":"http://elsewhere"},"v":7}}`, `{"u": null, "v": null}`},
		"too long": {`{"required":["l"],"properties":{"l":{"default":"` + strings.Repeat("l", 500) + `"}}}`, `{…}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := list(t, tools(`[{"name":"t","inputSchema":`+c.schema+`}]`))
			err := s.Check("t", nil)
			if err == nil || !strings.HasSuffix(err.Error(), ": --args '"+c.want+"' ("+advice+")") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	s := list(t, tools(`[
		{"name":"count","inputSchema":{"type":"object","required":["n","seed"],"properties":{"n":{"type":"integer"},"seed":{"type":"string"}}}},
		{"name":"free"},
		{"name":"odd","inputSchema":{"required":"n"}},
		{"name":"slow","execution":{"taskSupport":"required"}}]`))
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"count", map[string]any{"n": 1, "seed": nil}, ""},
		{"count", map[string]any{"n": "secret"}, `tool count needs seed: --args '{"n": 1, "seed": "x"}' (` + advice + `)`},
		{"count", nil, `tool count needs n, seed: --args '{"n": 1, "seed": "x"}' (` + advice + `)`},
		{"free", nil, ""},
		{"odd", nil, ""},
		{"slow", nil, "tool slow can be called as a task only, which gapless does not do"},
		{"Count", nil, s.Complain("Count")},
	} {
		got := ""
		if err := s.Check(c.name, c.args); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Check(%s, %v) = %q, want %q", c.name, c.args, got, c.want)
		}
	}
}

func TestComplain(t *testing.T) {
	s := list(t, tools(`[
		{"name":"zeta","description":"the last"},
		{"name":"count","description":"Counts up,\nand tells","inputSchema":{"required":["n"],"properties":{"n":{"type":"integer"}}}},
		{"name":"echo"},
		{"name":"account"}]`))
	const offers = ` the server offers:
  account  needs no arguments
  echo  needs no arguments
  zeta  needs no arguments  (the last)
  count  needs n: --args '{"n": 1}'  (Counts up, and tells)
choose values that make a call last a second or two`
	for name, want := range map[string]string{
		"coutn": `no tool "coutn"; did you mean count?` + offers,
		"COUNT": `no tool "COUNT"; did you mean count?` + offers,
		"acc":   `no tool "acc"; did you mean account?` + offers,
		"xyz":   `no tool "xyz";` + offers,
		"":      `no tool "";` + offers,
		"emit":  `name the tool to call with --tool;` + offers, // nobody named it
	} {
		for range 3 {
			if got := s.Complain(name); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	}
	if s.Tools[0].Name != "zeta" {
		t.Error("the list itself was sorted")
	}
	if got := list(t, tools(`[]`)).Complain("x"); got != `no tool "x": the server offers none` {
		t.Error(got)
	}
}

func TestHostileTexts(t *testing.T) {
	evil, err := json.Marshal(strings.Repeat("\x1b]0;x\x07\u202e\r\n", 50))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for i := range 500 {
		fmt.Fprintf(&all, `{"name":"tool%d","description":%s,"inputSchema":{"required":[%s],"properties":{%s:{"default":%s}}}},`, i, evil, evil, evil, evil)
	}
	s := list(t, tools(`[`+all.String()+`{"name":`+string(evil)+`,"title":7,"description":[],"inputSchema":[],"execution":1},
		{"name":"`+strings.Repeat("n", 2000)+`"},{"name":""},{"name":7},null,"x"]`))
	if len(s.Tools) != 501 {
		t.Errorf("%d tools", len(s.Tools))
	}
	for _, text := range []string{s.Complain("tool\x1b[2J"), fmt.Sprint(s.Check("tool7", nil))} {
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("an order to the terminal: %q", text[i:min(len(text), i+20)])
		}
		lines := strings.Split(text, "\n")
		if len(lines) > 23 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len(line) > 800 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	}
	if text := s.Complain("x"); !strings.HasSuffix(text, "\n  and 481 more\n"+advice) {
		t.Errorf("the end is %q", text[len(text)-40:])
	}
}

func FuzzList(f *testing.F) {
	f.Add(`[{"name":"t","inputSchema":{"required":["a"],"properties":{"a":{"type":"object","required":["b"]}}}}]`)
	f.Add(`[{"name":"t","inputSchema":{"required":["a"],"properties":{"a":{"$ref":"#/properties/a"}}}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := List(context.Background(), tools(text))
		if err != nil {
			return
		}
		_ = s.Complain(text)
		for _, tool := range s.Tools {
			_ = s.Check(tool.Name, nil)
		}
	})
}
