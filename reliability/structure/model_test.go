package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayersKnowNoConfiguration: below estimator/model a function reads a configuration, or it declares layers or plays
// them. What was read stands in the Architecture between them.
func TestLayersKnowNoConfiguration(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("..", "..", "estimator", "model", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	step, err := filepath.Glob(filepath.Join("..", "..", "estimator", "step", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var reading, layers []*ast.FuncType
	bodies := map[*ast.FuncType]*ast.BlockStmt{}
	readers, others := map[string]bool{}, map[string]bool{} // what functions that read are called, and all others
	for _, name := range append(step, names...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			typ, body, receiver := functionOf(n)
			if typ == nil {
				return true
			}
			bodies[typ] = body
			reads := takes(typ.Params, "*Config", "*arch.Config") || takes(receiver, "*Config")
			plays := takes(typ.Params, "*Builder", "*arch.Builder", "*step.Tape") || takes(receiver, "*Builder")
			switch {
			case reads && plays:
				t.Errorf("%s: a function of a configuration and of layers", set.Position(n.Pos()))
			case reads:
				reading = append(reading, typ)
			case plays:
				layers = append(layers, typ)
			}
			if d, ok := n.(*ast.FuncDecl); ok && reads {
				readers[d.Name.Name] = true
			} else if ok {
				others[d.Name.Name] = true
			}
			return true
		})
	}
	if len(reading) < 50 || len(layers) < 200 || len(readers) < 30 {
		t.Fatalf("found %d functions that read, %d of layers and %d names: this looks at the wrong thing", len(reading),
			len(layers), len(readers))
	}
	for _, typ := range layers {
		ast.Inspect(bodies[typ], func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f := called(call); readers[f] && !others[f] {
					t.Errorf("%s: layers ask a configuration: %s", set.Position(n.Pos()), f)
				}
			}
			return true
		})
	}
}

func functionOf(n ast.Node) (*ast.FuncType, *ast.BlockStmt, *ast.FieldList) {
	switch f := n.(type) {
	case *ast.FuncDecl:
		return f.Type, f.Body, f.Recv
	case *ast.FuncLit:
		return f.Type, f.Body, nil
	}
	return nil, nil, nil
}

// takes says whether one of the parameters has one of the types.
func takes(fields *ast.FieldList, types ...string) bool {
	if fields == nil {
		return false
	}
	for _, field := range fields.List {
		for _, want := range types {
			if pointed(field.Type) == want {
				return true
			}
		}
	}
	return false
}

// pointed is a pointer's type as it is written.
func pointed(e ast.Expr) string {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return ""
	}
	switch x := star.X.(type) {
	case *ast.Ident:
		return "*" + x.Name
	case *ast.SelectorExpr:
		if in, ok := x.X.(*ast.Ident); ok {
			return "*" + in.Name + "." + x.Sel.Name
		}
	}
	return ""
}
