package submission

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/service/readers/shell"
)

// argument is one --key with its value, and where it stands.
type argument struct {
	value   string
	known   bool
	reason  string
	written string
	file    string
	line    int
}

// maxArguments bounds what is read of one program's arguments.
const maxArguments = 4096

// arguments reads --key value, --key=value and flags without a value; dashes in
// keys are underscores to the Trainer's parser.
func (p *program) arguments() map[string]argument {
	args := map[string]argument{}
	for i := 0; i < len(p.args); i++ {
		w := p.args[i]
		text, ok := strings.CutPrefix(w.Text, "--")
		if w.Certainty < shell.Sure && (!ok || !strings.Contains(text, "=") || w.Pieces[0].Certainty < shell.Sure) {
			p.doubtValue(w, "an argument of "+p.name)
			continue
		}
		if !ok || text == "" {
			p.doubtWord(w.At, w.Text)
			continue
		}
		key, value, given := strings.Cut(text, "=")
		key = strings.ReplaceAll(key, "-", "_")
		a := argument{value: value, known: w.Certainty == shell.Sure, reason: w.Reason, written: "--" + key,
			file: p.file(w.At), line: w.At.Line}
		if !given {
			a.value, a.known = "true", true
			for first := true; i+1 < len(p.args) && !strings.HasPrefix(p.args[i+1].Text, "--"); first = false {
				i++
				next := p.args[i]
				if next.Certainty < shell.Sure && (!first || next.Many && !takesValue(key)) {
					p.doubtValue(next, "an argument of "+p.name)
				}
				if first {
					a.value, a.known, a.reason = next.Text, next.Certainty == shell.Sure, next.Reason
				} else { // a list
					a.value, a.known = a.value+","+next.Text, a.known && next.Certainty == shell.Sure
				}
			}
		}
		if len(args) < maxArguments {
			args[key] = a
		}
	}
	return args
}

// jsonArguments reads the arguments from a file instead.
func jsonArguments(file string, text []byte) map[string]argument {
	args := map[string]argument{}
	if len(text) == 0 || !gjson.ValidBytes(text) {
		return args
	}
	gjson.ParseBytes(text).ForEach(func(key, value gjson.Result) bool {
		if value.Type != gjson.Null && len(args) < maxArguments {
			args[key.Str] = argument{value: value.String(), known: !value.IsObject() && !value.IsArray(),
				reason: "it is not a plain value", written: key.Str, file: file, line: lineOf(text, key.Str)}
		}
		return true
	})
	return args
}
