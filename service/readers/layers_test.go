package readers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// No shared package knows a tool, and no tool knows another one: only the table does, which has each of them.
func TestToolsStandAlone(t *testing.T) {
	const root = `"github.com/vramplan/vramplan/service/readers/`
	names, err := filepath.Glob("*/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no packages: %v", err)
	}
	rows := map[string]bool{} // folders that declare a row
	imports := map[string][]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Base(filepath.Dir(name))
		for _, d := range file.Decls {
			g, isVar := d.(*ast.GenDecl)
			if !isVar || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				rows[folder] = rows[folder] || s.(*ast.ValueSpec).Names[0].Name == "Tool"
			}
		}
		for _, i := range file.Imports {
			if below, ok := strings.CutPrefix(i.Path.Value, root); ok {
				imports[folder] = append(imports[folder], strings.TrimSuffix(below, `"`))
			}
		}
	}
	n := 0
	for _, row := range rows {
		if row {
			n++
		}
	}
	for folder, others := range imports {
		for _, other := range others {
			if rows[other] {
				t.Errorf("%s imports %s, which is a tool's", folder, other)
			}
		}
	}
	if n != len(tools) {
		t.Errorf("%d folders have a tool, and the table has %d rows", n, len(tools))
	}
}
