// Command structure counts what the shape of the replay's code is, so that a change of it can be judged by figures:
//
//	go run ./reliability/structure [CHECKOUT...]
//
// prints one column for each checkout of the repository, the present one by default, and below it what of each would be
// too wide for one: files and methods beyond a limit, references that run back, what is written in several places. It
// reads files and compiles nothing, so names stand for what they name: a reference is a name that another file of the
// package declares and no other name is spelled like.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"."}
	}
	var columns []figures
	var houses [][][2]string
	for _, root := range roots {
		f, err := measure(root)
		h, wrong := houseOf(root)
		if err := cmp.Or(err, wrong); err != nil {
			fmt.Fprintln(os.Stderr, "structure:", err)
			os.Exit(1)
		}
		columns, houses = append(columns, f), append(houses, h.lines())
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprint(w, row.name)
		for _, c := range columns {
			fmt.Fprint(w, "\t", row.of(c))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "structure:", err)
		os.Exit(1)
	}
	for i, lines := range houses {
		fmt.Printf("\n%s\n", roots[i])
		for _, l := range lines {
			fmt.Printf("  %s: %s\n", l[0], l[1])
		}
	}
}

// figures are those of one checkout.
type figures struct {
	packages, tapeMethods, tapeFiles   int
	sharding, shardingFiles            int
	compile, optimizers                int
	references, mutual                 int
	lines, comments, long, longestFile int
}

var rows = []struct {
	name string
	of   func(figures) string
}{
	{"packages below estimator/step", func(f figures) string { return strconv.Itoa(f.packages) }},
	{"methods of the tape", func(f figures) string { return strconv.Itoa(f.tapeMethods) }},
	{"files that have methods of the tape", func(f figures) string { return strconv.Itoa(f.tapeFiles) }},
	{"branches on a parallel strategy outside its files", func(f figures) string {
		return fmt.Sprintf("%d in %d files", f.sharding, f.shardingFiles)
	}},
	{"branches on compile", func(f figures) string { return strconv.Itoa(f.compile) }},
	{"files that know an optimizer by its name", func(f figures) string { return strconv.Itoa(f.optimizers) }},
	{"references from file to file within a package", func(f figures) string { return strconv.Itoa(f.references) }},
	{"pairs of files that refer to each other", func(f figures) string { return strconv.Itoa(f.mutual) }},
	{"lines", func(f figures) string { return strconv.Itoa(f.lines) }},
	{"share of lines with comments", func(f figures) string {
		return fmt.Sprintf("%.1f %%", 100*float64(f.comments)/float64(max(f.lines, 1)))
	}},
	{"lines above 120 columns", func(f figures) string { return strconv.Itoa(f.long) }},
	{"lines of the longest file", func(f figures) string { return strconv.Itoa(f.longestFile) }},
}

// What a condition mentions that branches on a strategy, or on compile.
var (
	strategyWords = map[string]bool{"Sharding": true, "sharding": true, "shards": true, "Flat": true, "Reducer": true,
		"NoReducer":      true,
		"ReducerRebuilt": true, "ReducerFixed": true, "Unsynced": true}
	compileWords = map[string]bool{"compiled": true, "Compile": true, "CompileLoss": true}
)

// optimizerNames are the names by which the job document knows optimizers, and with what the constants of the replay
// begin.
var optimizerNames = map[string]bool{"adamw": true, "adam": true, "sgd": true, "sgd-momentum": true, "adafactor": true,
	"lion":       true,
	"adamw-8bit": true, "adamw-4bit": true, "paged-adamw": true, "paged-adamw-8bit": true, "lion-8bit": true,
	"muon": true, "galore-adamw": true}

func knowsOptimizer(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.BasicLit:
		name, err := strconv.Unquote(x.Value)
		return x.Kind == token.STRING && err == nil && optimizerNames[name]
	case *ast.SelectorExpr:
		for _, stem := range []string{"AdamW", "SGD", "Lion", "Muon", "GaLore", "Adafactor", "PagedAdamW"} {
			if strings.HasPrefix(x.Sel.Name, stem) {
				return true
			}
		}
	}
	return false
}

