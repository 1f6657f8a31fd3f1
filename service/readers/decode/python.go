package decode

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Program is what a Python file says without being run.
type Program struct {
	File string
	// Values are the names that are assigned plain values.
	Values *setting.Settings
	// Fields are the options that the program declares, with their defaults: fields of dataclasses and add_argument.
	Fields *setting.Settings
	// Calls are the calls of classes and of functions with keyword arguments.
	Calls []Call
	// Aliases are further names of arguments of add_argument: b for batch.
	Aliases map[string]string
	// Used are the names that were known beforehand and that a call's arguments rest on.
	Used map[string]bool
	// Source is the text.
	Source []byte
	// Gaps are the statements that are no Python, which may do anything.
	Gaps       []*python.Error
	masked     []byte
	module     *python.Node
	statements []statement
}

// Call is a call: FastLanguageModel.from_pretrained(model_name="…").
type Call struct {
	Name     string
	Line     int
	Position []setting.Value
	Keywords *setting.Settings
	// Insert is where another keyword argument could be written: behind the last one.
	Insert setting.Span
	// Spread is a dictionary that is handed over (**kwargs) and cannot be read; nil where there is none.
	Spread *setting.Value
}

const maxCalls = 4000

var (
	assigned  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(:[^=]*)?=[^=]`)
	annotated = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*:`)
	rebound   = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>|:)?=(?:[^=]|$)|(?:for|as|del|global)[ \t]+([A-Za-z_][A-Za-z0-9_]*)|globals\(\)\[['"]([A-Za-z_][A-Za-z0-9_]*)`)
	keyword   = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=[^=]`)
	// changed is a list or an object that a statement changes in its place: kwargs["dtype"] = x, kwargs.update(x).
	changed = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\n]*\][ \t]*[-+*/|]?=[^=]|` +
		`\.(?:update|setdefault|pop|clear|append|extend|insert|remove)\()`)
	notAValue  = "is not a plain value"
	unfollowed = "is changed at line %d in a way that cannot be followed without running it"
)

// switchesModel are methods of models (transformers modeling_utils.py), and a function of peft's, that matter without
// named arguments too.
var switchesModel = map[string]bool{"gradient_checkpointing_enable": true, "gradient_checkpointing_disable": true,
	"prepare_model_for_kbit_training": true}

// Python reads a program. until ends the part whose assignments count, at the first line that begins with it; "" reads
// all.
func Python(file string, b []byte, until string) (*Program, error) {
	return decoded(file, b, until, setting.New())
}

// PythonKnowing reads a program of which some names have values that are known: args.batch of the parsed command line.
func PythonKnowing(file string, b []byte, known *setting.Settings) (*Program, error) {
	return decoded(file, b, "", known)
}

func decoded(file string, b []byte, until string, known *setting.Settings) (*Program, error) {
	t, err := newText(file, b)
	if err != nil {
		return nil, err
	}
	p := &Program{File: file, Values: setting.New(), Fields: setting.New(), Source: b, masked: python.Masked(b),
		Aliases: map[string]string{}, Used: map[string]bool{}}
	if p.module, p.Gaps, err = python.Parse(b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p.statements = statements(p.module, p.masked)
	ev := newEvaluator(t, p.Values, known)
	counting := true
	for _, s := range p.statements {
		code := p.masked[s.start:s.end]
		if until != "" && bytes.HasPrefix(code, []byte(until)) {
			counting = false
		}
		switch m := assigned.FindSubmatchIndex(code); {
		case s.class != "" && !s.local:
			p.field(ev, s, code)
			p.attribute(ev, s, code)
		case !counting:
		case m != nil && !s.conditional:
			p.assign(ev, s, string(code[m[2]:m[3]]), s.start+m[1]-1)
		default:
			for _, m := range rebound.FindAllSubmatch(code, -1) {
				for _, name := range m[1:] {
					if len(name) > 0 && depthOf(code, bytes.Index(code, name)) == 0 {
						p.forget(ev, string(name), t.line(s.start))
					}
				}
			}
			ev.changes(code, t.line(s.start))
			if m := changed.FindSubmatch(code); m != nil && p.Values.Has(string(m[1])) {
				p.forget(ev, string(m[1]), t.line(s.start))
			}
		}
	}
	p.calls(ev)
	return p, nil
}

// depthOf is how many brackets are open at i.
func depthOf(code []byte, i int) int {
	depth := 0
	for _, c := range code[:max(i, 0)] {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
	}
	return depth
}

// assign reads "name = expression"; from is where the expression begins.
func (p *Program) assign(ev *evaluator, s statement, name string, from int) {
	ev.seen = nil
	v := ev.value(from, s.end)
	if s.local && p.Values.Has(name) {
		if old, _ := p.Values.Peek(name); !reflect.DeepEqual(old.Any, v.Any) || v.Unknown != "" {
			p.forget(ev, name, ev.text.line(s.start))
		}
		return
	}
	p.Values.Set(name, v)
	delete(ev.parts, name)
	if parts, ok := ev.entries(from, s.end); ok {
		ev.parts[name] = parts
	} else if parts, ok := ev.instance(from, s.end); ok {
		ev.parts[name] = parts
	}
	slices.Sort(ev.seen)
	seen := slices.Compact(ev.seen)
	ev.uses[name] = slices.Clone(seen[:min(len(seen), maxUses)])
}

func (p *Program) forget(ev *evaluator, name string, line int) {
	delete(ev.parts, name)
	p.Values.Set(name, setting.Value{Unknown: fmt.Sprintf(unfollowed, line),
		Origin: setting.Origin{Kind: setting.File, At: setting.Span{File: p.File, Line: line}}})
}

// field reads a line of a class's body: "name: type = default" or "… = field(default=…)".
func (p *Program) field(ev *evaluator, s statement, code []byte) {
	m := annotated.FindSubmatch(code)
	if m == nil {
		return
	}
	name := string(m[1])
	v := setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: name,
		At: setting.Span{File: p.File, Line: ev.text.line(s.start)}}}
	if i := assigned.FindIndex(code); i != nil {
		from := s.start + i[1] - 1
		rest := bytes.TrimLeft(p.masked[from:s.end], " \t")
		if bytes.HasPrefix(rest, []byte("field(")) || bytes.HasPrefix(rest, []byte("dataclasses.field(")) {
			open := from + bytes.IndexByte(p.masked[from:s.end], '(')
			v = ev.fieldDefault(open, closing(p.masked, open), v, p.masked)
		} else {
			at := v.Origin.At
			v = ev.value(from, s.end)
			v.Origin.Kind, v.Origin.Key = setting.Default, name
			if !v.Origin.At.Known() {
				v.Origin.At = at
			}
		}
	}
	v.Origin.Ref = fmt.Sprintf("%s:%d", p.File, v.Origin.At.Line)
	if old, ok := p.Fields.Peek(name); ok && old.Given() && !v.Given() {
		return // a collator has attributes of the same names, without defaults
	}
	p.Fields.Set(name, v)
}

