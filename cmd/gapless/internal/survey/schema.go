package survey

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// maxDepth bounds how deep an example goes into a schema, which may refer to itself.
const maxDepth = 4

// maxExample bounds an example, in bytes; what is longer helps nobody.
const maxExample = 400

// A schema is as much of JSON Schema as an example needs. Everything may be of another shape
// than it should be, so each part is read on its own.
type schema map[string]json.RawMessage

// needs reads the required properties of an input schema, with arguments that may do.
func needs(raw json.RawMessage) (required []string, example string) {
	var s schema
	if !decode(raw, &s) {
		return nil, ""
	}
	required = s.required()
	if len(required) == 0 {
		return nil, ""
	}
	out := maker{root: s}.object(s, maxDepth)
	if len(out) > maxExample {
		return required, "{…}"
	}
	return required, out
}

func (s schema) required() (names []string) {
	var all []string
	if !decode(s["required"], &all) {
		return nil
	}
	for _, name := range all {
		if named(name) && !slices.Contains(names, name) && len(names) < maxNeeds {
			names = append(names, name)
		}
	}
	return names
}

// A maker makes values up from the parts of one schema.
type maker struct{ root schema }

// object is an object with the required properties of s, in their order.
func (m maker) object(s schema, depth int) string {
	var properties map[string]json.RawMessage
	decode(s["properties"], &properties)
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range s.required() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text(name) + ": " + m.value(properties[name], depth-1))
		if b.Len() > maxExample {
			break // too long to be shown anyway
		}
	}
	b.WriteByte('}')
	return b.String()
}

// value is what the schema names itself, if it does, else the simplest value of its type.
func (m maker) value(raw json.RawMessage, depth int) string {
	var s schema
	if !decode(raw, &s) || depth <= 0 {
		return "null"
	}
	for _, key := range []string{"default", "const"} {
		if v := s[key]; len(v) > 0 {
			return compact(v)
		}
	}
	for _, key := range []string{"enum", "examples"} {
		var list []json.RawMessage
		if decode(s[key], &list) && len(list) > 0 {
			return compact(list[0])
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var list []json.RawMessage
		if decode(s[key], &list) && len(list) > 0 {
			return m.value(list[0], depth-1)
		}
	}
	var ref string
	if decode(s["$ref"], &ref) {
		return m.value(m.lookup(ref), depth-1)
	}
	return m.simplest(s, depth)
}

func (m maker) simplest(s schema, depth int) string {
	switch s.kind() {
	case "string":
		return `"x"`
	case "integer", "number":
		var least json.Number
		if decode(s["minimum"], &least) && least != "0" && !strings.HasPrefix(least.String(), "-") {
			return least.String()
		}
		return "1"
	case "boolean":
		return "true"
	case "array":
		var least int
		if decode(s["minItems"], &least) && least > 0 {
			return "[" + m.value(s["items"], depth-1) + "]"
		}
		return "[]"
	case "object":
		return m.object(s, depth)
	}
	return "null"
}

// kind is the type, of several the first that is not null.
func (s schema) kind() string {
	var one string
	if decode(s["type"], &one) {
		return one
	}
	var several []string
	if decode(s["type"], &several) {
		for _, one := range several {
			if one != "null" {
				return one
			}
		}
	}
	return ""
}

// lookup follows a reference into the schema itself; others lead out of it.
func (m maker) lookup(ref string) json.RawMessage {
	rest, inside := strings.CutPrefix(ref, "#/")
	if !inside {
		return nil
	}
	at := m.root
	words := strings.Split(rest, "/")
	for _, word := range words[:len(words)-1] {
		var next schema
		if !decode(at[word], &next) {
			return nil
		}
		at = next
	}
	return at[words[len(words)-1]]
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "null"
	}
	return b.String()
}

// text is a JSON string.
func text(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
