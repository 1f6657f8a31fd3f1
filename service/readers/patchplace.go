package readers

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// plainText is what needs no quotes in a shell, nor in a configuration.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_./:%+-]+$`)

// expansion is a word of a command line whose value is one variable.
var expansion = regexp.MustCompile(`^(?:[^$"'\x60\\]*=)?"?(\$(?:\w+|\{\w+\}))"?$`)

// replace changes a value: where it stands; on the command line, where a variable holds it that others read too; or by
// the same word again behind it, which wins.
func (p *patcher) replace(v setting.Value, set fieldSet) error {
	at, use := v.Origin.At, v.Origin.Use
	body, ok := p.text(at.File)
	if !ok || at.End > len(body) {
		return p.refuse("%s stands in %s, which was not handed over", v.Origin.Key, at.File)
	}
	if v.Origin.Kind == setting.File {
		switch {
		case at.End <= at.Start:
			return p.refuse("%s stands at %s in a form that is not changed", v.Origin.Key, at.Where())
		case path.Ext(at.File) == ".py" && sharedName(body, at, lastWord(v.Origin.Key)):
			return p.refuse("%s is a name's value at %s, which is used elsewhere too", v.Origin.Key, at.Where())
		}
		p.put(at, fileText(at.File, body, at, like(v.Text, set.Text)))
		return nil
	}
	direct := !use.Known() || at.File == use.File && use.Start <= at.Start && at.End <= use.End
	plain := plainText.MatchString(set.Text)
	switch {
	case at.End > at.Start && plain && (direct || at.File == use.File && usedOnce(body, v.Origin.Through)):
		p.put(at, like(v.Text, set.Text))
		return nil
	case !use.Known():
		return p.refuse("%s stands at %s in a form that is not changed", v.Origin.Key, at.Where())
	}
	line, ok := p.text(use.File)
	if !ok || use.End > len(line) {
		return p.refuse("%s stands in %s, which was not handed over", v.Origin.Key, use.File)
	}
	word := string(line[use.Start:use.End])
	if m := expansion.FindStringSubmatchIndex(word); m != nil && !v.Origin.Shared && plain && v.Any != true {
		inner := use
		inner.Start, inner.End = use.Start+m[2], use.Start+m[3]
		p.put(inner, set.Text)
		return nil
	}
	p.behind(use, v.Origin.Key, strings.Contains(word, "="), set)
	return nil
}

// usedOnce reports whether each of some variables of a script is set once and used once, by the script alone: an
// exported one, others may read.
func usedOnce(script []byte, names string) bool {
	var lines []string
	for line := range strings.Lines(string(script)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "")
	if names != "" && (strings.Contains(text, "set -a") || strings.Contains(text, "allexport")) {
		return false
	}
	for _, name := range strings.Fields(names) {
		if len(regexp.MustCompile(`\b`+name+`\b`).FindAllString(text, -1)) != 2 ||
			regexp.MustCompile(`(?m)\b(export|declare|typeset|readonly|local)\b[^#;\n]*\b`+name+`\b`).MatchString(text) {
			return false
		}
	}
	return true
}