func measure(root string) (f figures, err error) {
	packages := map[string][]*ast.File{}
	set := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !strings.HasPrefix(rel, "reliability/") && !strings.HasPrefix(rel, "openapi/") &&
			!strings.HasSuffix(rel, "optimizertable.go") && has(file, knowsOptimizer) {
			f.optimizers++
		}
		if strings.HasPrefix(rel, "estimator/step/") {
			dir := filepath.Dir(rel)
			packages[dir] = append(packages[dir], file)
			f.file(set, file, text, dir)
		}
		return nil
	})
	for _, files := range packages {
		f.packages++
		f.refer(files)
	}
	return f, err
}

func has(n ast.Node, is func(ast.Node) bool) bool {
	found := false
	ast.Inspect(n, func(m ast.Node) bool {
		found = found || m != nil && is(m)
		return !found
	})
	return found
}

// file adds what can be said of one file.
func (f *figures) file(set *token.FileSet, file *ast.File, text []byte, dir string) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	f.lines += len(lines)
	f.longestFile = max(f.longestFile, len(lines))
	for _, l := range lines {
		if len([]rune(strings.ReplaceAll(l, "\t", "    "))) > 120 {
			f.long++
		}
	}
	commented := map[int]bool{}
	for _, g := range file.Comments {
		for l := set.Position(g.Pos()).Line; l <= set.Position(g.End()).Line; l++ {
			commented[l] = true
		}
	}
	f.comments += len(commented)
	methods := 0
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv != nil && has(fn.Recv, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && id.Name == "Tape"
		}) {
			methods++
		}
	}
	if f.tapeMethods += methods; methods > 0 {
		f.tapeFiles++
	}
	mentions := func(words map[string]bool) (count int) {
		branch := func(condition ast.Expr) {
			if condition != nil && has(condition, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				return ok && words[id.Name]
			}) {
				count++
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.IfStmt:
				branch(x.Cond)
			case *ast.CaseClause:
				for _, e := range x.List {
					branch(e)
				}
			}
			return true
		})
		return count
	}
	f.compile += mentions(compileWords)
	name := filepath.Base(set.Position(file.Package).Filename)
	if strings.HasSuffix(dir, "/parallel") || strings.HasPrefix(name, "shard") || strings.HasPrefix(name, "reducer") ||
		strings.HasPrefix(name, "fsdp") || strings.HasPrefix(name, "ddp") {
		return
	}
	if n := mentions(strategyWords); n > 0 {
		f.sharding += n
		f.shardingFiles++
	}
}

// refer counts the references between the files of a package.
func (f *figures) refer(files []*ast.File) {
	declared := map[string]int{} // which file; -1 for several
	for i, file := range files {
		for _, d := range file.Decls {
			for _, name := range names(d) {
				if at, ok := declared[name]; ok && at != i {
					declared[name] = -1
					continue
				}
				declared[name] = i
			}
		}
	}
	to := make([]map[int]int, len(files))
	for i, file := range files {
		to[i] = map[int]int{}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if at, ok := declared[id.Name]; ok && at >= 0 && at != i {
					to[i][at]++
				}
			}
			return true
		})
	}
	for i := range to {
		for k, n := range to[i] {
			f.references += n
			if k > i && to[k][i] > 0 {
				f.mutual++
			}
		}
	}
}

func names(d ast.Decl) (list []string) {
	switch x := d.(type) {
	case *ast.FuncDecl:
		return []string{x.Name.Name}
	case *ast.GenDecl:
		for _, s := range x.Specs {
			switch y := s.(type) {
			case *ast.TypeSpec:
				list = append(list, y.Name.Name)
			case *ast.ValueSpec:
				for _, n := range y.Names {
					list = append(list, n.Name)
				}
			}
		}
	}
	return list
}
