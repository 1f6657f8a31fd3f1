package shell

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// indexWord is @ or * of ${a[@]} and ${a[*]}.
func indexWord(p *syntax.ParamExp) string {
	w, ok := p.Index.(*syntax.Word)
	if !ok {
		return ""
	}
	if lit := w.Lit(); lit == "@" || lit == "*" {
		return lit
	}
	return ""
}

// parameter adds what $x or ${x…} stands for.
func (b *builder) parameter(p *syntax.ParamExp, quoted bool) {
	via := b.r.span(p)
	many := !quoted && !b.whole
	unknown := func(format string, args ...any) {
		b.add(Piece{Reason: fmt.Sprintf(format, args...) + fmt.Sprintf(" (line %d)", via.Line), split: many})
	}
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || p.Excl || p.Names != 0 ||
		len(p.Modifiers) > 0 {
		unknown("${…} in a form that is not followed")
		return
	}
	name := p.Param.Value
	plain := p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Length
	if list, ok, why := b.list(name, p); ok {
		star := name == "*" || indexWord(p) == "*"
		switch {
		case why != "":
			many = many || !star && !b.whole
			unknown("%s", why)
		case p.Length && slices.ContainsFunc(list, func(w Word) bool { return w.Many }):
			unknown("how many words $%s has", name)
		case p.Length:
			b.add(Piece{Text: strconv.Itoa(len(list)), Certainty: Sure})
			b.begun = true
		case p.Exp != nil && defaults(p.Exp.Op):
			b.withDefault(variable{value: joined(list), unset: len(list) == 0}, p, quoted, via)
		case p.Slice != nil:
			from, sure := b.r.integer(b.st, p.Slice.Offset)
			if name == "@" || name == "*" {
				from--
			}
			if !sure || p.Slice.Length != nil || from < 0 {
				unknown("a part of $%s", name)
			} else {
				b.values(list[min(from, len(list)):], quoted, via)
			}
		case !plain:
			unknown("${%s…} in a form that is not followed", name)
		case star && quoted || b.whole:
			b.value(joined(list), true, via)
		default:
			b.values(list, quoted, via)
		}
		return
	}
	v := b.scalar(name, p)
	switch {
	case p.Exp != nil && defaults(p.Exp.Op):
		b.withDefault(v, p, quoted, via)
	case plain && v.unset:
		b.begun = b.begun || quoted
	case plain:
		b.value(v.value, quoted, via)
	case v.value.Certainty == Unknown && !v.unset:
		unknown("%s", v.value.Reason)
	default:
		text, err := b.evaluate(name, v, p)
		if err != nil {
			unknown("${%s…}: %v", name, err)
			return
		}
		certainty := v.value.Certainty
		if v.unset {
			certainty = Sure
		}
		b.value(wordOf([]Piece{{Text: text, Certainty: certainty, Reason: v.value.Reason}}), quoted, via)
	}
}

// list gives the words of $@, $*, ${a[@]} and ${a[*]}; ok is false for other parameters.
func (b *builder) list(name string, p *syntax.ParamExp) (list []Word, ok bool, why string) {
	if name == "@" || name == "*" || name == "#" && p.Short {
		if !b.st.argsKnown {
			if name == "#" {
				return nil, false, ""
			}
			return nil, true, b.st.argsAny
		}
		return b.st.args, name != "#", ""
	}
	if indexWord(p) == "" {
		return nil, false, ""
	}
	switch v := b.st.lookup(name); {
	case v.isList:
		return v.list, true, ""
	case v.unset:
		return nil, true, ""
	case v.unknown || v.odd:
		return nil, true, v.value.Reason + oddly(v)
	default:
		return []Word{v.value}, true, ""
	}
}

func oddly(v variable) string {
	if v.odd {
		return "a variable with attributes"
	}
	return ""
}

// scalar gives one value: $x, ${a[0]}, $1, $#, $?.
func (b *builder) scalar(name string, p *syntax.ParamExp) variable {
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case n == 0:
			return variable{value: b.st.zero}
		case !b.st.argsKnown:
			return variable{unknown: true, value: unknownWord(fmt.Sprintf("$%d: %s", n, b.st.argsAny))}
		case n > len(b.st.args):
			return variable{unset: true, value: Word{Certainty: Sure}}
		default:
			return variable{value: b.st.args[n-1]}
		}
	}
	switch name {
	case "#":
		if b.st.argsKnown {
			return variable{value: sureWord(strconv.Itoa(len(b.st.args)))}
		}
		return variable{value: unknownWord(b.st.argsAny)}
	case "?", "$", "!", "-", "_", "RANDOM", "SECONDS", "LINENO", "BASHPID", "PPID", "EPOCHSECONDS", "HOSTNAME",
		"SRANDOM", "PIPESTATUS", "BASH_SOURCE", "OLDPWD":
		return variable{value: unknownWord(fmt.Sprintf("$%s is known only when the script runs", name))}
	case "PWD":
		return variable{value: b.st.dir}
	}
	v := b.st.lookup(name)
	if v.odd {
		return variable{value: unknownWord(fmt.Sprintf("$%s is a variable with attributes", name))}
	}
	if !v.isList && p.Index == nil {
		return v
	}
	if !v.isList {
		return variable{value: unknownWord(fmt.Sprintf("$%s is not known to be a list", name))}
	}
	n := 0
	if p.Index != nil {
		var sure bool
		if n, sure = b.r.integer(b.st, p.Index); !sure {
			return variable{value: unknownWord(fmt.Sprintf("an element of $%s", name))}
		}
	}
	if n < 0 {
		n += len(v.list)
	}
	if n < 0 || n >= len(v.list) {
		return variable{unset: true, value: Word{Certainty: Sure}}
	}
	for _, w := range v.list[:n+1] {
		if w.Many {
			return variable{value: unknownWord(fmt.Sprintf("an element of $%s", name))}
		}
	}
	return variable{value: v.list[n]}
}

