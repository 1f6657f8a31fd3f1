package value

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// declaration follows what a program says of its own arguments: parsers, classes of fields, decorated functions.
type declaration struct{ f *follower }

// declare keeps an argument that the program declares, with its default, and gives its value: what the command line
// says, or the default.
func (on declaration) argument(names []string, kind string, v Value, line int) Value {
	dest := names[0]
	v.Origin = setting.Origin{Kind: setting.Default, Key: dest, At: setting.Span{File: on.f.file, Line: line},
		Ref: fmt.Sprintf("%s:%d", on.f.file, line)}
	if v.Text == "" {
		v.Text = v.wholeWord()
	}
	on.keepField(dest, v)
	for _, other := range names[1:] {
		if other != dest {
			on.f.out.Aliases[other] = dest
		}
	}
	return on.said(names, kind, v)
}

func (d declaration) keepField(name string, v Value) {
	if old, ok := d.f.out.Fields.Peek(name); ok && old.Given() && !v.Given() {
		return // a collator has attributes of the same names, without defaults
	}
	if out := d.f.plain(v, 0); d.f.silent == 0 {
		if v.Unknown == "has no default" {
			out.Unknown, out.Text = "", ""
		}
		d.f.out.Fields.Set(name, out)
	}
}

// said is an argument's value: a word of the command line, of the kind that is declared, or its default.
func (d declaration) said(names []string, kind string, v Value) Value {
	dest := names[0]
	if d.f.world.Word != nil {
		if w, ok := d.f.world.Word(names...); ok {
			v = typed(kind, Value{Value: w}, v)
		} else if v.Unknown == "has no default" {
			v.Any, v.Unknown = nil, ""
		}
	}
	if v.Unknown == "has no default" {
		v.Unknown = "is the argument " + dest + ", which has no default"
	}
	v.rests = append(slices.Clip(v.rests), dest)
	return v
}

// typed makes a word what its argument is declared to be.
func typed(kind string, w, otherwise Value) Value {
	if w.Unknown != "" {
		return w
	}
	if kind == "" {
		switch otherwise.Any.(type) {
		case int64, float64:
			kind = "number"
		case bool:
			kind = "switch"
		}
	}
	if words, many := w.Any.([]any); many {
		var all []Value
		for _, x := range words {
			all = append(all, typed(kind, known(x), otherwise))
		}
		out := sequence(list, all)
		out.Origin, out.Text = w.Origin, w.Text
		return out
	}
	text, isText := w.Any.(string)
	switch {
	case kind == "number" && isText:
		switch n := setting.Scalar(text).(type) {
		case int64, float64:
			w.Any = n
		}
	case kind == "switch":
		if on, ok := w.Bool(); ok {
			w.Any = on
		}
	case kind == "int", kind == "float":
		if v := convert(kind, w); v.Unknown == "" {
			return v
		}
		w.Unknown = "is no " + kind
	case kind == "bool" && isText: // argparse's type=bool: every word is true
		w.Any = text != ""
	}
	return w
}

// parser is one of argparse, with the arguments that it declares, or one that fills classes.
func (d declaration) parser(name string, a *arguments) Value {
	t := newTable(object)
	t.name = lastOf(name)
	if t.name == "HfArgumentParser" || t.name == "TrlParser" {
		v, ok := a.get("dataclass_types", 0)
		if !ok {
			v, _ = a.get("dataclasses", -1)
		}
		t.at["\x00classes"] = v
		if v.Any == nil {
			t.at["\x00classes"] = unknown(notPlain)
		}
		return known(t)
	}
	t.at["\x00args"] = known(newTable(dict))
	return known(t)
}

func (d declaration) parsing(t *Table, of Value, name string, a *arguments) (Value, bool) {
	if v, ok := t.at["\x00classes"]; ok {
		if strings.HasPrefix(name, "parse_") {
			return d.filled(v, name), true
		}
		return Value{}, false
	}
	args := t.at["\x00args"].Any.(*Table)
	switch name {
	case "add_argument":
		d.addArgument(args, a)
		return known(nil), true
	case "add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser":
		return of, true
	case "set_defaults":
		for _, key := range a.names {
			if old := args.at[key]; old.Origin.Kind != setting.Argument {
				d.f.set(args, key, a.named[key])
			}
		}
		return known(nil), true
	case "parse_args", "parse_known_args":
		if v, ok := a.get("args", 0); ok && (v.Any != nil || v.Unknown != "") {
			if items, isList := d.f.items(v); isList && len(items) > 0 || !isList {
				break // another command line than the program's
			}
		}
		out := d.f.clone(args, 0)
		out.kind, out.name = object, "Namespace"
		if name == "parse_known_args" {
			return sequence(tuple, []Value{known(out), unknown(notPlain)}), true
		}
		return known(out), true
	case "print_help", "error", "exit", "format_help", "parse_intermixed_args":
	}
	return unknown(notPlain), true
}

