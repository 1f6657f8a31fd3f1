package readers

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// A word that the environment may change taints the job: it is in doubt, whichever reader takes it and whether any
// does, unless it is the value of a word that moves no memory. Readers say which those are (setting.Settings.Still);
// what they do not say leaves the doubt.

// doubtWords notes the words of the command that the environment may change.
func (r *reading) doubtWords() {
	args := len(r.words) - len(r.args)
	option, at := "", -2
	for i, w := range r.words {
		key, given, isKey := w.key()
		if isKey && !given {
			option, at = key, i
		}
		reason := w.Unknown + w.Assumed
		switch {
		case reason == "":
		case w.isList(reason):
			r.taint(w, "", reason)
		case isKey:
			if !r.stills(i >= args, key) {
				r.taint(w, key, reason)
			}
		case at == i-1 && !isOption(w.Text): // the value of the option before it
			if flags[option] && w.open() {
				r.taint(w, "", reason)
			} else if !r.stills(i >= args, option) {
				r.taint(w, option, reason)
			}
		default:
			r.taint(w, "", reason)
		}
	}
}

// lists are expansions that are several words, in quotes too: "$@", ${@:2}, $*, "${ARGS[@]}".
var lists = regexp.MustCompile(`\$\{?[@*]|\[[@*]\]`)

// isList reports whether a word may be a value and further arguments behind it.
func (w word) isList(reason string) bool {
	return w.many && !w.known() && (lists.MatchString(w.shown) ||
		strings.HasPrefix(reason, "the script's arguments are not known"))
}

// stills reports whether a word of the command moves no memory: one of the program's, or one of the launcher's.
func (r *reading) stills(programs bool, key string) bool {
	if programs {
		return r.s != nil && r.s.IsStill(key)
	}
	table := launcherStill[r.launcher]
	return table[key] || table[key+"="]
}

// key is the option, or the key of key=value, that a word begins with, as far as the script fixes it; given is true
// where its value is in the word, too.
func (w word) key() (key string, given, ok bool) {
	key, _, given = strings.Cut(w.Text, "=")
	if !isOption(w.Text) && !given || key == "" {
		return "", false, false
	}
	left := len(key)
	for _, p := range w.pieces {
		if left > 0 && !p.sure {
			return "", false, false
		}
		left -= len(p.text)
	}
	return strings.TrimLeft(optionKey(key), "+~"), given, true
}

// taint notes one word; key is the option whose value it is, "" where it may be any argument.
func (r *reading) taint(w word, key, reason string) {
	d := Doubt{File: w.Origin.At.File, Line: w.Origin.At.Line, Word: w.name(), Enlarges: !lasting[key]}
	switch {
	case key == "" && w.open():
		d.Why = "may add arguments: " + reason
	case lasting[key]:
		d.Word, d.Why = key, "is known only when the script runs, and may be 0: "+reason
	case key != "":
		d.Word, d.Why = key, "is known only when the script runs: "+reason
	default:
		d.Why = "is known only when the script runs: " + reason
	}
	r.d.doubts.add(d)
}

// doubtSettings notes values of files that are worked out when the job runs, and trainings of no step.
func (r *reading) doubtSettings() {
	if r.s == nil {
		return
	}
	for _, key := range r.s.Keys() {
		v, _ := r.s.Peek(key)
		if n, ok := v.Float(); ok && n <= 0 && v.Unknown == "" && lasting[key] && !strings.HasPrefix(key, "max_steps") {
			r.d.doubts.add(Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
				Why: fmt.Sprintf("is %v: nothing is trained", v.String())})
		}
		if v.Unknown == "" || v.Origin.Kind != setting.File || r.s.IsStill(key) {
			continue
		}
		r.d.doubts.add(Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
			Why: "is known only when the job runs: " + v.Unknown, Enlarges: true})
	}
}

// loose takes words, and those that begin with one that ends in "*", for read, and leaves a doubt about each that is
// there, that no reader followed and that says more than no: they move memory in a way that is not replayed.
func (r *reading) loose(words ...string) {
	table := setting.New()
	table.Still(words...)
	for _, key := range r.s.Rest() {
		v, _ := r.s.Peek(key)
		if !table.IsStill(key) {
			continue
		}
		if n, ok := v.Int(); v.Off() || ok && n == 1 && strings.HasSuffix(key, "_degree") {
			continue
		}
		r.d.doubts.add(Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
			Why: "may change what a GPU holds, and is not followed", Enlarges: true})
	}
	r.s.Read(words...)
}
