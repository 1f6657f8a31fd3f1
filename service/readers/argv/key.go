package argv

import (
	"regexp"
	"strings"
)

// lists are expansions that are several words, in quotes too: "$@", ${@:2}, $*, "${ARGS[@]}".
var lists = regexp.MustCompile(`\$\{?[@*]|\[[@*]\]`)

// IsList reports whether a word may be a value and further arguments behind it.
func (w Word) IsList(reason string) bool {
	return w.Many && !w.Known() && (lists.MatchString(w.Shown) ||
		strings.HasPrefix(reason, "the script's arguments are not known"))
}

// Key is the option, or the key of key=value, that a word begins with, as far as the script fixes it; given is true
// where its value is in the word, too.
func (w Word) Key() (key string, given, ok bool) {
	key, _, given = strings.Cut(w.Text, "=")
	if !IsOption(w.Text) && !given || key == "" {
		return "", false, false
	}
	left := len(key)
	for _, p := range w.Pieces {
		if left > 0 && !p.Sure {
			return "", false, false
		}
		left -= len(p.Text)
	}
	return strings.TrimLeft(OptionKey(key), "+~"), given, true
}
