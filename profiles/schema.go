package profiles

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema of a profile, for editors. It describes the
// shape alone; what contradicts itself only the loader can tell.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", Anonymous: true, ExpandedStruct: true,
		RequiredFromJSONSchemaTags: true, Mapper: unitSchema,
	}
	s := r.Reflect(&Profile{})
	s.Title = "gapless profile"
	s.Description = "A named recipe of a run. Values that are left out have defaults."
	fault := s.Definitions["Fault"].Properties
	fault.GetPair("kind").Value.Enum = words(kinds())
	fault.GetPair("at").Value.Items.Enum = words(places())
	s.Definitions["Judge"].Properties.GetPair("ignore").Value.Items.Enum = words(invariants())
	conflict := s.Definitions["Server"].Properties.GetPair("on_conflict").Value
	conflict.Type, conflict.Enum = "", append(conflict.Enum, 409) // unquoted, it is a number
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(out, '\n'), nil
}

// unitSchema describes the types that are written as text with a unit.
func unitSchema(t reflect.Type) *jsonschema.Schema {
	text := func(pattern string, examples ...any) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern, Examples: examples}
	}
	orZero := func(s *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{s, {Const: 0}}}
	}
	const number = `\d+(\.\d+)?`
	switch t {
	case reflect.TypeFor[Duration]():
		return text(`^(`+number+`(ns|us|µs|ms|s|m|h))+$`, "250ms", "30s", "8h")
	case reflect.TypeFor[Rate]():
		return orZero(text(`^(`+number+`/[smh]|0)$`, "50/s", "3000/m"))
	case reflect.TypeFor[Size]():
		return orZero(text(`^`+number+`(B|kB|KB|MB|GB|KiB|MiB|GiB)$`, "200B", "4KiB", "64MiB"))
	case reflect.TypeFor[Throughput]():
		return orZero(text(`^(`+number+`(B|kB|KB|MB|GB|KiB|MiB|GiB)/s|0)$`, "4KiB/s"))
	case reflect.TypeFor[Percent]():
		return text(`^`+number+`%$`, "10%")
	case reflect.TypeFor[Protocol]():
		return text(`^(\d{4}-\d{2}-\d{2})?$`, "2025-11-25")
	case reflect.TypeFor[Count]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "auto"}, {Type: "integer", Minimum: "1"}}}
	case reflect.TypeFor[Threshold]():
		return thresholdSchema()
	case reflect.TypeFor[Thresholds]():
		s := &jsonschema.Schema{Type: "object", AdditionalProperties: jsonschema.FalseSchema, Properties: jsonschema.NewProperties()}
		for _, figure := range figures() {
			s.Properties.Set(figure, &jsonschema.Schema{Type: "array", Items: thresholdSchema()})
		}
		return s
	case reflect.TypeFor[map[string]any]():
		return &jsonschema.Schema{Type: "object"}
	}
	return nil
}

// thresholdSchema allows both forms: the expression alone, or a map.
func thresholdSchema() *jsonschema.Schema {
	form := jsonschema.NewProperties()
	form.Set("is", &jsonschema.Schema{Type: "string"})
	form.Set("abort", &jsonschema.Schema{Type: "boolean"})
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string", Examples: []any{"p(99)<1s"}},
		{Type: "object", Properties: form, Required: []string{"is"}, AdditionalProperties: jsonschema.FalseSchema},
	}}
}

func words(list []string) []any {
	out := make([]any, len(list))
	for i, w := range list {
		out[i] = w
	}
	return out
}