// calls finds the calls that may configure something.
func (p *Program) calls(ev *evaluator) {
	var found []*python.Node
	p.module.Walk(func(n *python.Node) bool {
		if n.Is("JoinedStr") { // what a string is made of configures nothing, and is masked
			return false
		}
		if n.Is("Call") && nameAt(n.Part("func")) >= 0 {
			found = append(found, n)
		}
		return true
	})
	slices.SortStableFunc(found, func(a, b *python.Node) int {
		return cmp.Compare(nameAt(a.Part("func")), nameAt(b.Part("func")))
	})
	for _, n := range found[:min(len(found), maxCalls)] {
		from, to := nameAt(n.Part("func")), n.Part("func").End
		name := strings.Join(strings.Fields(string(p.masked[from:to])), "")
		last := name[strings.LastIndexByte(name, '.')+1:]
		open, end := to, n.End-1
		if name == "" || end-open > 1<<16 {
			continue
		}
		if !ofClass(name) && last != "dict" && !switchesModel[last] && !bytes.ContainsRune(p.masked[open:end], '=') {
			continue
		}
		c := Call{Name: name, Line: ev.text.line(from), Keywords: setting.New(),
			Insert: setting.Span{File: p.File, Start: end, End: end, Line: ev.text.line(end)}}
		ev.seen = nil
		for _, a := range n.List("args") {
			c.Position = append(c.Position, ev.value(a.Start, a.End))
		}
		for _, a := range n.List("keywords") {
			if v := a.Part("value"); a.Name != "" {
				c.keyword(ev, a.Name, v.Start, v.End)
			} else {
				c.spread(ev, v.Start, v.End)
			}
		}
		for _, name := range ev.seen {
			p.Used[name] = true
		}
		p.Calls = append(p.Calls, c)
		if last == "add_argument" {
			p.argument(c)
		}
	}
}

// ofClass reports whether a call is of a class or of a class's own function: SFTConfig(…),
// AutoModel.from_pretrained(…).
func ofClass(name string) bool {
	parts := strings.Split(name, ".")
	for _, part := range parts[max(0, len(parts)-2):] {
		if part != "" && part[0] >= 'A' && part[0] <= 'Z' {
			return true
		}
	}
	return false
}

// nameAt is where the name of what is called begins: of x[0].to(…) the last part is one. It is -1 where there is none.
func nameAt(x *python.Node) int {
	at := -1
	for x.Is("Attribute") {
		at, x = x.End-len(x.Name), x.Part("value")
	}
	if x.Is("Name") {
		at = x.Start
	}
	return at
}

// Tree is the whole program.
func (p *Program) Tree() *python.Node { return p.module }

// argument takes argparse's add_argument("--name", default=…) as a field.
func (p *Program) argument(c Call) {
	flags := []string{}
	for _, v := range c.Position {
		if v.Unknown == "" {
			flags = append(flags, v.String())
		}
	}
	for _, flag := range flags {
		name, ok := strings.CutPrefix(flag, "--")
		if !ok {
			continue
		}
		name = strings.ReplaceAll(name, "-", "_")
		if dest, ok := c.Keywords.Peek("dest"); ok && dest.Unknown == "" {
			p.Aliases[name], name = dest.String(), dest.String()
		}
		for _, other := range flags {
			if other = strings.ReplaceAll(strings.TrimLeft(other, "-"), "-", "_"); other != name {
				p.Aliases[other] = name
			}
		}
		value, given := c.Keywords.Peek("default")
		if action, ok := c.Keywords.Peek("action"); !given && ok && action.String() == "store_true" {
			value = setting.Value{Any: false, Text: "False"}
		}
		value.Origin = setting.Origin{Kind: setting.Default, Key: name, At: setting.Span{File: p.File, Line: c.Line},
			Ref: fmt.Sprintf("%s:%d", p.File, c.Line)}
		p.Fields.Set(name, value)
		return
	}
}

// Call is the first call whose last name is one of these.
func (p *Program) Call(names ...string) (Call, bool) {
	for _, c := range p.Calls {
		last := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		for _, n := range names {
			if last == n || c.Name == n {
				return c, true
			}
		}
	}
	return Call{}, false
}

// Mentions reports whether the code, without its strings and comments, contains a word.
func (p *Program) Mentions(word string) bool { return bytes.Contains(p.masked, []byte(word)) }
