package shell

import (
	"regexp"

	"mvdan.cc/sh/v3/syntax"
)

// A placeholder is what a manual writes where the reader's own word comes: --model_name_or_path <your-model>. To a
// shell it is two redirections, and nobody means them. It is told from them by what is around it: an option or a "=" in
// front, or an option, another placeholder or the end of the line behind it. A name with a point or a slash alone, as
// in envsubst <a.yaml> b.yaml, is that of a file.
var (
	afterOption = regexp.MustCompile(`((?:^|[ \t])-[-A-Za-z0-9_.]+[ =]|[A-Za-z0-9_.]=)<([A-Za-z](?:[A-Za-z0-9_ ./:-]{0,60}[A-Za-z0-9_])?)>`)
	byItself    = regexp.MustCompile(`(?m)([ \t])<([A-Za-z](?:[A-Za-z0-9_ :-]{0,60}[A-Za-z0-9_])?)>([ \t]*(?:\\?$|[ \t][-<]))`)
)

// withoutPlaceholders is a script in which placeholders are words to the parser, of the same length.
func withoutPlaceholders(text []byte) []byte {
	out := text
	for _, pattern := range []*regexp.Regexp{afterOption, byItself} {
		for _, m := range pattern.FindAllSubmatchIndex(out, -1) {
			if &out[0] == &text[0] {
				out = append([]byte(nil), text...)
			}
			out[m[4]-1], out[m[5]] = '{', '}'
			for i := m[4]; i < m[5]; i++ {
				if out[i] == ' ' {
					out[i] = '_'
				}
			}
		}
	}
	return out
}

// restore gives the words of a parsed text what stands in the original, which differs from it in single bytes.
func restore(file *syntax.File, parsed, original []byte) {
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			return true
		}
		from := int(n.Pos().Offset())
		same := func(value *string, at int) {
			if to := at + len(*value); at >= 0 && to <= len(parsed) && string(parsed[at:to]) == *value {
				*value = string(original[at:to])
			}
		}
		switch n := n.(type) {
		case *syntax.Lit:
			same(&n.Value, from)
		case *syntax.SglQuoted:
			if !n.Dollar {
				same(&n.Value, from+1)
			}
		}
		return true
	})
}
