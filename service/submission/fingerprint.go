package submission

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// programs are training programs that are known by what they consist of: the fingerprints of their releases.
type programs struct {
	nanoGPTTrain, nanoGPTModel map[string]bool
}

// fingerprint identifies what a Python program does: comments, blank lines and the values that a reader takes from
// the file itself do not count. skip says which lines are read as such values.
func fingerprint(text []byte, skip func(line string) bool) string {
	h := sha256.New()
	doc := ""
	for raw := range splitLines(text) {
		line := strings.TrimRight(withoutComment(raw), " \t")
		if doc != "" {
			if strings.Contains(line, doc) {
				doc = ""
			}
			continue
		}
		trimmed := strings.TrimSpace(line)
		if quotes := trimmed[:min(3, len(trimmed))]; quotes == `"""` || quotes == "'''" {
			if !strings.Contains(trimmed[3:], quotes) {
				doc = quotes
			}
			continue
		}
		if trimmed == "" || skip != nil && skip(line) {
			continue
		}
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// withoutComment takes a comment off the end of a line.
func withoutComment(line string) string {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// trainFingerprint is that of nanoGPT's train.py. What it assigns to its own keys in front of the configurator is
// read, and may differ.
func trainFingerprint(text []byte) string {
	settings := true
	return fingerprint(text, func(line string) bool {
		settings = settings && !strings.HasPrefix(line, "config_keys")
		m := assignment.FindStringSubmatch(line)
		if !settings || m == nil || !listed(nanoGPTKeys, m[1]) {
			return false
		}
		_, ok := values{}.evaluate(m[2])
		return ok
	})
}

func modelFingerprint(text []byte) string { return fingerprint(text, nil) }