func defaults(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return true
	}
	return false
}

// withDefault adds ${x:-d}, ${x:=d}, ${x:+d}, ${x:?d} and their forms without a colon.
func (b *builder) withDefault(v variable, p *syntax.ParamExp, quoted bool, via Span) {
	op, name := p.Exp.Op, p.Param.Value
	colon := op == syntax.DefaultUnsetOrNull || op == syntax.AssignUnsetOrNull || op == syntax.AlternateUnsetOrNull ||
		op == syntax.ErrorUnsetOrNull
	// set is whether x counts as set, known how sure that is.
	set, known := !v.unset, Sure
	switch {
	case v.unset:
	case v.unknown:
		set, known = false, Assumed // nothing that the script does sets it
		if _, touched := b.st.vars[name]; touched {
			known = Unknown
		} else if op == syntax.AlternateUnset || op == syntax.AlternateUnsetOrNull {
			if is, made := b.st.decided.isSet(name); made {
				set, known = is, Sure
			}
		}
	case colon && v.value.Certainty == Unknown:
		known = Unknown
	case colon:
		set, known = v.value.Text != "", v.value.Certainty
	}
	var other Word
	alternate := op == syntax.AlternateUnset || op == syntax.AlternateUnsetOrNull
	failing := op == syntax.ErrorUnset || op == syntax.ErrorUnsetOrNull
	takeOther := set == alternate
	if !failing && p.Exp.Word != nil && takeOther {
		other = b.r.word(b.st, p.Exp.Word)
	} else {
		other = Word{Certainty: Sure}
	}
	result := v.value
	if takeOther {
		result = other
	} else if alternate || !set && !failing {
		result = Word{Certainty: Sure}
	}
	if known == Unknown || failing && !set {
		b.add(Piece{Reason: v.value.Reason, split: !quoted && !b.whole})
		if op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull {
			b.st.forget(name, fmt.Sprintf("set in line %d if it was not set before", via.Line))
		}
		return
	}
	if known == Assumed && result.Certainty == Sure {
		result = doubtful(result, Assumed, fmt.Sprintf("$%s may come from the environment or the arguments (line "+
			"%d)", name, via.Line))
	}
	if takeOther && (op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull) {
		b.st.vars[name] = variable{value: result, exported: b.st.vars[name].exported || b.st.exportAll}
	}
	if len(result.Pieces) == 0 {
		b.begun = b.begun || quoted
	}
	b.value(result, quoted, via)
}

var errUnsure = errors.New("it depends on something that is known only when the script runs")

// evaluate lets the library work out an operator on a known value: ${x%.*}, ${#x}, ${x/a/b}, ${x:1:2}, ${x^^}.
func (b *builder) evaluate(name string, v variable, p *syntax.ParamExp) (string, error) {
	env := sureEnv{b.st, map[string]bool{name: true}}
	if !env.within(p, name) {
		return "", errUnsure
	}
	one := *p
	one.Index = nil
	only := expand.FuncEnviron(func(asked string) string {
		if asked == name {
			return v.value.Text
		}
		return env.text(asked)
	})
	return expand.Literal(&expand.Config{Env: only}, &syntax.Word{Parts: []syntax.WordPart{&one}})
}

// sureEnv are the variables that are surely known.
type sureEnv struct {
	st      *state
	besides map[string]bool
}

func (e sureEnv) text(name string) string {
	if v := e.st.lookup(name); !v.isList && !v.odd && !v.unknown && v.value.Certainty == Sure {
		return v.value.Text
	}
	return ""
}

// within says whether all that a part of the script refers to is surely known.
func (e sureEnv) within(n syntax.Node, name string) bool {
	ok := true
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Param == nil {
				ok = false
			} else if asked := n.Param.Value; asked != name {
				v := e.st.lookup(asked)
				ok = ok && !v.isList && !v.odd && !v.unknown && v.value.Certainty == Sure && n.Exp == nil
			}
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ExtGlob:
			ok = false
		}
		return ok
	})
	return ok
}
