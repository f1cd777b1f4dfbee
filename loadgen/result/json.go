package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// maxResult bounds what Decode reads; evidence is bounded, so results are small.
const maxResult = 64 << 20

// Encode writes the result as result.json. It changes nothing in r.
func (r *Result) Encode(w io.Writer) error {
	out := *r
	out.Gapless = Format
	if out.Verdict == "" {
		out.Verdict = Inconclusive
	}
	fill(reflect.ValueOf(&out).Elem())
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&out); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// fill replaces nil maps and lists by empty ones. Lists are copied first: the
// caller's are shared with v.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			fill(list.Index(i))
		}
		v.Set(list)
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}

// Decode reads what [Result.Encode] wrote. Unknown fields, missing fields, nulls
// and anything after the object are errors: half a result is none.
func Decode(r io.Reader) (*Result, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if len(data) > maxResult {
		return nil, fmt.Errorf("decode result: more than %d bytes", maxResult)
	}
	out := &Result{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode result: more text after the result")
	}
	if out.Gapless != Format {
		return nil, fmt.Errorf("decode result: format %q; this gapless reads %q", out.Gapless, Format)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	if err := complete("", reflect.TypeFor[Result](), tree); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	return out, nil
}

// complete joins the paths of fields of t that tree lacks.
func complete(path string, t reflect.Type, tree any) error {
	if tree == nil {
		return fmt.Errorf("field %s is null", path)
	}
	var all []error
	switch t.Kind() {
	case reflect.Struct:
		object, isObject := tree.(map[string]any)
		if !isObject {
			return nil // a type that has a text of its own, such as time.Time
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			value, present := object[name]
			if !present {
				all = append(all, fmt.Errorf("field %s is missing", at))
				continue
			}
			all = append(all, complete(at, f.Type, value))
		}
	case reflect.Slice:
		items, _ := tree.([]any)
		for i, item := range items {
			all = append(all, complete(fmt.Sprintf("%s[%d]", path, i), t.Elem(), item))
		}
	}
	return errors.Join(all...)
}
