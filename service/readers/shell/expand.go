package shell

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// origin is where a syntax tree's text stands: in a source at an offset, or somewhere within a span.
type origin struct {
	source, base int
	within       *Span
}

// span is the place of a node.
func (r *reader) span(n syntax.Node) Span { return r.spanOf(n.Pos().Offset(), n.End().Offset()) }

func (r *reader) spanOf(start, end uint) Span {
	if r.at.within != nil {
		return *r.at.within
	}
	s := Span{Source: r.at.source, Start: r.at.base + int(start), End: r.at.base + int(end)}
	text := r.script.Sources[s.Source].Text
	s.Start, s.End = min(s.Start, len(text)), min(s.End, len(text))
	lines := r.linesOf(s.Source)
	s.Line = sort.SearchInts(lines, s.Start+1)
	s.Column = s.Start - lines[s.Line-1] + 1
	return s
}

// linesOf are the offsets at which the lines of a source begin.
func (r *reader) linesOf(source int) []int {
	if r.lines == nil {
		r.lines = map[int][]int{}
	}
	if r.lines[source] == nil {
		lines := []int{0}
		for i, c := range r.script.Sources[source].Text {
			if c == '\n' {
				lines = append(lines, i+1)
			}
		}
		r.lines[source] = lines
	}
	return r.lines[source]
}

func (r *reader) line(n syntax.Node) int { return r.span(n).Line }

// fields expands words as bash does for a command: braces, variables, quotes, splitting.
func (r *reader) fields(st *state, words []*syntax.Word) []Word {
	var list []Word
	for _, w := range words {
		braced := &syntax.Word{Parts: slices.Clone(w.Parts)} // SplitBraces changes its word
		syntax.SplitBraces(braced)
		n := 0
		for one, err := range expand.BracesSeq(nil, braced) {
			if n++; err != nil || n > maxLoops {
				list = append(list, unknownWord(fmt.Sprintf("the braces in line %d are too many words", r.line(w))))
				break
			}
			b := builder{r: r, st: st, node: w}
			b.parts(one.Parts, false)
			list = append(list, b.finish()...)
			if len(list) > maxWords {
				r.fail(&LimitError{"the words of a command"})
				return nil
			}
		}
	}
	return list
}

// word expands one word that is not split: a value, or what case looks at.
func (r *reader) word(st *state, w *syntax.Word) Word {
	if w == nil {
		return Word{Certainty: Sure}
	}
	b := builder{r: r, st: st, node: w, whole: true}
	b.parts(w.Parts, false)
	return b.finish()[0]
}

// builder puts words together from the parts of one.
type builder struct {
	r     *reader
	st    *state
	node  *syntax.Word
	whole bool // no splitting
	done  []Word
	cur   []Piece
	begun bool // there is a word, even if it is empty
	glob  bool // an unquoted pattern for names of files
}

// finish gives the words; exactly one if whole.
func (b *builder) finish() []Word {
	b.end()
	if b.whole {
		if len(b.done) == 0 {
			return []Word{{Certainty: Sure, At: b.r.span(b.node)}}
		}
		return b.done[:1]
	}
	return b.done
}

// end ends the current word.
func (b *builder) end() {
	if !b.begun && len(b.cur) == 0 {
		return
	}
	w := wordOf(b.cur)
	w.Node = b.r.span(b.node)
	if b.glob && !b.whole && w.Certainty > Unknown {
		w = doubtful(w, Unknown, fmt.Sprintf("%s in line %d stands for names of files", clip(w.Text), b.r.line(b.node)))
		w.Many = true
	}
	if w.At.IsZero() {
		w.At = b.r.span(b.node)
	}
	if b.r.bytes += len(w.Text) + 1; b.r.bytes > maxBytes || len(w.Text) > maxValueBytes {
		b.r.fail(&LimitError{"the length of values"})
		w = unknownWord("too long")
	}
	b.done = append(b.done, w)
	b.cur, b.begun, b.glob = nil, false, false
}

func (b *builder) add(p Piece) {
	if len(b.cur) == maxPieces {
		b.cur = compact(b.cur)
	}
	b.cur = append(b.cur, p)
}

// compact makes few pieces of many: what is sure is joined and loses its place. It makes one if too much is not sure.
func compact(pieces []Piece) []Piece {
	var few []Piece
	for from := 0; from < len(pieces); {
		to := from + 1
		for to < len(pieces) && pieces[from].Certainty == Sure && pieces[to].Certainty == Sure {
			to++
		}
		if to == from+1 {
			few = append(few, pieces[from])
		} else {
			few = append(few, flat(wordOf(pieces[from:to])))
		}
		from = to
	}
	if len(few) > maxPieces/2 {
		return []Piece{flat(wordOf(pieces))}
	}
	return few
}

// flat makes one piece of a word.
func flat(w Word) Piece {
	return Piece{Text: w.Text, Certainty: w.Certainty, Reason: w.Reason, split: w.Many}
}

