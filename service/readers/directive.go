package readers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/readers/source"
)

// marker begins a line that declares the job, or a part of it.
const marker = "#VRAMPLAN"

// DeclaredReader is the reader of jobs that #VRAMPLAN lines declare.
const DeclaredReader = "#VRAMPLAN"

// directive is one line behind the marker.
type directive struct {
	text string
	line int
	// start is where the text begins in the file.
	start int
}

// directives are the lines of a script that begin with #VRAMPLAN and say something.
func directives(script []byte) []directive {
	var list []directive
	at := 0
	for i, line := range strings.SplitAfter(string(script), "\n") {
		start := at
		at += len(line)
		rest, ok := strings.CutPrefix(line, marker)
		if !ok || strings.TrimSpace(rest) == "" || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		list = append(list, directive{strings.TrimSpace(rest), i + 1,
			start + strings.Index(line, strings.TrimSpace(rest))})
	}
	return list
}

// declared reads the lines of a script that begin with #VRAMPLAN: either a job document over any number of them, or
// key=value pairs such as
//
//	#VRAMPLAN model=gpt2 micro_batch=16 optimizer.implementation=fused gpus=rtx-4070
//
// A key without a known beginning is a field of "training". A value that is JSON is taken as JSON, anything else as a
// string. It returns nil where there are no such lines. What is declared counts, whatever the script starts, and
// nothing of it is in doubt: whether it is a job the document's own reader says.
func declared(f *source.Files, full string, text []byte) *draft.Draft {
	list := directives(text)
	if len(list) == 0 {
		return nil
	}
	d := declaration{draft.New(DeclaredReader)}
	d.Components = []int{0}
	d.Command = &draft.Place{File: f.Shown(full), Line: list[0].line}
	if strings.HasPrefix(list[0].text, "{") {
		lines := make([]string, 0, len(list))
		for _, l := range list {
			lines = append(lines, l.text)
		}
		d.Verbatim = []byte(strings.Join(lines, "\n"))
	} else {
		d.Verbatim = []byte("{}")
		for _, l := range list {
			d.pairs(l)
		}
	}
	if components := slurm.Script(text); len(components) > 0 && f.Source.Cards != nil {
		// the scheduler decides, whatever the document says
		if cards := f.Source.Cards(components[0].Options()); len(cards) > 0 {
			d.declare("gpus", strings.Join(cards, ","), setting.Span{})
		}
	}
	for _, said := range f.Source.Set {
		d.declare(said.Path, said.Value, setting.Span{})
	}
	if n := f.Source.GPUs; n > 0 {
		d.declare("distributed.world_size", fmt.Sprint(n), setting.Span{})
	}
	if !json.Valid(d.Verbatim) {
		d.Refuse("not-readable", setting.Span{File: d.Command.File, Line: d.Command.Line}, "%s: what is declared is no "+
			"JSON object", marker)
	}
	return d.Draft
}

// declaration is a draft of what is declared.
type declaration struct{ *draft.Draft }

// pairs reads the key=value pairs of one line.
func (d declaration) pairs(l directive) {
	at := setting.Span{File: d.Command.File, Line: l.line, Start: l.start, End: l.start}
	for _, word := range slurm.Fields(l.text) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			d.Refuse("not-readable", at, "%s: %q is not key=value", marker, draft.Clip(word))
			return
		}
		place := at
		if i := strings.Index(l.text, word); i >= 0 { // as it is, without quotes
			place.Start = l.start + i + len(key) + 1
			place.End = place.Start + len(value)
		}
		d.declare(key, value, place)
	}
}

// declare sets a field of a declared job.
func (d declaration) declare(key, value string, at setting.Span) {
	document, err := jobdoc.Set(d.Verbatim, key, value)
	if err != nil {
		d.Refuse("not-readable", at, "%s: %v", marker, err)
		return
	}
	d.Verbatim = document
	kind := setting.Said
	if at.Known() {
		kind = setting.File
	}
	var v any = value
	if n, ok := setting.Scalar(value).(int64); ok {
		v = n
	}
	d.Fields["/"+strings.ReplaceAll(jobdoc.PathOf(key), ".", "/")] = draft.Field{Value: v, Text: value,
		Origin: setting.Origin{Kind: kind, Key: key, At: at}}
}
