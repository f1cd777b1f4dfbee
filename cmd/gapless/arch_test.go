package main_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The rules of the repository, each a function over its parsed files. A rule
// that nobody saw fire is no rule: TestArchitectureRulesFire shows each of them
// a file that breaks it.

const module = "github.com/gapless-dev/gapless"

// A source is one text file of the repository.
type source struct {
	path  string // relative to the root, with slashes
	text  string
	fset  *token.FileSet
	file  *ast.File // nil unless it is Go
	lines int
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// dir is the folder of the file: the package path without the module.
func (s source) dir() string { return path.Dir(s.path) }

// at describes a place in the file for a complaint.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

// imports maps each import path of the file to the name it is used by.
func (s source) imports() map[string]string {
	out := map[string]string{}
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[p] = name
	}
	return out
}

// ours lists the folders of this module that the file imports, its own left out.
func (s source) ours() []string {
	var out []string
	for p := range s.imports() {
		if dir, is := strings.CutPrefix(p, module+"/"); is && dir != s.dir() {
			out = append(out, dir)
		}
	}
	return out
}

// calls reports every call of pkg.name, by whatever name pkg is imported.
func (s source) calls(pkg string, names ...string) []ast.Node {
	alias, imported := s.imports()[pkg]
	if !imported {
		return nil
	}
	var out []ast.Node
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, is := n.(*ast.SelectorExpr)
		if !is {
			return true
		}
		if id, is := sel.X.(*ast.Ident); is && id.Name == alias {
			for _, name := range names {
				if sel.Sel.Name == name {
					out = append(out, sel)
				}
			}
		}
		return true
	})
	return out
}

// around returns the declared function that n stands in, or nil.
func (s source) around(n ast.Node) *ast.FuncDecl {
	for _, d := range s.file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Pos() <= n.Pos() && n.End() <= f.End() {
			return f
		}
	}
	return nil
}

func parseSource(name, text string) (source, error) {
	s := source{path: name, text: text, lines: strings.Count(text, "\n")}
	if !strings.HasSuffix(name, ".go") {
		return s, nil
	}
	s.fset = token.NewFileSet()
	file, err := parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	s.file = file
	return s, err
}

// repository reads every text file below root. What git does not keep, such as
// a built binary or a saved run, is left out as far as that can be told.
func repository(t *testing.T, root string) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if name == ".git" || name == "out" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
			return nil
		}
		s, err := parseSource(name, string(text))
		if err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestArchitecture(t *testing.T) {
	sources := repository(t, filepath.Join("..", ".."))
	parsed := 0
	for _, s := range sources {
		if s.file != nil {
			parsed++
		}
	}
	if parsed < 50 {
		t.Fatalf("only %d Go files were found: the rules looked at nothing", parsed)
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, complaint := range r.check(sources) {
				t.Error(complaint)
			}
		})
	}
}