func (d declaration) addArgument(args *Table, a *arguments) {
	var names []string
	dest, positional := "", false
	for _, v := range a.values {
		flag, ok := v.Any.(string)
		if !ok || v.Unknown != "" {
			d.f.set(args, open, unknown("has arguments whose names are not known"))
			return
		}
		name := strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_")
		if dest == "" && strings.HasPrefix(flag, "--") {
			dest = name
		}
		positional = positional || !strings.HasPrefix(flag, "-")
		names = append(names, name)
	}
	if len(names) == 0 {
		return
	}
	if dest == "" {
		dest = names[0]
	}
	if v, ok := a.named["dest"]; ok {
		if s, isText := v.Any.(string); isText && v.Unknown == "" {
			dest = s
		}
	}
	names = append([]string{dest}, slices.DeleteFunc(names, func(n string) bool { return n == dest })...)
	v, ok := a.named["default"]
	if !ok {
		v = unknown("has no default")
	}
	action, _ := a.named["action"]
	kind := ""
	switch action.Any {
	case "store_true":
		kind = "switch"
		if !ok {
			v = known(false)
		}
	case "store_false":
		if !ok {
			v = known(true)
		}
		v = d.argument(names, "", v, a.node.Line)
		if v.Origin.Kind == setting.Argument {
			v.Any = false
		}
		d.f.set(args, dest, v)
		return
	case outside("argparse.BooleanOptionalAction"):
		kind = "switch"
	}
	of, isTyped := a.named["type"]
	own, isOwn := of.Any.(*function)
	switch x := of.Any.(type) {
	case outside:
		if kind = lastOf(string(x)); kind == "str" {
			kind = "words"
		} else if kind != "int" && kind != "float" && kind != "bool" {
			kind = ""
		}
	}
	v = d.argument(names, kind, v, a.node.Line)
	if isTyped && isOwn && v.Origin.Kind == setting.Argument && v.Unknown == "" {
		was := v
		v = d.f.enter(own, &arguments{values: []Value{v}})
		v.Origin, v.Text = was.Origin, was.Text
		v = v.resting(was)
	}
	if n, many := a.named["nargs"]; many && v.Origin.Kind == setting.Argument && v.Unknown == "" && n.Any != "?" {
		if _, isList := v.Any.(*Table); !isList {
			was := v
			v = sequence(list, []Value{v})
			v.Origin, v.Text = was.Origin, was.Text
			v = v.resting(was)
		}
	}
	if positional {
		v = unknown("is the argument "+dest+" of the command line", v)
	}
	d.f.set(args, dest, v)
}

// filled are the objects of classes that a parser fills with the command line's words.
func (d declaration) filled(classes Value, name string) Value {
	list := []Value{classes}
	if items, ok := d.f.items(classes); ok {
		list = items
	} else if classes.Unknown != "" {
		return unknown(classes.Unknown, classes)
	}
	var out []Value
	for _, c := range list {
		out = append(out, d.fill(c, ""))
	}
	return sequence(tuple, out)
}

// fill makes an object of a class of the words of the command line that begin with prefix. Of a class of a library only
// the words are known.
func (on declaration) fill(of Value, prefix string) Value {
	c, ok := of.Any.(*class)
	if !ok || len(prefix) > 200 {
		t := newTable(object)
		t.name = of.word()
		t.at["\x00words"] = known(prefix)
		t.at[open] = unknown("is an argument of " + of.word() + ", which no word gives")
		return known(t)
	}
	o := newTable(object)
	o.class, o.name = c, c.node.Name
	if c.isOutside() {
		o.at["\x00words"] = known(prefix)
		o.at[open] = unknown("is an argument of " + o.name + ", which no word gives")
	}
	for _, name := range c.allFields() {
		v, has := c.find(name)
		if !has {
			v = unknown("has no default")
		}
		if inner, isObject := v.table(object); isObject && inner.class != nil {
			o.put(name, on.fill(known(inner.class), prefix+name+"."))
			continue
		}
		if !v.Origin.At.Known() {
			v.Origin.At = setting.Span{File: on.f.file, Line: c.node.Line}
		}
		v.Origin.Kind, v.Origin.Key = setting.Default, name
		v.Origin.Ref = fmt.Sprintf("%s:%d", on.f.file, v.Origin.At.Line)
		o.put(name, on.said([]string{prefix + name}, c.annotated(name), v))
	}
	return known(o)
}

