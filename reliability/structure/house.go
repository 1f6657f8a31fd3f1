package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// house is what can be counted of how the packages are cut: tests, generated files and testdata are left out.
type house struct {
	packages map[string]*room
	recipe   map[string]map[place]bool // by field: where it is written
	passes   map[string]map[place]bool // the same of the recipe that a tape or a session was given
	parts    map[string]bool           // step.Recipe and the structs that are embedded in it
	holders  map[string]bool           // fields of structs that are of these types
	makers   map[string]bool           // functions that return one
	changes  map[string]int            // by change of a release: how often it is named
	words    int                       // of docs
	bounding map[string]int            // lines of files that bound what clients take, by package
	bounds   int                       // such files
}

// bounding are the files in which a request waits, is counted or is sent away, as they were called before
// service/workplace and as they are.
var bounding = regexp.MustCompile(`^(api/(gate|held|lastline|pause|work|clients|limits|connections|door)|` +
	`service/(budget|turns|stages|paced)|service/workplace/\w+)\.go$`)

// room is one package.
type room struct {
	files   []*ast.File
	names   []string
	structs map[string]*ast.StructType
	methods map[string]int // by type
}

// place is a function of a file.
type place struct{ file, function string }

// mostFiles is how many files a package has at most, and mostMethods how many methods a type, but for the tape of
// operations. Of a package of largeFiles it is said how its files refer to each other.
const mostFiles, mostMethods, largeFiles = 60, 80, 30

func houseOf(root string) (*house, error) {
	h := &house{packages: map[string]*room{}, recipe: map[string]map[place]bool{},
		passes: map[string]map[place]bool{}, changes: map[string]int{}, bounding: map[string]int{}}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() && rel == "docs/lab":
			return filepath.SkipDir
		case strings.HasPrefix(rel, "docs/") && strings.HasSuffix(rel, ".md"):
			text, err := os.ReadFile(path)
			h.words += len(strings.Fields(string(text)))
			return err
		case !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		r := h.packages[dir]
		if r == nil {
			r = &room{structs: map[string]*ast.StructType{}, methods: map[string]int{}}
			h.packages[dir] = r
		}
		if bounding.MatchString(rel) {
			h.bounds++
			h.bounding[dir] += set.File(file.Pos()).LineCount()
		}
		r.files, r.names = append(r.files, file), append(r.names, filepath.Base(rel))
		return nil
	})
	for _, r := range h.packages {
		r.declare()
	}
	h.recipes()
	for dir, r := range h.packages {
		for i, file := range r.files {
			for _, d := range file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					r.method(fn)
					if strings.HasPrefix(dir, "estimator") {
						h.writes(dir, dir+"/"+r.names[i], fn)
					}
				}
			}
		}
	}
	h.known()
	return h, err
}

// declare finds the structs.
func (r *room) declare() {
	for _, file := range r.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					r.structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
}

// method counts a function for the type that it is a method of, or to whose fields it writes through a parameter.
func (r *room) method(fn *ast.FuncDecl) {
	if fn.Recv != nil && len(fn.Recv.List) > 0 {
		if name, _ := typeName(fn.Recv.List[0].Type); name != "" {
			r.methods[name]++
		}
	}
	for _, p := range fn.Type.Params.List {
		name, pointer := typeName(p.Type)
		if !pointer || r.structs[name] == nil {
			continue
		}
		for _, n := range p.Names {
			if len(written(fn.Body, map[string]bool{n.Name: true}, nil, nil)) > 0 {
				r.methods[name]++
				break
			}
		}
	}
}

// all is how many methods a type has, with those of what it embeds.
func (r *room) all(name string, seen map[string]bool) int {
	n := r.methods[name]
	s := r.structs[name]
	if s == nil || seen[name] {
		return n
	}
	seen[name] = true
	for _, f := range s.Fields.List {
		if embedded, _ := typeName(f.Type); len(f.Names) == 0 && !seen[embedded] {
			n += r.all(embedded, seen)
		}
	}
	return n
}

func typeName(e ast.Expr) (name string, pointer bool) {
	if star, ok := e.(*ast.StarExpr); ok {
		e, pointer = star.X, true
	}
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name, pointer
	case *ast.IndexExpr:
		name, _ = typeName(x.X)
		return name, pointer
	case *ast.SelectorExpr:
		if in, ok := x.X.(*ast.Ident); ok {
			return in.Name + "." + x.Sel.Name, pointer
		}
	}
	return "", pointer
}

// written are the fields that a body assigns to of what one of the names stands for, or what hangs on something as one
// of the holders, a field. Of one of the parts, which are fields themselves, those are meant that are written of it.
func written(body ast.Node, names, holders, parts map[string]bool) map[string]bool {
	fields := map[string]bool{}
	of := func(e ast.Expr) {
		var below []string
		found := func() {
			for _, name := range below {
				if !parts[name] {
					fields[name] = true
					return
				}
			}
		}
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				if holders[x.Sel.Name] && len(below) > 0 {
					found()
					return
				}
				below = append([]string{x.Sel.Name}, below...)
				if base, ok := x.X.(*ast.Ident); ok && names[base.Name] {
					found()
					return
				}
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			if x.Tok != token.DEFINE {
				for _, e := range x.Lhs {
					of(e)
				}
			}
		case *ast.IncDecStmt:
			of(x.X)
		}
		return true
	})
	return fields
}

