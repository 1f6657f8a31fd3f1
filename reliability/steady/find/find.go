// Package find finds the random tests of the repository: those that reach a check of rapid's.
package find

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is a folder with tests.
type Package struct {
	Folder  string          // below the root
	Random  []string        // the names of its random tests
	Imports map[string]bool // of its tests
}

// Packages are the packages with tests below root, by folder. Modules of their own below it are left out.
func Packages(root string) ([]Package, error) {
	var found []Package
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if module, err := filepath.Glob(filepath.Join(path, "go.mod")); err != nil || path != root && len(module) > 0 {
			return filepath.SkipDir
		}
		p, err := look(path)
		if err != nil {
			return err
		}
		if p.Folder, err = filepath.Rel(root, path); err != nil {
			return err
		}
		if p.Imports != nil {
			found = append(found, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for tests: %w", err)
	}
	return found, nil
}

// function is one of a folder's tests or their helpers.
type function struct {
	checks bool            // calls rapid itself
	names  map[string]bool // what its body speaks of
}

// look reads the tests of a folder.
func look(folder string) (Package, error) {
	var p Package
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return p, err
	}
	functions := map[string]*function{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return p, err
		}
		if p.Imports == nil {
			p.Imports = map[string]bool{}
		}
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil {
				p.Imports[path] = true
			}
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && d.Recv == nil {
				functions[d.Name.Name] = spoken(d.Body)
			}
		}
	}
	for changed := true; changed; { // a helper's check is that of who calls it
		changed = false
		for _, f := range functions {
			for name := range f.names {
				if g := functions[name]; !f.checks && g != nil && g.checks {
					f.checks, changed = true, true
				}
			}
		}
	}
	for name, f := range functions {
		if f.checks && strings.HasPrefix(name, "Test") {
			p.Random = append(p.Random, name)
		}
	}
	slices.Sort(p.Random)
	return p, nil
}

// spoken is what a body speaks of.
func spoken(body *ast.BlockStmt) *function {
	f := &function{names: map[string]bool{}}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			f.names[n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "rapid" && (n.Sel.Name == "Check" || n.Sel.Name == "MakeCheck") {
				f.checks = true
			}
		}
		return true
	})
	return f
}
