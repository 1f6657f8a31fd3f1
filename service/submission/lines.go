package submission

import (
	"bytes"
	"regexp"
)

// lineOf is the line of a file where a key first stands at the beginning of a line; 0 where it does not.
func lineOf(text []byte, key string) int {
	at := regexp.MustCompile(`(?m)^[ \t]*["']?` + regexp.QuoteMeta(key) + `["']?[ \t]*[:=]`).FindIndex(text)
	if at == nil {
		return 0
	}
	return 1 + bytes.Count(text[:at[0]], []byte("\n"))
}