// tapes is what a tape and a session call the recipe that they were given.
const tapes = "Recipe"

// recipes finds what a recipe consists of, and who holds and returns one, or a part of one.
func (h *house) recipes() {
	h.parts, h.holders, h.makers = map[string]bool{tapes: true}, map[string]bool{}, map[string]bool{}
	if step := h.packages["estimator/step"]; step != nil && step.structs[tapes] != nil {
		for _, f := range step.structs[tapes].Fields.List {
			if name, _ := typeName(f.Type); len(f.Names) == 0 {
				h.parts[name] = true
			}
		}
	}
	for dir, r := range h.packages {
		if !strings.HasPrefix(dir, "estimator") {
			continue
		}
		for _, s := range r.structs {
			for _, f := range s.Fields.List {
				for _, n := range f.Names {
					if h.isRecipe(dir, f.Type) {
						h.holders[n.Name] = true
					}
				}
			}
		}
		for _, file := range r.files {
			for _, d := range file.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && fn.Type.Results != nil && h.isRecipe(dir, fn.Type.Results.List[0].Type) {
					h.makers[fn.Name.Name] = true
				}
			}
		}
	}
}

// isRecipe says whether a type is step.Recipe or a part of it, as a package of that folder spells it.
func (h *house) isRecipe(dir string, e ast.Expr) bool {
	name, _ := typeName(e)
	if dir != "estimator/step" {
		var elsewhere bool
		if name, elsewhere = strings.CutPrefix(name, "step."); !elsewhere {
			return false
		}
	}
	return h.parts[name]
}

// writes finds where fields of the recipe are written: of a field, a parameter or a variable that is one or a part of
// one, or in a literal. A part that is handed on whole is counted where it was made.
func (h *house) writes(dir, file string, fn *ast.FuncDecl) {
	names := map[string]bool{}
	for _, list := range []*ast.FieldList{fn.Recv, fn.Type.Params, fn.Type.Results} {
		if list == nil {
			continue
		}
		for _, p := range list.List {
			for _, n := range p.Names {
				if h.isRecipe(dir, p.Type) {
					names[n.Name] = true
				}
			}
		}
	}
	is := func(e ast.Expr) bool {
		if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
			e = u.X
		}
		switch x := e.(type) {
		case *ast.SelectorExpr:
			return h.holders[x.Sel.Name]
		case *ast.Ident:
			return names[x.Name]
		case *ast.CompositeLit:
			return h.isRecipe(dir, x.Type)
		case *ast.CallExpr:
			return h.makers[called(x)]
		}
		return false
	}
	put := func(in map[string]map[place]bool, field string) {
		if in[field] == nil {
			in[field] = map[place]bool{}
		}
		in[field][place{file, fn.Name.Name}] = true
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for i, e := range x.Lhs {
				id, ok := e.(*ast.Ident)
				if ok && x.Tok == token.DEFINE && len(x.Rhs) == len(x.Lhs) && is(x.Rhs[i]) {
					names[id.Name] = true
				}
			}
		case *ast.CompositeLit:
			if x.Type == nil || !h.isRecipe(dir, x.Type) {
				return true
			}
			for _, e := range x.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if id, ok := kv.Key.(*ast.Ident); ok && !h.parts[id.Name] {
						put(h.recipe, id.Name)
					}
				}
			}
		}
		return true
	})
	given := map[string]bool{tapes: true}
	others := maps.Clone(h.holders)
	delete(others, tapes)
	for field := range written(fn.Body, names, others, h.parts) {
		put(h.recipe, field)
	}
	for field := range written(fn.Body, nil, given, h.parts) {
		put(h.passes, field)
	}
}

// called is the name of the function or method that is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if f.Obj == nil || f.Obj.Kind == ast.Fun { // and no variable
			return f.Name
		}
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// known counts how often changes of releases are named: as constants and fields that stand for one, in rows, closures
// and conditions, or as variables that are declared where they act.
func (h *house) known() {
	names := map[string]bool{}
	below := func(visit func(string, ast.Node)) {
		for dir, r := range h.packages {
			if !strings.HasPrefix(dir, "estimator") {
				continue
			}
			for _, file := range r.files {
				ast.Inspect(file, func(n ast.Node) bool {
					visit(dir, n)
					return true
				})
			}
		}
	}
	below(func(dir string, n ast.Node) {
		switch x := n.(type) {
		case *ast.ValueSpec:
			t, _ := x.Type.(*ast.Ident)
			declares := slices.ContainsFunc(x.Values, func(e ast.Expr) bool { return has(e, isDeclare) })
			if declares || dir == "estimator/release" && t != nil && t.Name == "Switch" {
				for _, id := range x.Names {
					if id.Name != "_" {
						names[id.Name] = true
					}
				}
			}
		case *ast.TypeSpec:
			if s, ok := x.Type.(*ast.StructType); ok && x.Name.Name == "Software" && dir == "estimator/step" {
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						names[id.Name] = true
					}
				}
			}
		}
	})
	below(func(_ string, n ast.Node) {
		if id, ok := n.(*ast.Ident); ok && names[id.Name] {
			h.changes[id.Name]++
		}
	})
}

