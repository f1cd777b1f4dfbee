package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Built tells whether this version can do what the profile asks for. A profile
// may be valid and ask for more: then the error names each such wish, so that
// nothing is left out in silence.
func (p Profile) Built() error {
	var all []error
	for _, wish := range p.wishes() {
		if wish.asked {
			all = append(all, fmt.Errorf("not built yet: %s", wish.what))
		}
	}
	for _, f := range p.Faults.Mix {
		if !slices.Contains(builtKinds(), f.Kind) {
			all = append(all, fmt.Errorf("not built yet: fault kind %s (built: %s)", f.Kind, oneOf(builtKinds())))
		}
	}
	return errors.Join(all...)
}

// builtKinds are all but those that strike the reference server from inside, or
// a neighbour of the streams.
func builtKinds() []string {
	return slices.DeleteFunc(kinds(), func(kind string) bool {
		return slices.Contains(runWide(), kind) && kind != "storm"
	})
}

func builtDefects() []string { return []string{"S03", "S05"} }

type wish struct {
	asked bool
	what  string
}

func (p Profile) wishes() []wish {
	return slices.Concat(p.targetWishes(), p.judgeWishes())
}

func (p Profile) targetWishes() []wish {
	t, s := p.Target, p.Server
	return []wish{
		{t.Dialect == "streams" && t.Transport == "stdio", "dialect streams over stdio (built: over http)"},
		{t.Transport != "http" && t.Transport != "stdio", "transport " + t.Transport + " (built: http and stdio)"},
		{t.Transport == "stdio" && t.Exec == "", "transport stdio of the reference server (name exec)"},
		{strings.HasPrefix(t.URL, "ws"), "urls of WebSockets"},
		{s.Store != "memory" && s.Store != "none", "store " + s.Store + " (built: memory and none)"},
		{s.Defect != "" && !builtDefect(s.Defect), "defect " + s.Defect + " (built: " + oneOf(builtDefects()) + ")"},
	}
}

// builtDefect looks at the code alone: its variants and settings are the
// reference server's to judge.
func builtDefect(defect string) bool {
	code, _, _ := strings.Cut(defect, ",")
	return slices.ContainsFunc(builtDefects(), func(b string) bool {
		return strings.EqualFold(strings.TrimRight(code, "abcdefgh"), b)
	})
}

func (p Profile) judgeWishes() []wish {
	j := p.Judge
	return []wish{
		{j.Oracle == "wire", "oracle " + j.Oracle + " (built: auto, ledger, numbered and twin)"},
	}
}
