package submission

import "bytes"

// lineOf is the line of a file where a key first stands at the beginning of a line, in quotes or without, before a
// colon or an equals sign; 0 where it does not. The key is bytes, which need not be UTF-8.
func lineOf(text []byte, key string) int {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		rest := unquoted(bytes.TrimLeft(line, " \t"))
		rest, found := bytes.CutPrefix(rest, []byte(key))
		if !found {
			continue
		}
		rest = bytes.TrimLeft(unquoted(rest), " \t")
		if len(rest) > 0 && (rest[0] == ':' || rest[0] == '=') {
			return number
		}
	}
	return 0
}

// unquoted is text without one quotation mark that it begins with.
func unquoted(text []byte) []byte {
	if len(text) > 0 && (text[0] == '"' || text[0] == '\'') {
		return text[1:]
	}
	return text
}
