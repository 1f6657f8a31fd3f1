package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayersKnowNoConfiguration: in estimator/model a function reads a configuration, or it declares layers or plays
// them. What was read stands in the Architecture between them.
func TestLayersKnowNoConfiguration(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("..", "..", "estimator", "model", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var reading, layers []*ast.FuncType
	bodies := map[*ast.FuncType]*ast.BlockStmt{}
	methods, others := map[string]bool{}, map[string]bool{} // methods of configurations, and what others declare
	for _, name := range names {
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
			reads := takes(typ.Params, "*config") || takes(receiver, "*config")
			plays := takes(typ.Params, "*builder", "*step.Tape") || takes(receiver, "*builder")
			switch {
			case reads && plays:
				t.Errorf("%s: a function of a configuration and of layers", set.Position(n.Pos()))
			case reads:
				reading = append(reading, typ)
			case plays:
				layers = append(layers, typ)
			}
			if d, ok := n.(*ast.FuncDecl); ok && takes(receiver, "*config") {
				methods[d.Name.Name] = true
			} else if ok {
				others[d.Name.Name] = true
			}
			return true
		})
	}
	if len(reading) < 50 || len(layers) < 200 || len(methods) < 30 {
		t.Fatalf("found %d functions that read, %d of layers and %d methods: this looks at the wrong thing", len(reading),
			len(layers), len(methods))
	}
	for _, typ := range layers {
		ast.Inspect(bodies[typ], func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && methods[f.Sel.Name] && !others[f.Sel.Name] {
					t.Errorf("%s: layers ask a configuration: %s", set.Position(n.Pos()), f.Sel.Name)
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
