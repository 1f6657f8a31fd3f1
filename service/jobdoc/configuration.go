package jobdoc

import (
	"bytes"
	"encoding/json"
)

// Configuration makes JSON of a config.json as Python writes it: its json module writes numbers that are none as NaN,
// Infinity and -Infinity (Lib/json/encoder.py, floatstr), which no other reader takes. They become the words in quotes,
// so that a key that decides nothing may hold one, and a key that is read is named with what it holds. ok is false
// where the text is no JSON object even so.
func Configuration(text []byte) (config json.RawMessage, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if json.Valid(text) {
		return text, true
	}
	out := make([]byte, 0, len(text)+16)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out, i = append(out, text[i:end]...), end
		case c == 'N' || c == 'I' || c == '-':
			word := notFinite(text[i:])
			if word == "" {
				out, i = append(out, c), i+1
				continue
			}
			out = append(append(append(out, '"'), word...), '"')
			i += len(word)
		default:
			out, i = append(out, c), i+1
		}
	}
	return out, json.Valid(out)
}

// notFinite is the word with which a text begins for a number that is none.
func notFinite(text []byte) string {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}
