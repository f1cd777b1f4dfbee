package profiles

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

//go:embed *.yaml
var builtin embed.FS

// Builtin lists the names of the built-in profiles, sorted.
func Builtin() []string {
	entries, err := builtin.ReadDir(".")
	if err != nil {
		panic(err) // an embedded directory can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Source returns the text of a built-in profile as it was written.
func Source(name string) ([]byte, error) {
	data, err := builtin.ReadFile(name + ".yaml")
	if err != nil {
		return nil, unknownProfile(name)
	}
	return data, nil
}

func unknownProfile(name string) error {
	return fmt.Errorf("no profile %s; %s (a file is named by its path, such as ./%s.yaml)",
		quote(name), meant(name, Builtin()), "mine")
}

// Load reads a profile by its built-in name or by its path, with all it
// extends. The error joins one [Complaint] per mistake.
func Load(name string) (Profile, error) {
	l := loader{}
	tree := l.open(name, "", position{})
	return l.finish(name, tree)
}

// Parse reads a profile from data; file is its name in complaints and the
// place that relative paths of extends start from.
func Parse(file string, data []byte) (Profile, error) {
	l := loader{}
	return l.finish(file, l.read(file, filepath.Dir(file), data))
}

// A loader follows extends and remembers on which chain it is.
type loader struct {
	chain      []string
	complaints []error
}

func (l *loader) fail(from position, err error) *node {
	if from.file != "" {
		err = complain(from, "%v", err)
	}
	l.complaints = append(l.complaints, err)
	return nil
}

// open finds the document name, which was extended at from by a file in dir.
func (l *loader) open(name, dir string, from position) *node {
	if slices.Contains(Builtin(), name) {
		data, err := Source(name)
		if err != nil {
			return l.fail(from, err)
		}
		return l.enter(name, name, dir, data, from)
	}
	if !strings.ContainsAny(name, `/\`) && filepath.Ext(name) == "" {
		return l.fail(from, unknownProfile(name))
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return l.fail(from, fmt.Errorf("%s is not a file; a profile is one", path))
	case err == nil && info.Size() > maxDocument:
		return l.fail(from, fmt.Errorf("%s has %d bytes; a profile has at most %d", path, info.Size(), maxDocument))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return l.fail(from, fmt.Errorf("read profile: %w", err))
	}
	return l.enter(path, path, filepath.Dir(path), data, from)
}

func (l *loader) enter(id, file, dir string, data []byte, from position) *node {
	if slices.Contains(l.chain, id) {
		return l.fail(from, fmt.Errorf("extends goes in a circle: %s", strings.Join(append(l.chain, id), " → ")))
	}
	l.chain = append(l.chain, id)
	return l.read(file, dir, data)
}

// read parses a document and lays it over what it extends.
func (l *loader) read(file, dir string, data []byte) *node {
	tree, complaints := parse(file, data)
	l.complaints = append(l.complaints, complaints...)
	if tree == nil || tree.shape != dict {
		return nil
	}
	l.clash(tree)
	base := tree.get("extends")
	if base == nil || base.shape != scalar || base.text == "" {
		return tree
	}
	tree.drop("extends")
	under := l.open(base.text, dir, base.at)
	if under == nil {
		return tree
	}
	return overlay(under, tree)
}

// clash finds both models of load named in one document. Across documents the
// later one decides, so this can only be seen before they are merged.
func (l *loader) clash(tree *node) {
	load := tree.get("load")
	if load == nil {
		return
	}
	for _, open := range []string{"rate", "stages"} {
		if streams, other := load.get("streams"), load.get(open); named(streams) && named(other) {
			l.complaints = append(l.complaints, complain(other.at,
				"streams and %s in one load: streams asks for the closed model, %s for the open one; keep one of them", open, open))
		}
	}
}

// named tells whether n asks for something; zero values written out do not.
func named(n *node) bool {
	if n == nil {
		return false
	}
	return len(n.items) > 0 || n.shape == scalar && n.text != "0" && n.text != "0s" && n.text != ""
}

// overlay merges maps and replaces all else. Positions come from where a value
// was written.
func overlay(under, over *node) *node {
	if under.shape != dict || over.shape != dict {
		return over
	}
	out := &node{shape: dict, at: over.at, keys: slices.Clone(under.keys)}
	for _, e := range over.keys {
		if below := out.get(e.key); below != nil {
			if e.key == "load" {
				below = switchModel(below, e.value)
			}
			e.value = overlay(below, e.value)
			out.drop(e.key)
		}
		out.keys = append(out.keys, e)
	}
	return out
}

// switchModel drops from a load what belongs to the model that over leaves.
func switchModel(under, over *node) *node {
	out := &node{shape: under.shape, tag: under.tag, text: under.text, at: under.at, keys: slices.Clone(under.keys)}
	var gone []string
	switch {
	case named(over.get("rate")):
		gone = []string{"streams", "calls", "hold", "stages"}
	case named(over.get("stages")):
		gone = []string{"streams", "calls", "hold", "rate", "duration"}
	case named(over.get("streams")):
		gone = []string{"rate", "duration", "stages"}
	}
	for _, k := range gone {
		out.drop(k)
	}
	return out
}

// finish decodes the merged tree and checks what it says.
func (l *loader) finish(name string, tree *node) (Profile, error) {
	p := Default()
	p.Name = name
	if tree == nil {
		return Profile{}, errors.Join(l.complaints...)
	}
	d := decoder{explicit: map[string]bool{}, where: map[string]position{"": tree.at}}
	d.value("", tree, reflect.ValueOf(&p).Elem())
	delete(d.explicit, "")
	p.explicit = d.explicit
	if p.Load.open() && !p.Explicit("load.streams") {
		p.Load.Streams = 0
	}
	p.Resolve()
	all := append(l.complaints, d.complaints...)
	clean := len(all) == 0
	for _, c := range p.check() {
		if clean || c.alone { // the others may only follow from what could not be read
			all = append(all, complain(d.locate(c.path), "%s", c.text))
		}
	}
	if len(all) > 0 {
		return Profile{}, errors.Join(all...)
	}
	return p, nil
}

// locate finds the position of a path, or of the nearest thing around it.
func (d *decoder) locate(path string) position {
	for {
		if at, ok := d.where[path]; ok {
			return at
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return d.where[""]
		}
		path = path[:i]
	}
}