func (b *builder) parts(parts []syntax.WordPart, quoted bool) {
	for i, p := range parts {
		if !b.r.step() {
			return
		}
		switch p := p.(type) {
		case *syntax.Lit:
			b.literal(p, quoted, i == 0)
		case *syntax.SglQuoted:
			b.begun = true
			piece := Piece{Text: p.Value, Certainty: Sure}
			if p.Dollar {
				text, _, err := expand.Format(nil, p.Value, nil)
				if piece.Text = text; err != nil || strings.Contains(p.Value, "%") {
					piece = Piece{Reason: fmt.Sprintf("$'…' in line %d", b.r.line(p))}
				}
			} else {
				piece.At = b.r.spanOf(p.Left.Offset()+1, p.Right.Offset())
			}
			b.add(piece)
		case *syntax.DblQuoted:
			b.begun = b.begun || !emptyList(b.st, p.Parts)
			b.parts(p.Parts, true)
		case *syntax.ParamExp:
			b.parameter(p, quoted)
		case *syntax.ArithmExp:
			b.add(b.r.arithmeticPiece(b.st, p))
		case *syntax.CmdSubst:
			if sum, ok := b.r.expr(b.st, p); ok {
				b.add(sum)
				continue
			}
			b.r.inSubshell(b.st, p.Stmts)
			b.add(Piece{Reason: fmt.Sprintf("$(…) in line %d is known only when it runs", b.r.line(p)),
				split: !quoted && !b.whole})
		case *syntax.ProcSubst:
			b.r.inSubshell(b.st, p.Stmts)
			b.add(Piece{Reason: fmt.Sprintf("the pipe in line %d has no name before it runs", b.r.line(p))})
		default:
			b.add(Piece{Reason: fmt.Sprintf("the pattern in line %d is for names of files", b.r.line(p)),
				split: !quoted})
		}
	}
}

// emptyList says whether quotes hold nothing but an empty list, which is no word at all.
func emptyList(st *state, parts []syntax.WordPart) bool {
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Param != nil && (p.Param.Value == "@" || indexWord(p) == "@")
}

func (b *builder) literal(p *syntax.Lit, quoted, first bool) {
	at := b.r.span(p)
	if !quoted {
		b.glob = b.glob || hasPattern(p.Value)
		if first && strings.HasPrefix(p.Value, "~") {
			b.begun = true
			b.add(Piece{Text: p.Value, Reason: fmt.Sprintf("~ in line %d is the user's home directory", at.Line),
				At: at})
			return
		}
	}
	text := p.Value
	if strings.Contains(text, `\`) {
		text, at = unescape(text, quoted), Span{}
	}
	b.begun = true
	b.add(Piece{Text: text, Certainty: Sure, At: at})
}

// hasPattern says whether a text outside quotes has a * ? or [ that is not escaped.
func hasPattern(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			if strings.Contains(s[i:], "]") {
				return true
			}
		}
	}
	return false
}

// unescape takes the backslashes away that the shell takes away.
func unescape(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if next := s[i+1]; next == '\n' {
				i++
				continue
			} else if !quoted || strings.IndexByte("$`\"\\", next) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// value adds the text of a variable, split into words where it stands outside quotes.
func (b *builder) value(w Word, quoted bool, via Span) {
	if quoted || b.whole {
		b.begun = b.begun || quoted
		for _, p := range w.Pieces {
			p.Via = append([]Span{via}, p.Via...)
			p.split = false
			b.add(p)
		}
		return
	}
	ifs := b.st.vars["IFS"]
	_, own := b.st.vars["IFS"]
	own = own && !ifs.unset
	for _, p := range w.Pieces {
		p.Via = append([]Span{via}, p.Via...)
		if p.Certainty == Unknown {
			p.split = true
			b.add(p)
			continue
		}
		if own && strings.TrimSpace(p.Text) != "" {
			p.Certainty, p.Reason, p.split = Unknown, "IFS was changed", true
			b.add(p)
			continue
		}
		b.split(p)
	}
}

// split adds the words of a piece. One that is empty unless the environment says otherwise stays there as a word, which
// may be none, or several.
func (b *builder) split(p Piece) {
	if p.Certainty < Sure && strings.TrimSpace(p.Text) == "" {
		p.Text, p.At, p.split = "", Span{}, true
		b.add(p)
		return
	}
	text, from := p.Text, 0
	literal := !p.At.IsZero() && p.At.End-p.At.Start == len(text)
	flush := func(to int) {
		if from == to {
			return
		}
		part := p
		part.Text, part.split = text[from:to], false
		if part.At = (Span{}); literal {
			part.At = p.At
			part.At.Start, part.At.End = p.At.Start+from, p.At.Start+to
			b.r.place(&part.At)
		}
		b.glob = b.glob || hasPattern(part.Text)
		b.begun = true
		b.add(part)
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == ' ' || c == '\t' || c == '\n' {
			flush(i)
			b.end()
			from = i + 1
		}
	}
	flush(len(text))
}

// place works out line and column of a span.
func (r *reader) place(s *Span) {
	lines := r.linesOf(s.Source)
	s.Line = sort.SearchInts(lines, s.Start+1)
	s.Column = s.Start - lines[s.Line-1] + 1
}

// values adds the words of a list: each one of its own.
func (b *builder) values(list []Word, quoted bool, via Span) {
	for i, w := range list {
		if i > 0 {
			b.end()
		}
		if !quoted {
			b.value(w, false, via)
			continue
		}
		b.begun = true
		for _, p := range w.Pieces {
			p.Via = append([]Span{via}, p.Via...)
			b.add(p)
		}
	}
}

// joined is the words of a list with spaces between them.
func joined(list []Word) Word {
	var pieces []Piece
	for i, w := range list {
		if i > 0 {
			pieces = append(pieces, Piece{Text: " ", Certainty: Sure})
		}
		pieces = append(pieces, w.Pieces...)
	}
	if len(pieces) > maxPieces {
		pieces = compact(pieces)
	}
	return wordOf(slices.Clip(pieces))
}
