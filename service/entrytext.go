package service

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// checkID compares the id in a document with that of its path.
func checkID(wrong *invalid.List, form *regexp.Regexp, id, given string) {
	if !form.MatchString(id) {
		wrong.Add("", "out_of_range", "the id %.100q is not one; accepted: letters, digits, dots, dashes and "+
			"underscores, a letter or digit first", id)
	}
	if given != "" && given != id {
		wrong.Add("/id", "conflict", "%.100q is not the id in the path, %.100q; leave the field out", given, id)
	}
}

// checkAliases holds what the tags of a list of aliases cannot say.
func checkAliases(wrong *invalid.List, aliases []string, notes map[string]string) {
	text := textOf(wrong)
	for i, a := range aliases {
		text(at("/aliases", i), a)
		if strings.TrimSpace(a) == "" {
			wrong.Add(at("/aliases", i), "required", "is blank")
		}
	}
	for alias, note := range notes {
		text("/alias_notes", alias, note)
		if !slices.Contains(aliases, alias) {
			wrong.Add("/alias_notes", "conflict", "%.100q is not one of the aliases", alias)
		}
	}
}

// textOf refuses what is not printable: it would end up in logs, terminals and databases,
// some of which take no NUL.
func textOf(wrong *invalid.List) func(pointer string, values ...string) {
	return func(pointer string, values ...string) {
		for i, v := range values {
			here := pointer
			if len(values) > 1 {
				here = at(pointer, i)
			}
			if !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t'
			}) {
				wrong.Add(here, "out_of_range", "has control characters or is not UTF-8; accepted: printable text")
			}
		}
	}
}

func at(list string, i int) string { return list + "/" + strconv.Itoa(i) }

// distinct drops what is there already.
func distinct(list []string) []string {
	var kept []string
	for _, s := range list {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}
