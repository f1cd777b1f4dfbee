package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// This is the only file that knows the YAML library: it turns a document into
// nodes of our own, which keep their position, and nodes into a document.

type shape uint8

const (
	scalar shape = iota
	list
	dict
)

func (s shape) String() string { return [...]string{"a value", "a list", "a map"}[s] }

// A node is one value of a document. Every node knows where it was written,
// also after documents were merged.
type node struct {
	shape shape
	tag   string // of scalars: str, int, float, bool, null, timestamp
	text  string
	at    position
	keys  []entry
	items []*node
}

type entry struct {
	key   string
	at    position
	value *node
}

func (n *node) get(key string) *node {
	for _, e := range n.keys {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func (n *node) drop(key string) {
	for i, e := range n.keys {
		if e.key == key {
			n.keys = append(n.keys[:i:i], n.keys[i+1:]...)
			return
		}
	}
}

// Bounds of a document: a profile is small, and aliases could make it explode.
const (
	maxDocument = 1 << 20
	maxNodes    = 20_000
	maxDepth    = 40
)

// parse reads one document. An empty document is an empty map.
func parse(file string, data []byte) (*node, []error) {
	if len(data) > maxDocument {
		return nil, []error{complain(position{file, 1, 1}, "the file has %d bytes; a profile has at most %d", len(data), maxDocument)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &node{shape: dict, at: position{file, 1, 1}}, nil
	}
	if err != nil {
		return nil, []error{syntaxError(file, err)}
	}
	c := converter{file: file}
	root := c.convert(doc.Content[0], 0)
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		at := position{file, more.Line, max(more.Column, 1)}
		if err != nil {
			return nil, append(c.complaints, syntaxError(file, err))
		}
		c.complain(at, "a second document begins here; a profile is one document")
	}
	switch {
	case root == nil:
	case root.tag == "null":
		root = &node{shape: dict, at: root.at}
	case root.shape != dict:
		c.complain(root.at, "a profile is a map of sections, not %v; did you mean \"load: …\"?", root.shape)
	}
	return root, c.complaints
}

// syntaxError gives the library's complaint a position of our form. It names
// a line at most, so the column is 1.
func syntaxError(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return complain(position{file, line, 1}, "not YAML: %s", text)
}

type converter struct {
	file       string
	nodes      int
	complaints []error
}

func (c *converter) complain(at position, format string, args ...any) {
	c.complaints = append(c.complaints, complain(at, format, args...))
}

func (c *converter) convert(y *yaml.Node, depth int) *node {
	at := position{c.file, y.Line, y.Column}
	c.nodes++
	if c.nodes > maxNodes || depth > maxDepth {
		if len(c.complaints) == 0 || c.nodes <= maxNodes {
			c.complain(at, "the profile is too large or too deep here")
		}
		return nil
	}
	switch y.Kind {
	case yaml.AliasNode:
		return c.convert(y.Alias, depth+1)
	case yaml.MappingNode:
		return c.convertMap(y, at, depth)
	case yaml.SequenceNode:
		n := &node{shape: list, at: at}
		for _, item := range y.Content {
			if v := c.convert(item, depth+1); v != nil {
				n.items = append(n.items, v)
			}
		}
		return n
	}
	return &node{shape: scalar, at: at, tag: strings.TrimPrefix(y.ShortTag(), "!!"), text: y.Value}
}

func (c *converter) convertMap(y *yaml.Node, at position, depth int) *node {
	n := &node{shape: dict, at: at}
	first := map[string]position{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, keyAt := y.Content[i], position{c.file, y.Content[i].Line, y.Content[i].Column}
		if k.Kind != yaml.ScalarNode {
			c.complain(keyAt, "a key has to be a plain word")
			continue
		}
		if k.Value == "<<" {
			c.complain(keyAt, "merge keys are not read here; did you mean \"extends\"?")
			continue
		}
		if before, again := first[k.Value]; again {
			c.complain(keyAt, "duplicate key %s: already given at line %d; keep one of them", quote(k.Value), before.line)
			continue
		}
		first[k.Value] = keyAt
		if v := c.convert(y.Content[i+1], depth+1); v != nil {
			n.keys = append(n.keys, entry{key: k.Value, at: keyAt, value: v})
		}
	}
	return n
}

// render writes a tree as a document: sections in block style, small leaves in
// flow style.
func render(n *node) ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(toYAML(n, 0)); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return buf.Bytes(), nil
}

func toYAML(n *node, depth int) *yaml.Node {
	switch n.shape {
	case dict:
		y := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, e := range n.keys {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.key}
			y.Content = append(y.Content, key, toYAML(e.value, depth+1))
		}
		if depth >= 2 || len(n.keys) == 0 {
			y.Style = yaml.FlowStyle
		}
		return y
	case list:
		y := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range n.items {
			y.Content = append(y.Content, toYAML(item, depth+1))
		}
		if depth >= 3 || len(n.items) == 0 {
			y.Style = yaml.FlowStyle
		}
		return y
	}
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!" + n.tag, Value: n.text}
	if n.tag == "str" && n.text == "" {
		y.Style = yaml.DoubleQuotedStyle
	}
	return y
}
