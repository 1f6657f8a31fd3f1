package tool

import (
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// StrangeAt notes code at a place; where nobody knows the place it is the command's.
func (r *Job) StrangeAt(at setting.Span, word, why string) {
	if !at.Known() {
		at = r.At
	}
	r.Out.Strange = append(r.Out.Strange, draft.Doubt{File: at.File, Line: at.Line, Word: word, Why: why})
}
