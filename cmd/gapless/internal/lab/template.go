package lab

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/gapless-dev/gapless/loadgen"
)

// A template is a JSON value in which some texts are filled in anew for every call.
// What is drawn is keyed by seed and stream: a call of one number has the same
// arguments in every run of a seed.
//
//	{{seq}}         the number of the stream; alone in its text it is a JSON number
//	{{rand 1 100}}  a whole number from 1 to 100, likewise
//	{{uuid}}        a UUID
//	{{file "f"}}    the content of a file, read once
type template struct {
	parts []part
	text  bool // all values are texts: the arguments of a prompt
}

// A part is text as it is, or what fills it in.
type part struct {
	text string
	fill func(seed uint64, stream uint32) string // nil: text
	bare bool                                    // fill gives JSON, not the inside of a JSON text
}

// maxTemplateFile bounds a file that is put into the arguments of a call.
const maxTemplateFile = 1 << 20

// compile reads the templates in all texts of a JSON object. Keys are left as they are.
// With text, all values have to be texts (2025-11-25 prompts, Getting a Prompt).
func compile(args map[string]any, text bool) (*template, error) {
	t := &template{text: text}
	if args == nil {
		args = map[string]any{}
	}
	for name, v := range args {
		if _, is := v.(string); text && !is {
			return nil, fmt.Errorf("%s is no text; the arguments of a prompt are", name)
		}
	}
	if err := t.value(args); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *template) value(v any) error {
	switch v := v.(type) {
	case string:
		return t.string(v)
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return t.list("{", "}", len(keys), func(i int) error {
			t.add(quoted(keys[i]) + ":")
			return t.value(v[keys[i]])
		})
	case []any:
		return t.list("[", "]", len(v), func(i int) error { return t.value(v[i]) })
	}
	text, err := json.Marshal(v)
	t.add(string(text))
	return err
}

func (t *template) list(open, shut string, n int, item func(int) error) error {
	t.add(open)
	for i := range n {
		if i > 0 {
			t.add(",")
		}
		if err := item(i); err != nil {
			return err
		}
	}
	t.add(shut)
	return nil
}

// add appends text as it is.
func (t *template) add(text string) {
	if n := len(t.parts); n > 0 && t.parts[n-1].fill == nil {
		t.parts[n-1].text += text
		return
	}
	t.parts = append(t.parts, part{text: text})
}

// action finds what stands in double braces.
var action = regexp.MustCompile(`\{\{.*?\}\}`)

func (t *template) string(s string) error {
	found := action.FindAllStringIndex(s, -1)
	if len(found) == 1 && !t.text && found[0][0] == 0 && found[0][1] == len(s) {
		p, err := parseAction(s)
		if err == nil && !p.bare {
			t.add(`"`)
			t.parts = append(t.parts, p)
			t.add(`"`)
			return nil
		}
		t.parts = append(t.parts, p)
		return err
	}
	t.add(`"`)
	at := 0
	for _, f := range found {
		p, err := parseAction(s[f[0]:f[1]])
		if err != nil {
			return err
		}
		t.add(inside(s[at:f[0]]))
		t.parts = append(t.parts, p)
		at = f[1]
	}
	t.add(inside(s[at:]) + `"`)
	return nil
}

// quoted is the JSON text of s, inside what stands between its quotes.
func quoted(s string) string {
	text, _ := json.Marshal(s) // a string can always be marshalled
	return string(text)
}

func inside(s string) string {
	text := quoted(s)
	return text[1 : len(text)-1]
}

// parseAction reads one action with its braces.
func parseAction(s string) (part, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(s[2:len(s)-2]), " ")
	rest = strings.TrimSpace(rest)
	bad := func(want string) (part, error) { return part{}, fmt.Errorf("%s: write it like %s", s, want) }
	switch name {
	case "seq":
		if rest != "" {
			return bad("{{seq}}")
		}
		return part{bare: true, fill: func(_ uint64, stream uint32) string { return strconv.FormatUint(uint64(stream), 10) }}, nil
	case "uuid":
		if rest != "" {
			return bad("{{uuid}}")
		}
		return part{fill: uuid}, nil
	case "rand":
		var lo, hi int64
		if n, err := fmt.Sscanf(rest+"\n", "%d %d\n", &lo, &hi); n != 2 || err != nil || lo > hi || lo < -1<<52 || hi > 1<<52 {
			return bad("{{rand 1 100}}")
		}
		return part{bare: true, fill: func(seed uint64, stream uint32) string {
			return strconv.FormatInt(lo+int64(key("rand "+rest, seed, stream)%uint64(hi-lo+1)), 10)
		}}, nil
	case "file":
		path, err := unquote(rest)
		if err != nil {
			return bad(`{{file "input.txt"}} or {{file 'input.txt'}}`)
		}
		text, err := readBounded(path)
		if err != nil {
			return part{}, fmt.Errorf("%s: %w", s, err)
		}
		return part{text: inside(text)}, nil
	}
	return part{}, fmt.Errorf(`%s: unknown; known: {{seq}}, {{uuid}}, {{rand 1 100}}, {{file "input.txt"}}`, s)
}

// unquote takes single quotes too, which need no escape inside JSON.
func unquote(s string) (string, error) {
	if n := len(s); n > 2 && s[0] == '\'' && s[n-1] == '\'' {
		return s[1 : n-1], nil
	}
	return strconv.Unquote(s)
}

func readBounded(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxTemplateFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxTemplateFile:
		return "", errors.New("more than 1 MiB, which is too much for an argument")
	}
	return string(data), nil
}

// key is a number drawn for one purpose of one stream.
func key(purpose string, seed uint64, stream uint32) uint64 {
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	binary.LittleEndian.PutUint32(b[8:], stream)
	d := xxhash.New()
	_, _ = d.WriteString(purpose) // a hash takes whatever it is given
	_, _ = d.Write(b[:])
	return d.Sum64()
}

// uuid is a UUID of version 8: one that is made in a way of one's own (RFC 9562 §5.8).
func uuid(seed uint64, stream uint32) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], key("uuid a", seed, stream))
	binary.BigEndian.PutUint64(b[8:], key("uuid b", seed, stream))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// arguments returns what the calls of a run send.
func (t *template) arguments(seed uint64) func(loadgen.Arrival) json.RawMessage {
	if t.fixed() {
		whole := json.RawMessage(t.expand(0, 0))
		return func(loadgen.Arrival) json.RawMessage { return whole }
	}
	return func(a loadgen.Arrival) json.RawMessage { return t.expand(seed, a.Stream) }
}

// fixed tells whether all calls send the same.
func (t *template) fixed() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { return p.fill != nil })
}

func (t *template) expand(seed uint64, stream uint32) []byte {
	var b []byte
	for _, p := range t.parts {
		b = append(b, p.text...)
		if p.fill != nil {
			b = append(b, p.fill(seed, stream)...)
		}
	}
	return b
}
