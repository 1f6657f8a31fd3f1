package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assigning are the commands that set the names which they are given.
var assigning = map[string]bool{
	"read": true, "mapfile": true, "readarray": true, "printf": true, "getopts": true, "unset": true, "eval": true,
	"source": true, ".": true,
	"let": true, "wait": true, "command": true, "builtin": true,
}

// assign does name=value, name+=value, name=(list) and name[i]=value.
func (r *reader) assign(st *state, a *syntax.Assign, export bool) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	old := st.holds(name)
	exported := st.vars[name].exported || export || st.exportAll
	if a.Naked && a.Value == nil && a.Array == nil { // export NAME
		if _, ok := st.vars[name]; ok {
			old.exported = exported
			st.vars[name] = old
		}
		return
	}
	var v variable
	switch {
	case old.readonly:
		v.value = unknownWord(fmt.Sprintf("$%s is read-only, and set again in line %d", name, r.line(a)))
		v.readonly = true
	case pure(a):
		v = r.eitherWay(st, func() variable { return r.assigning(st, a) }, 0)
	default:
		v = r.assigning(st, a)
	}
	v.exported, v.odd = exported, v.odd || old.odd
	if v.odd {
		v.either = nil
	}
	st.vars[name] = v
}

// assigning is the variable that an assignment makes.
func (r *reader) assigning(st *state, a *syntax.Assign) (v variable) {
	name, line := a.Name.Value, r.line(a)
	old := st.lookup(name)
	switch {
	case a.Array != nil:
		v.isList = true
		if a.Append && old.isList {
			v.list = slices.Clip(old.list)
		} else if a.Append && !old.unset {
			v.list = append(v.list, old.value)
		}
		for _, e := range a.Array.Elems {
			if e.Index != nil || e.Value == nil {
				return variable{value: unknownWord(fmt.Sprintf("$%s is a list with indices of its own (line %d)", name,
					line)), odd: true}
			}
			v.list = append(v.list, r.fields(st, []*syntax.Word{e.Value})...)
			if len(v.list) > maxWords {
				r.fail(&LimitError{"the length of a list"})
				return v
			}
		}
	case a.Index != nil:
		r.word(st, a.Value)
		v.value, v.odd = unknownWord(fmt.Sprintf("an element of $%s is set in line %d", name, line)), true
	default:
		v.value = r.assigned(st, a, old, line)
	}
	return v
}

func (r *reader) assigned(st *state, a *syntax.Assign, old variable, line int) Word {
	value := Word{Certainty: Sure}
	if a.Value != nil {
		value = r.word(st, a.Value)
		if len(value.Pieces) == 0 {
			value.At = r.span(a.Value)
		}
	}
	if !a.Append {
		return value
	}
	switch {
	case old.unset:
		return value
	case old.isList:
		return unknownWord(fmt.Sprintf("$%s is a list (line %d)", a.Name.Value, line))
	case len(old.value.Pieces)+len(value.Pieces) > maxPieces || len(old.value.Text)+len(value.Text) > maxValueBytes:
		if len(old.value.Text)+len(value.Text) > maxValueBytes {
			r.fail(&LimitError{"the length of values"})
		}
		return wordOf([]Piece{flat(old.value), flat(value)})
	}
	return wordOf(append(slices.Clone(old.value.Pieces), value.Pieces...))
}

// declare does export, declare, local, readonly and typeset.
func (r *reader) declare(st *state, c *syntax.DeclClause) {
	export := c.Variant.Value == "export"
	odd, remove, reference, readonly := false, false, false, c.Variant.Value == "readonly"
	for _, a := range c.Args {
		if a.Name == nil && a.Value != nil { // an option, or a word that is expanded
			switch w := r.word(st, a.Value); {
			case w.Certainty < Sure:
				st.forgetAll(fmt.Sprintf("set by %s in line %d", c.Variant.Value, r.line(c)))
			case strings.HasPrefix(w.Text, "-") && len(w.Text) > 1:
				export = export || strings.Contains(w.Text, "x")
				odd = odd || strings.ContainsAny(w.Text, "inuAlcf")
				reference = reference || strings.Contains(w.Text, "n") && c.Variant.Value != "export"
				readonly = readonly || strings.Contains(w.Text, "r")
				remove = remove || strings.Contains(w.Text, "n") && c.Variant.Value == "export"
			default:
				if name, value, ok := strings.Cut(w.Text, "="); ok && syntax.ValidName(name) {
					st.vars[name] = variable{value: sureWord(value), exported: export}
				}
			}
			continue
		}
		if a.Name == nil {
			continue
		}
		if c.Variant.Value == "local" && a.Naked {
			st.vars[a.Name.Value] = variable{unset: true, value: Word{Certainty: Sure}}
			continue
		}
		if a.Naked && export {
			v := st.lookup(a.Name.Value)
			v.exported = !remove
			st.vars[a.Name.Value] = v
			continue
		}
		if !export && odd {
			v := st.lookup(a.Name.Value)
			v.odd = true
			st.vars[a.Name.Value] = v
		}
		r.assign(st, a, export)
		if v := st.vars[a.Name.Value]; readonly {
			v.readonly = true
			st.vars[a.Name.Value] = v
		}
		if reference {
			st.refer(a.Name.Value, r.line(c))
		}
	}
}

// refer makes a variable another name of the one that it names: that one changes without being named.
func (st *state) refer(name string, line int) {
	v := st.vars[name]
	if target := v.value.Text; v.value.Certainty == Sure && syntax.ValidName(target) {
		to := st.lookup(target)
		to.odd = true
		st.vars[target] = to
		return
	}
	st.forgetAll(fmt.Sprintf("perhaps another name of something (declare -n in line %d)", line))
}

// localNames are those that a function declares for itself.
func localNames(body syntax.Node) map[string]bool {
	names := map[string]bool{}
	syntax.Walk(body, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.DeclClause); ok && (d.Variant.Value == "local" || d.Variant.Value == "declare" ||
			d.Variant.Value == "typeset") {
			for _, a := range d.Args {
				if a.Name != nil {
					names[a.Name.Value] = true
				}
			}
		}
		return true
	})
	return names
}

// environment is what the script gives to a command.
func (st *state) environment(own []Assign) []Assign {
	var list []Assign
	for name, v := range st.vars {
		if v.exported && !v.unset && !v.isList && !v.unknown {
			list = append(list, Assign{name, v.value})
		} else if v.exported && v.unknown {
			list = append(list, Assign{name, unknownWord(v.value.Reason)})
		}
	}
	slices.SortFunc(list, func(a, b Assign) int { return strings.Compare(a.Name, b.Name) })
	return append(list, own...)
}
