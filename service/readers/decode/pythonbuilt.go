package decode

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Built is what a function of a Python file puts together and returns, where it only calls classes with keyword
// arguments, sets attributes and calls other such functions of the same file: a registry of configurations. Nothing is
// executed.
type Built struct {
	// Settings are the plain values, by the path of keywords and attributes: training.steps. Elements of lists and
	// arguments without a keyword are numbered (model_spec.0).
	Settings *setting.Settings
	// Calls are what was called for the object at each path, "" for the whole: SelectiveAC.Config.
	Calls map[string]setting.Value
	// Loose are statements that do something else with what is put together, by their text: apply(config).
	Loose []setting.Value
}

// Limits of what is put together: functions that call each other, and values.
const (
	maxBuiltDepth = 8
	maxBuiltParts = 5000
)

// Builders lists the functions at the top of a Python file whose result is said to be of a type, in their order;
// functions whose name begins with an underscore are not for others.
func Builders(text []byte, result string) []string {
	program, err := Python("", text, "")
	if err != nil {
		return nil
	}
	masked := program.masked
	var names []string
	for _, s := range program.statements {
		m := defined.FindSubmatch(masked[s.start:s.end])
		if s.indent > 0 || m == nil || m[1][0] == '_' {
			continue
		}
		if _, returns, ok := bytes.Cut(masked[s.start:s.end], []byte("->")); ok &&
			strings.Trim(string(returns), " \t:\r") == result {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// Build reads what the function returns; ok is false where the file has no function of that name. An error is that of a
// text that is no program.
func Build(file string, text []byte, function string) (b *Built, ok bool, err error) {
	t, err := newText(file, text)
	if err != nil {
		return nil, false, err
	}
	program, err := Python(file, text, "")
	if err != nil {
		return nil, false, err
	}
	w := &builder{text: t, masked: program.masked, globals: program.Values, statements: program.statements}
	root, ok := w.run(function, nil, 0)
	if !ok {
		return nil, false, nil
	}
	b = &Built{Settings: setting.New(), Calls: map[string]setting.Value{}}
	root.flatten("", b)
	b.Loose = w.loose
	return b, true, nil
}

var (
	defined    = regexp.MustCompile(`^(?:async[ \t]+)?def[ \t]+([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(`)
	setsPath   = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)[ \t]*(?::[^=\n]*)?=[^=]`)
	returns    = regexp.MustCompile(`^return\b`)
	changeless = regexp.MustCompile(`^(?:import|from|assert|pass|del|raise|return|def|class|["'])`)
	// calledWhole is a call from the beginning of an expression.
	calledWhole = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)[ \t]*\(`)
	pathWords   = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// part is a value on its way: a plain one, or an object with the parts that it was made of.
type part struct {
	value setting.Value
	call  bool
	names []string
	parts map[string]*part
}

func (p *part) set(name string, child *part) {
	if p.parts == nil {
		p.parts = map[string]*part{}
	}
	if _, ok := p.parts[name]; !ok {
		p.names = append(p.names, name)
	}
	p.parts[name] = child
}

// clone makes a result that can be changed on its own: two configurations of one base share nothing. What is over the
// limit is left out as unknown, since c = A(x=c, y=c) doubles at every line.
func (w *builder) clone(p *part) *part {
	if w.made++; w.made > maxBuiltParts {
		v := p.value
		v.Any, v.Unknown = nil, notAValue
		return &part{value: v}
	}
	c := &part{value: p.value, call: p.call, names: slices.Clone(p.names)}
	for _, n := range p.names {
		c.set(n, w.clone(p.parts[n]))
	}
	return c
}

func (p *part) flatten(path string, into *Built) {
	switch {
	case p.call:
		into.Calls[path] = p.value
	case path != "":
		v := p.value
		v.Origin.Key = path
		into.Settings.Set(path, v)
	}
	for _, n := range p.names {
		key := n
		if path != "" {
			key = path + "." + n
		}
		p.parts[n].flatten(key, into)
	}
}

// builder follows functions of one file.
type builder struct {
	text       *text
	masked     []byte
	statements []statement
	globals    *setting.Settings
	made       int
	// loose are statements that do something with a result and cannot be followed.
	loose []setting.Value
}

// run follows a function with arguments by name.
func (w *builder) run(name string, arguments map[string]*part, depth int) (*part, bool) {
	at := slices.IndexFunc(w.statements, func(s statement) bool {
		m := defined.FindSubmatch(w.masked[s.start:s.end])
		return s.indent == 0 && m != nil && string(m[1]) == name
	})
	if at < 0 || depth > maxBuiltDepth {
		return nil, false
	}
	locals := w.parameters(w.statements[at])
	for name, v := range arguments {
		locals[name] = v
	}
	body := 0
	for _, s := range w.statements[at+1:] {
		if s.indent == 0 {
			break
		}
		if body == 0 {
			body = s.indent
		}
		code := w.masked[s.start:s.end]
		switch m := setsPath.FindSubmatch(code); {
		case s.indent > body:
			w.nested(code, s, locals)
		case m != nil:
			w.assign(locals, string(m[1]), s.start+bytes.IndexByte(code, '=')+1, s.end, depth)
		case returns.Match(code):
			return w.expression(s.start+len("return"), s.end, locals, depth), true
		case changeless.Match(code):
		default:
			w.nested(code, s, locals)
		}
	}
	return nil, false
}

// parameters are a function's own names with their defaults.
func (w *builder) parameters(s statement) map[string]*part {
	locals := map[string]*part{}
	open := s.start + bytes.IndexByte(w.masked[s.start:s.end], '(')
	end := closing(w.masked, open)
	if end < 0 || end > s.end {
		return locals
	}
	for _, a := range arguments(w.masked, open, end) {
		declared := w.masked[a[0]:a[1]]
		name := pathWords.FindString(string(declared))
		i := bytes.IndexByte(declared, '=')
		if name == "" || i < 0 {
			continue
		}
		locals[name] = &part{value: w.evaluator(nil).value(a[0]+i+1, a[1])}
	}
	return locals
}

// nested marks what a statement does that may or may not run, or that is no assignment, where it names a result.
func (w *builder) nested(code []byte, s statement, locals map[string]*part) {
	if m := setsPath.FindSubmatch(code); m != nil {
		root, _, _ := strings.Cut(string(m[1]), ".")
		if _, ok := locals[root]; ok || !strings.Contains(string(m[1]), ".") {
			v := w.unknown(s.start, s.end)
			w.put(locals, string(m[1]), &part{value: v})
		}
		return
	}
	if changeless.Match(code) || blockHeader.Match(code) {
		return
	}
	for _, name := range pathWords.FindAllString(string(code), 64) {
		if p, ok := locals[name]; ok && (p.call || len(p.parts) > 0) && len(w.loose) < 64 {
			w.loose = append(w.loose, w.unknown(s.start, s.end))
			return
		}
	}
}

func (w *builder) unknown(start, end int) setting.Value {
	written := strings.Join(strings.Fields(string(w.text.bytes[start:end])), " ")
	if len(written) > 120 {
		written = written[:120]
	}
	line := w.text.line(start)
	return setting.Value{Text: written, Unknown: fmt.Sprintf(unfollowed, line),
		Origin: setting.Origin{Kind: setting.File, Key: written, At: setting.Span{File: w.text.file, Start: start,
			End: start, Line: line}}}
}

func (w *builder) assign(locals map[string]*part, path string, from, end, depth int) {
	w.put(locals, path, w.expression(from, end, locals, depth))
}

// put sets a local name, or an attribute of one.
func (w *builder) put(locals map[string]*part, path string, v *part) {
	names := strings.Split(path, ".")
	if len(names) == 1 {
		locals[path] = v
		return
	}
	p, ok := locals[names[0]]
	if !ok {
		return
	}
	for _, n := range names[1 : len(names)-1] {
		child, ok := p.parts[n]
		if !ok {
			child = &part{call: true, value: setting.Value{Origin: v.value.Origin}} // an object of the class's defaults
			p.set(n, child)
		}
		p = child
	}
	p.set(names[len(names)-1], v)
}
