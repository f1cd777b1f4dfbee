package profiles

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A decoder fills a Profile from a tree, remembers which fields the tree named
// and where, and goes on after a complaint so that all of them come at once.
type decoder struct {
	complaints []error
	explicit   map[string]bool
	where      map[string]position
}

func (d *decoder) complain(at position, format string, args ...any) {
	d.complaints = append(d.complaints, complain(at, format, args...))
}

func (d *decoder) value(path string, n *node, v reflect.Value) {
	d.explicit[path] = true
	d.where[path] = n.at
	if n.shape == scalar && n.tag == "null" {
		d.complain(n.at, "%s is empty; leave the key out or give it a value", last(path))
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && (n.shape == scalar || v.Kind() != reflect.Struct) {
		d.text(path, n, u)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(path, n, v)
	case reflect.Slice:
		d.slice(path, n, v)
	case reflect.Map:
		d.dictionary(path, n, v)
	case reflect.Interface:
		v.Set(reflect.ValueOf(anyOf(n)))
	default:
		d.plain(path, n, v)
	}
}

func (d *decoder) text(path string, n *node, u encoding.TextUnmarshaler) {
	if n.shape != scalar {
		d.complain(n.at, "%s wants a value, not %v", last(path), n.shape)
		return
	}
	if err := u.UnmarshalText([]byte(n.text)); err != nil {
		d.complain(n.at, "%v", err)
	}
}

func (d *decoder) structure(path string, n *node, v reflect.Value) {
	if n.shape != dict {
		d.complain(n.at, "%s wants a map, not %v", last(path), n.shape)
		return
	}
	fields := map[string]reflect.Value{}
	var names []string
	for i := range v.NumField() {
		if name := key(v.Type().Field(i)); name != "" {
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	for _, e := range n.keys {
		field, known := fields[e.key]
		if !known {
			d.complain(e.at, "unknown key %s; %s", quote(e.key), meant(e.key, names))
			continue
		}
		d.value(join(path, e.key), e.value, field)
	}
}

// slice replaces what v held: lists are never merged.
func (d *decoder) slice(path string, n *node, v reflect.Value) {
	if n.shape != list {
		d.complain(n.at, "%s wants a list, not %v; did you mean [%s]?", last(path), n.shape, short(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		setDefault(out.Index(i))
		d.value(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i))
	}
	v.Set(out)
}

func (d *decoder) dictionary(path string, n *node, v reflect.Value) {
	if n.shape != dict {
		d.complain(n.at, "%s wants a map, not %v", last(path), n.shape)
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, e := range n.keys {
		if v.Type() == reflect.TypeFor[Thresholds]() && !slices.Contains(figures(), e.key) {
			d.complain(e.at, "unknown figure %s; %s", quote(e.key), meant(e.key, figures()))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, e.key), e.value, item)
		out.SetMapIndex(reflect.ValueOf(e.key), item)
	}
	v.Set(out)
}

func (d *decoder) plain(path string, n *node, v reflect.Value) {
	if n.shape != scalar {
		d.complain(n.at, "%s wants a value, not %v", last(path), n.shape)
		return
	}
	switch v.Kind() {
	case reflect.String:
		if n.tag != "str" && !(n.tag == "int" && path == "server.on_conflict") {
			d.complain(n.at, "%s wants text, not %s; did you mean %q?", last(path), n.text, n.text)
			return
		}
		v.SetString(n.text)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.text)
		if n.tag != "bool" || err != nil {
			d.complain(n.at, "%s wants true or false, not %s", last(path), quote(n.text))
			return
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(strings.ReplaceAll(n.text, "_", ""))
		if n.tag != "int" || err != nil {
			d.complain(n.at, "%s wants a whole number, not %s", last(path), quote(n.text))
			return
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := parseNumber(n.text)
		if err != nil {
			d.complain(n.at, "%s wants a number from 0, not %s", last(path), quote(n.text))
			return
		}
		v.SetFloat(f)
	default:
		panic("profiles: no decoder for " + v.Type().String())
	}
}

// anyOf turns a tree into what encoding/json can write. Whole numbers stay whole.
func anyOf(n *node) any {
	switch n.shape {
	case dict:
		m := map[string]any{}
		for _, e := range n.keys {
			m[e.key] = anyOf(e.value)
		}
		return m
	case list:
		l := make([]any, 0, len(n.items))
		for _, item := range n.items {
			l = append(l, anyOf(item))
		}
		return l
	}
	switch n.tag {
	case "int":
		if i, err := strconv.ParseInt(n.text, 0, 64); err == nil {
			return i
		}
	case "float":
		if f, err := strconv.ParseFloat(n.text, 64); err == nil {
			return f
		}
	case "bool":
		return strings.EqualFold(n.text, "true")
	case "null":
		return nil
	}
	return n.text
}

// setDefault gives list items the values of the fields that they leave out.
func setDefault(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *Call:
		*p = DefaultCall()
	case *Fault:
		*p = DefaultFault()
	}
}

// key is the name of a field in a document; "" when it has none.
func key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func last(path string) string {
	if path == "" {
		return "the profile"
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

func short(n *node) string {
	if n.shape == scalar && n.text != "" {
		return strings.Trim(quote(n.text), `"`)
	}
	return "…"
}