// annotated is the kind of a field by its annotation.
func (c *class) annotated(name string) string {
	for _, n := range c.node.List("body") {
		if t := n.Part("target"); n.Is("AnnAssign") && t.Is("Name") && t.Name == name {
			kind := ""
			n.Part("annotation").Walk(func(x *python.Node) bool {
				if x.Is("Name") && slices.Contains([]string{"int", "float", "str"}, x.Name) {
					kind = map[string]string{"int": "number", "float": "number", "str": "words"}[x.Name]
				} else if x.Is("Name") && x.Name == "bool" {
					kind = "switch"
				}
				return kind == ""
			})
			return kind
		}
	}
	for _, b := range c.bases {
		if base, ok := b.Any.(*class); ok {
			if kind := base.annotated(name); kind != "" {
				return kind
			}
		}
	}
	return ""
}

// commandLine calls a function, or makes an object, with the words of the command line, as Fire and tyro do.
func (d declaration) commandLine(of Value) Value {
	switch x := of.Any.(type) {
	case *class:
		return d.fill(of, "")
	case *function:
		return d.f.enter(x, d.fromWords(x))
	}
	return unknown(notPlain)
}

// fromWords are the arguments of a function that the command line gives by the names of its parameters.
func (on declaration) fromWords(fn *function) *arguments {
	a := &arguments{node: fn.node, named: map[string]Value{}}
	args := fn.node.Part("args")
	for _, p := range append(slices.Concat(args.List("posonlyargs"), args.List("args")), args.List("kwonlyargs")...) {
		v, ok := fn.defaults[p.Name]
		if !ok {
			v = unknown("has no default")
		}
		if of := p.Part("annotation"); of.Is("Name") {
			if c, isClass := on.f.lookup(of.Name, fn.scope).Any.(*class); isClass {
				a.set(p.Name, on.fill(known(c), p.Name+"."))
				continue
			}
		}
		if fn.options != nil && has(fn.options.at, p.Name) {
			a.set(p.Name, fn.options.at[p.Name])
			continue
		}
		at := v.Origin
		v.Origin.Kind, v.Origin.Key = setting.Default, p.Name
		if !v.Origin.At.Known() {
			v.Origin.At = setting.Span{File: on.f.file, Line: p.Line}
		}
		v.Origin.Ref = fmt.Sprintf("%s:%d", on.f.file, max(at.At.Line, p.Line))
		kind := ""
		if of := p.Part("annotation"); of.Is("Name") {
			kind = map[string]string{"int": "number", "float": "number", "str": "words", "bool": "switch"}[of.Name]
		}
		on.keepField(p.Name, v)
		a.set(p.Name, on.said([]string{p.Name}, kind, v))
	}
	return a
}

// decorate keeps what a decorator says of where a function's arguments come from: click's options, the command line,
// Hydra's configuration.
func (on declaration) decorate(fn *function, d *python.Node, s *scope) {
	called := d
	if d.Is("Call") {
		called = d.Part("func")
	}
	name := on.f.wrote(called)
	if d.Is("Call") {
		on.f.eval(d, s)
	}
	switch last := lastOf(name); {
	case (last == "option" || last == "argument") && d.Is("Call"):
		if fn.options == nil {
			fn.options = newTable(dict)
		}
		a := on.f.arguments(d, s)
		if v, flag := a.named["is_flag"]; flag {
			if on, _ := v.truth(); on {
				a.set("action", known("store_true"))
			}
		}
		for i, v := range a.values {
			if text, ok := v.Any.(string); ok && strings.Contains(text, "/") {
				v.Any, _, _ = strings.Cut(text, "/")
				a.values[i] = v
			}
		}
		on.addArgument(fn.options, a)
	case last == "command" && d.Is("Call"):
		if fn.options == nil {
			fn.options = newTable(dict)
		}
		for name, v := range on.fromWords(fn).named {
			fn.options.put(name, v)
		}
	case name == "hydra.main":
		fn.options = newTable(dict)
	}
}

// commands follows functions that decorators make commands and that the program starts in a way that is not followed.
func (d declaration) commands() {
	for _, fn := range slices.Clone(d.f.functions) {
		if fn.options != nil && !d.f.reached[fn.node] {
			d.f.enter(fn, nil)
		}
	}
}
