package release_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/release"
)

// TestEveryChangeIsAskedFor reads the sources of the estimator: each change is a variable, known by the name that it is
// declared under, and something asks for it beside its declaration.
func TestEveryChangeIsAskedFor(t *testing.T) {
	variables, uses := map[string]release.Switch{}, map[string]int{}
	set := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.Ident:
				uses[x.Name]++
			case *ast.ValueSpec:
				if name := declares(x); name != "" {
					variables[x.Names[0].Name] = name
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[release.Switch]bool{}
	for _, c := range release.Changes() {
		listed[c.Switch] = true
	}
	if len(variables) != len(listed) || len(variables) < 50 {
		t.Errorf("%d variables declare a change, and %d are listed", len(variables), len(listed))
	}
	for variable, name := range variables {
		if !listed[name] {
			t.Errorf("%s (%s) is not listed", name, variable)
		}
		if uses[variable] < 2 {
			t.Errorf("nothing asks for %s (%s)", name, variable)
		}
	}
}

// declares is the name under which a variable declares a change.
func declares(spec *ast.ValueSpec) (name release.Switch) {
	for _, value := range spec.Values {
		ast.Inspect(value, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Declare" {
				return true
			}
			if word, ok := call.Args[0].(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(word.Value); err == nil {
					name = release.Switch(text)
				}
			}
			return false
		})
	}
	return name
}

// TestDeclareRefuses: a name stands once, and nothing is declared behind the first look at what there is.
func TestDeclareRefuses(t *testing.T) {
	release.Changes()
	for _, name := range []release.Switch{"returns-workspace", "of-a-test"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was declared", name)
				}
			}()
			release.Declare(name, release.Change{Library: "torch", From: "9.0"})
		}()
	}
}

// TestHolding: what is said to be there or not counts more than a release, and zero is no change.
func TestHolding(t *testing.T) {
	id, _ := release.Declared("returns-workspace")
	for _, version := range []string{"2.9", "2.15"} {
		for _, want := range []bool{false, true} {
			set, rows := release.Holding(map[string]string{"torch": version}, nil,
				map[release.Switch]bool{"returns-workspace": want})
			listed := false
			for _, c := range rows {
				listed = listed || c.ID() == id
			}
			if set.Has(id) != want || listed != want || set.Has(0) {
				t.Errorf("torch %s: in the set %v, in the rows %v, want %v", version, set.Has(id), listed, want)
			}
		}
	}
	if none, known := release.Declared("of-nobody"); known || none != 0 || id.Switch() != "returns-workspace" {
		t.Errorf("of-nobody is %d, returns-workspace is %s", none, id.Switch())
	}
}