func isDeclare(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Declare"
}

// back is how many pairs of files there are of which one refers to the other, how many of these run back, and how
// many floors there are: files are put into the order in which few do (Eades, Lin and Smyth, A fast and effective
// heuristic for the feedback arc set problem, 1993), and stand one floor above the highest that they refer to.
func (r *room) back() (pairs, back, floors int) {
	to := r.references()
	order := ordered(to)
	at := make([]int, len(order))
	for i, file := range order {
		at[file] = i
	}
	floor := make([]int, len(order))
	for i := len(order) - 1; i >= 0; i-- {
		file := order[i]
		floor[file] = 1
		for other := range to[file] {
			pairs++
			if at[other] < i {
				back++
			} else {
				floor[file] = max(floor[file], floor[other]+1)
			}
		}
		floors = max(floors, floor[file])
	}
	return pairs, back, floors
}

// references are by file those that it refers to.
func (r *room) references() []map[int]bool {
	declared := map[string]int{} // which file; -1 for several
	for i, file := range r.files {
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
	to := make([]map[int]bool, len(r.files))
	for i, file := range r.files {
		to[i] = map[int]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if at, ok := declared[id.Name]; ok && at >= 0 && at != i {
					to[i][at] = true
				}
			}
			return true
		})
	}
	return to
}

// ordered puts files in front that refer to others and are referred to by few.
func ordered(to []map[int]bool) []int {
	left := map[int]bool{}
	for i := range to {
		left[i] = true
	}
	degrees := func(i int) (out, in int) {
		for k := range left {
			if to[i][k] {
				out++
			}
			if to[k][i] {
				in++
			}
		}
		return out, in
	}
	var first, last []int
	for len(left) > 0 {
		best, most, end := -1, 0, 0
		for _, i := range slices.Sorted(maps.Keys(left)) {
			out, in := degrees(i)
			if out == 0 || in == 0 { // the end or the front of what is left
				best, end = i, 1
				if in == 0 {
					end = 0
				}
				break
			}
			if best < 0 || out-in > most {
				best, most, end = i, out-in, 0
			}
		}
		delete(left, best)
		if end == 1 {
			last = append(last, best)
			continue
		}
		first = append(first, best)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// largest are what has more than the limit, most first, in words.
func largest(counts map[string]int, limit int) string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	}) {
		if counts[name] > limit {
			out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// lines are what is printed of a house: what is counted, and the count.
func (h *house) lines() [][2]string {
	var lines [][2]string
	line := func(what, format string, values ...any) {
		lines = append(lines, [2]string{what, fmt.Sprintf(format, values...)})
	}
	files, methods := map[string]int{}, map[string]int{}
	for dir, r := range h.packages {
		files[dir] = len(r.files)
		for name := range r.structs {
			if n := r.all(name, map[string]bool{}); n > 0 {
				methods[dir+"."+name] = n
			}
		}
	}
	line(fmt.Sprintf("packages of more than %d files", mostFiles), "%s", largest(files, mostFiles))
	for _, dir := range slices.Sorted(maps.Keys(h.packages)) {
		if r := h.packages[dir]; len(r.files) >= largeFiles {
			pairs, back, floors := r.back()
			line("references between files of "+dir, "%d pairs of %d files on %d floors, %d run back", pairs, len(r.files),
				floors, back)
		}
	}
	line(fmt.Sprintf("types of more than %d methods", mostMethods), "%s", largest(methods, mostMethods))
	functions, several, across := map[string]int{}, 0, map[string]int{}
	for field, places := range h.recipe {
		in := map[string]bool{}
		for p := range places {
			in[p.file] = true
		}
		functions[field], across[field] = len(places), len(in)
		if len(places) > 1 {
			several++
		}
	}
	line("fields of the recipe written in more than one function", "%d of %d", several, len(functions))
	line("files that write a field of the recipe, of more than two", "%s", largest(across, 2))
	again := map[place]bool{}
	for _, places := range h.passes {
		maps.Copy(again, places)
	}
	line("fields of its recipe that a tape or a session changes for a pass", "%d in %d functions", len(h.passes), len(again))
	places := 0
	for _, n := range h.changes {
		places += n
	}
	line("places that know a change of a release", "%d of %d names, %.1f each", places, len(h.changes),
		float64(places)/float64(max(len(h.changes), 1)))
	all := 0
	for _, n := range h.bounding {
		all += n
	}
	line("what bounds clients", "%d lines of %d files: %s", all, h.bounds, largest(h.bounding, 0))
	line("words of docs outside docs/lab", "%d", h.words)
	return lines
}