// sharedName reports whether a value of a program is that of a name, other than the setting's own, that is used more
// than once.
func sharedName(program []byte, at setting.Span, key string) bool {
	line := program[bytes.LastIndexByte(program[:at.Start], '\n')+1 : at.Start]
	m := regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*(?::[^=]*)?=\s*["']?$`).FindSubmatch(line)
	if m == nil || string(m[1]) == key {
		return false
	}
	return len(regexp.MustCompile(`\b`+string(m[1])+`\b`).FindAll(program, -1)) > 2
}

// insert writes a new setting beside the micro-batch, or beside another one of the same section.
func (p *patcher) insert(set fieldSet) error {
	sibling, ok := p.sibling(set.Key)
	if !ok {
		p.named(lastWord(set.Key), setting.Span{}, "not there", set.Text)
		return p.refuse("there is no place for %s", set.Key)
	}
	at := sibling.At
	if use := sibling.Use; sibling.Kind == setting.Argument && use.Known() {
		p.named(set.Key, use, "not there", set.Text)
		line, ok := p.text(use.File)
		if !ok || use.End > len(line) {
			return p.refuse("there is no place for %s", set.Key)
		}
		word := string(line[use.Start:use.End])
		p.behind(use, sibling.Key, !sibling.Shared && strings.Contains(word, "="), set)
		return nil
	}
	p.named(lastWord(set.Key), at, "not there", set.Text)
	body, ok := p.text(at.File)
	if !ok || at.End <= at.Start || at.End > len(body) {
		return p.refuse("there is no place for %s", set.Key)
	}
	end := setting.Span{File: at.File, Start: at.End, End: at.End}
	if q := body[at.End:]; len(q) > 0 && (q[0] == '"' || q[0] == '\'') {
		end.Start, end.End = at.End+1, at.End+1
	}
	if sibling.Kind == setting.Argument {
		p.behind(end, sibling.Key, false, set)
		return nil
	}
	lineStart := bytes.LastIndexByte(body[:at.Start], '\n') + 1
	lineEnd := len(body)
	if i := bytes.IndexByte(body[at.End:], '\n'); i >= 0 {
		lineEnd = at.End + i
	}
	rest := strings.TrimLeft(string(body[end.End:lineEnd]), " \t")
	flow := strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, ")")
	indent := string(body[lineStart : lineEnd-len(bytes.TrimLeft(body[lineStart:lineEnd], " \t"))])
	below := setting.Span{File: at.File, Start: lineEnd, End: lineEnd}
	if lineEnd > lineStart && body[lineEnd-1] == '\r' { // the line's end is two bytes, and stays so
		below.Start, below.End = lineEnd-1, lineEnd-1
		indent = "\r\n" + indent
	} else {
		indent = "\n" + indent
	}
	short, text := lastWord(set.Key), fileText(at.File, nil, setting.Span{}, set.Text)
	switch ext := path.Ext(at.File); {
	case (ext == ".yaml" || ext == ".yml") && flow:
		p.put(end, ", "+short+": "+text)
	case ext == ".yaml" || ext == ".yml":
		p.put(below, indent+short+": "+text)
	case ext == ".toml":
		p.put(below, indent+short+" = "+text)
	case ext == ".json" || ext == ".conf":
		p.put(end, ", \""+short+"\": "+text)
	case ext == ".py" && flow:
		p.put(end, ", "+short+"="+text)
	case ext == ".py":
		p.put(below, indent+short+" = "+text)
	default:
		return p.refuse("there is no place for %s in %s", set.Key, at.File)
	}
	return nil
}

// sibling is the place beside which a new word goes: that of the micro-batch, or of another word of the same section.
func (p *patcher) sibling(key string) (setting.Origin, bool) {
	d := p.job.draft
	section := func(key string) string { return key[:max(strings.LastIndexByte(key, '.'), 0)] }
	micro := d.Fields["/training/micro_batch"].Origin
	if gives(micro) && (micro.Kind == setting.Argument || d.In == nil || section(micro.Key) == section(key) ||
		section(key) == "") {
		return micro, true
	}
	if d.In == nil {
		return setting.Origin{}, false
	}
	var found setting.Origin
	for _, k := range d.In.Keys() {
		v, _ := d.In.Peek(k)
		o := v.Origin
		if !gives(o) {
			continue
		}
		if o.Kind == setting.File && o.At.End > o.At.Start && section(k) == section(key) &&
			!slices.Contains([]any{nil}, v.Any) {
			return o, true
		}
		if o.Kind == setting.Argument && o.Use.Known() {
			found = o
		}
	}
	return found, found.Use.Known()
}

// behind puts a word with its value behind another one on a command line, in the form of that one.
func (p *patcher) behind(use setting.Span, like string, equals bool, set fieldSet) {
	use.Start = use.End
	text := quoted(set.Text)
	dashes := like[:len(like)-len(strings.TrimLeft(like, "-"))]
	switch {
	case dashes == "":
		text = set.Key + "=" + text
	case set.Switch && set.Text == "true":
		text = dashes + set.Key
	case equals:
		text = dashes + set.Key + "=" + text
	default:
		text = dashes + set.Key + " " + text
	}
	p.put(use, " "+text)
}

// fileText is a value as a file writes it: Python's truth values, and words in quotes where the file has them so. In
// the place of a value that stands in quotes it needs none.
func fileText(name string, body []byte, at setting.Span, text string) string {
	if at.Start > 0 && (body[at.Start-1] == '"' || body[at.Start-1] == '\'') {
		return text
	}
	ext := path.Ext(name)
	switch setting.Scalar(text).(type) {
	case string:
		if ext != ".yaml" && ext != ".yml" && !strings.HasPrefix(text, "{") {
			return `"` + text + `"`
		}
	case bool:
		if ext == ".py" {
			return pythonWord(text)
		}
	}
	return text
}

// pythonWord is a value as Python writes it.
func pythonWord(text string) string {
	switch text {
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return text
}

// like writes a truth value as the old one was written: True, true, yes.
func like(old, text string) string {
	if (text == "true" || text == "false") && old != "" && old[0] >= 'A' && old[0] <= 'Z' {
		return pythonWord(text)
	}
	return text
}
