package profiles

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write schema.json anew")

func TestSchemaIsCurrent(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("schema.json is not what the structs say; go test ./profiles -update writes it anew")
	}
}

// A validator checks the part of JSON Schema that ours uses and fails on words
// it does not know, so that no rule of the schema goes unchecked.
type validator struct{ defs map[string]any }

func (v validator) check(path string, schema any, value any) error {
	s, isMap := schema.(map[string]any)
	if !isMap {
		return fmt.Errorf("%s: schema %v", path, schema)
	}
	for word, rule := range s {
		if err := v.rule(path, word, rule, value); err != nil {
			return err
		}
	}
	object, isObject := value.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for k, item := range object {
		rule, known := properties[k]
		if !known && s["additionalProperties"] == false {
			return fmt.Errorf("%s: unknown key %s", path, k)
		}
		if !known && reflect.ValueOf(s["additionalProperties"]).Kind() == reflect.Map {
			rule, known = s["additionalProperties"], true
		}
		if isObject && known {
			if err := v.check(path+"."+k, rule, item); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v validator) rule(path, word string, rule, value any) error {
	switch word {
	case "$schema", "$defs", "title", "description", "examples", "properties", "additionalProperties":
	case "$ref":
		return v.check(path, v.defs[strings.TrimPrefix(rule.(string), "#/$defs/")], value)
	case "type":
		if got := kindOf(value); got != rule && !(rule == "number" && got == "integer") {
			return fmt.Errorf("%s: %s, want %v", path, got, rule)
		}
	case "enum":
		if !slices.Contains(rule.([]any), value) {
			return fmt.Errorf("%s: %v is none of %v", path, value, rule)
		}
	case "const":
		if !reflect.DeepEqual(rule, value) {
			return fmt.Errorf("%s: %v is not %v", path, value, rule)
		}
	case "pattern":
		if s, isText := value.(string); isText && !regexp.MustCompile(rule.(string)).MatchString(s) {
			return fmt.Errorf("%s: %q does not match %v", path, s, rule)
		}
	case "minimum":
		if n, isNumber := value.(float64); isNumber && n < rule.(float64) {
			return fmt.Errorf("%s: %v is below %v", path, n, rule)
		}
	case "required":
		for _, name := range rule.([]any) {
			if m, isMap := value.(map[string]any); isMap && m[name.(string)] == nil {
				return fmt.Errorf("%s: %v is missing", path, name)
			}
		}
	case "items":
		for i, item := range value.([]any) {
			if err := v.check(fmt.Sprintf("%s[%d]", path, i), rule, item); err != nil {
				return err
			}
		}
	case "oneOf":
		matched := 0
		for _, one := range rule.([]any) {
			if v.check(path, one, value) == nil {
				matched++
			}
		}
		if matched != 1 {
			return fmt.Errorf("%s: %v matches %d of the forms", path, value, matched)
		}
	default:
		return fmt.Errorf("%s: the test does not know the word %s", path, word)
	}
	return nil
}

func kindOf(value any) string {
	switch x := value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if x == float64(int64(x)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// against checks a document against the schema alone.
func against(t *testing.T, text string) error {
	t.Helper()
	tree, complaints := parse("p.yaml", []byte(text))
	if len(complaints) > 0 {
		t.Fatal(complaints)
	}
	data, err := json.Marshal(anyOf(tree))
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	return validator{defs: schema["$defs"].(map[string]any)}.check("profile", schema, value)
}

func TestSchemaAcceptsProfiles(t *testing.T) {
	texts := []string{"{}", "server: {on_conflict: 409, store: 'bbolt:x'}", "target: {protocol: 2025-11-25}",
		"thresholds: {first_event: ['p(99)<1s', {is: 'max<2s', abort: true}]}", "calls: [{expect: {messages: 60}, args: {a: [1]}}]"}
	for _, name := range Builtin() {
		source, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(source), string(resolved))
	}
	for _, text := range texts {
		if err := against(t, text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

func TestSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	for _, text := range []string{
		"lod: {}", "load: {steams: 1}", "load: {ramp: 250}", "load: {rate: 50}", "emit: {bytes: 200}", "resume: {jitter: 10}",
		"load: {streams: many}", "about: 7", "load: 5", "faults: {mix: [{kind: rts}]}", "faults: {mix: [{at: [mid-evnt]}]}",
		"faults: {seat: clint}", "judge: {contract: exactly_once}", "judge: {ignore: [no-los]}", "server: {store: redis}",
		"thresholds: {first: ['p(99)<1s']}", "thresholds: {first_event: [{abort: true}]}", "calls: [{expect: {messages: 0}}]",
		"target: {protocol: latest}", "target: {headers: {A: 1}}",
	} {
		if _, err := Parse("p.yaml", []byte(text)); err == nil {
			t.Errorf("the loader accepts %s", text)
		}
		if against(t, text) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}
