package recording

import (
	"slices"
	"strconv"
	"strings"
)

// plain reads a document as the recorder writes it, without reflection and into one allocation of strings, in about a
// quarter of the time of encoding/json: printable ASCII, nothing escaped, each key once and in its own letters, whole
// numbers. Of any other text it says no more than that it is not such a document, so that encoding/json alone says what
// is wrong with it.
type plain struct {
	rest string
	// strings has room for all strings of the text; lists are parts of it.
	strings []string
	other   bool
}

// readPlain is what encoding/json reads of text; ok says whether it is plain.
func readPlain(text []byte) (d document, ok bool) {
	for _, c := range text {
		if c < ' ' && c != '\n' || c == '\\' || c > '~' {
			return d, false
		}
	}
	p := plain{rest: string(text)}
	p.strings = make([]string, 0, strings.Count(p.rest, `"`)/2)
	p.document(&d)
	p.rest = strings.TrimLeft(p.rest, " \n")
	return d, !p.other && p.rest == ""
}

// next takes a character, if it is the next one.
func (p *plain) next(c byte) bool {
	for p.rest != "" && (p.rest[0] == ' ' || p.rest[0] == '\n') {
		p.rest = p.rest[1:]
	}
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *plain) need(c byte) {
	if !p.next(c) {
		p.other = true
	}
}

func (p *plain) text() string {
	p.need('"')
	s, rest, closed := strings.Cut(p.rest, `"`)
	if !closed || strings.IndexByte(s, '\n') >= 0 {
		p.other = true
	}
	p.rest = rest
	return s
}

func (p *plain) number() int64 {
	p.next(' ')
	end := 0
	for end < len(p.rest) && (p.rest[end] == '-' || p.rest[end] >= '0' && p.rest[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(p.rest[:end], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != p.rest[:end] { // such as 007, which is no JSON
		p.other = true
	}
	p.rest = p.rest[end:]
	return n
}

func (p *plain) flag() bool {
	p.next(' ')
	for _, word := range []string{"true", "false"} {
		if rest, found := strings.CutPrefix(p.rest, word); found {
			p.rest = rest
			return word == "true"
		}
	}
	p.other = true
	return false
}

// each reads what stands between [ and ].
func (p *plain) each(element func()) {
	p.need('[')
	if p.next(']') {
		return
	}
	for !p.other {
		if element(); p.next(']') {
			return
		}
		p.need(',')
	}
}

// fields reads what stands between { and }; a key that comes again is encoding/json's.
func (p *plain) fields(value func(key string)) {
	p.need('{')
	if p.next('}') {
		return
	}
	var room [32]string
	seen := room[:0]
	for !p.other {
		key := p.text()
		if slices.Contains(seen, key) {
			p.other = true
			return
		}
		seen = append(seen, key)
		p.need(':')
		if value(key); p.next('}') {
			return
		}
		p.need(',')
	}
}

func (p *plain) list() []string {
	from := len(p.strings)
	p.each(func() { p.strings = append(p.strings, p.text()) })
	return p.strings[from:len(p.strings):len(p.strings)]
}

func (p *plain) lists() [][]string {
	all := [][]string{}
	p.each(func() { all = append(all, p.list()) })
	return all
}

func (p *plain) document(d *document) {
	texts := map[string]*string{"name": &d.Name, "source": &d.Source, "checkpoints": &d.Checkpoints,
		"breaks": &d.Breaks, "digest": &d.Digest}
	lists := map[string]*[]string{"batch": &d.Batch, "parameters": &d.Parameters, "unfolded": &d.Unfolded,
		"unexpressed": &d.Unexpressed, "unadaptable": &d.Unadaptable, "other_stacks": &d.OtherStacks}
	p.fields(func(key string) {
		switch text, list := texts[key], lists[key]; {
		case text != nil:
			*text = p.text()
		case list != nil:
			*list = p.list()
		case key == "vramplan_recording":
			d.Format = int(p.number())
		case key == "sequence":
			d.Sequence = p.number()
		case key == "holds":
			p.holds(&d.Holds)
		case key == "padded":
			d.Padded = p.flag()
		case key == "versions":
			d.Versions = map[string]string{}
			p.fields(func(library string) { d.Versions[library] = p.text() })
		case key == "layers":
			p.layers(&d.Layers)
		case key == "programs":
			d.Programs = p.programs()
		case key == "blocks":
			d.Blocks = p.lists()
		case key == "evaluations":
			d.Evaluations = p.programs()
		default:
			p.other = true
		}
	})
}

func (p *plain) holds(h *Holds) {
	p.fields(func(key string) {
		list := []int64{}
		p.each(func() { list = append(list, p.number()) })
		switch key {
		case "batch":
			h.Batch = list
		case "length":
			h.Length = list
		default:
			p.other = true
		}
	})
}

func (p *plain) layers(l *layers) {
	p.fields(func(key string) {
		switch key {
		case "count":
			l.Count = p.number()
		case "name":
			l.Name = p.text()
		case "parameters":
			l.Parameters = p.list()
		case "after":
			l.After = int(p.number())
		case "others":
			l.Others = p.lists()
		case "order":
			l.Order = []int{}
			p.each(func() { l.Order = append(l.Order, int(p.number())) })
		default:
			p.other = true
		}
	})
}

func (p *plain) programs() map[string]programDocument {
	all := map[string]programDocument{}
	p.fields(func(precision string) {
		var d programDocument
		p.fields(func(key string) { p.program(key, &d) })
		all[precision] = d
	})
	return all
}

func (p *plain) program(key string, d *programDocument) {
	switch key {
	case "before":
		d.Before = p.list()
	case "input":
		d.Input = p.text()
	case "given":
		d.Given = p.list()
	case "layer":
		d.Layer = p.list()
	case "output":
		d.Output = p.text()
	case "escapes":
		d.Escapes = p.list()
	case "after":
		d.After = p.list()
	case "outputs":
		d.Outputs = p.list()
	case "loss":
		d.Loss = p.text()
	case "blocks":
		d.Blocks = p.lists()
	case "others":
		d.Others = []layerDocument{}
		p.each(func() {
			var l layerDocument
			p.fields(func(key string) { p.layer(key, &l) })
			d.Others = append(d.Others, l)
		})
	default:
		p.other = true
	}
}

func (p *plain) layer(key string, l *layerDocument) {
	switch key {
	case "layer":
		l.Layer = p.list()
	case "output":
		l.Output = p.text()
	case "escapes":
		l.Escapes = p.list()
	default:
		p.other = true
	}
}
