package profiles

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// YAML returns the resolved profile as a document that loads to the same
// profile: nothing left to defaults, nothing extended. Sections that would
// contradict the target are left out.
func (p Profile) YAML() ([]byte, error) {
	tree, err := encode(reflect.ValueOf(p))
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	tree.drop("extends")
	if !p.Reference() {
		tree.drop("server")
	}
	if p.Target.Exec == "" {
		tree.get("target").drop("ready_timeout")
	}
	return render(tree)
}

func encode(v reflect.Value) (*node, error) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if string(text) == "0" {
			return &node{tag: "int", text: "0"}, err
		}
		return &node{tag: "str", text: string(text)}, err
	}
	switch v.Kind() {
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Map:
		n := &node{shape: dict}
		for _, k := range slices.Sorted(maps.Keys(stringKeys(v))) {
			item, err := encode(v.MapIndex(reflect.ValueOf(k)))
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, entry{key: k, value: item})
		}
		return n, nil
	case reflect.Slice:
		n := &node{shape: list}
		for i := range v.Len() {
			item, err := encode(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case reflect.Interface:
		if v.IsNil() {
			return &node{tag: "null", text: "null"}, nil
		}
		return encode(v.Elem())
	}
	return encodePlain(v)
}

func encodeStruct(v reflect.Value) (*node, error) {
	n := &node{shape: dict}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := key(f)
		if name == "" || strings.HasSuffix(f.Tag.Get("yaml"), ",omitempty") && v.Field(i).IsZero() {
			continue
		}
		item, err := encode(v.Field(i))
		if err != nil {
			return nil, err
		}
		n.keys = append(n.keys, entry{key: name, value: item})
	}
	return n, nil
}

func encodePlain(v reflect.Value) (*node, error) {
	switch v.Kind() {
	case reflect.String:
		return &node{tag: "str", text: v.String()}, nil
	case reflect.Bool:
		return &node{tag: "bool", text: strconv.FormatBool(v.Bool())}, nil
	case reflect.Int, reflect.Int64:
		return &node{tag: "int", text: strconv.FormatInt(v.Int(), 10)}, nil
	case reflect.Float64:
		text := strconv.FormatFloat(v.Float(), 'f', -1, 64)
		if !strings.Contains(text, ".") {
			return &node{tag: "int", text: text}, nil
		}
		return &node{tag: "float", text: text}, nil
	}
	return nil, fmt.Errorf("no text for %v", v.Type())
}

func stringKeys(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}
