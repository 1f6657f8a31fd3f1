package main

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestBrokenJSON: a document that is broken between its fields is the same one, and as narrow as its values let it be.
func TestBrokenJSON(t *testing.T) {
	for _, document := range []string{
		`{"a":1}`,
		`{"model":{"preset":"gpt2"},"training":{"micro_batch":8,"gradient_accumulation":4,"precision":"amp-bf16","optimizer":"adamw"}}`,
		`{"a":"a, \\\", b","b":"` + strings.Repeat("x,", 60) + `","c":["\\",1,2,3],"d":"` + strings.Repeat("y", 60) + `"}`,
	} {
		lines := brokenJSON([]byte(document), 80)
		if got := strings.Join(lines, ""); got != document {
			t.Errorf("%s became %s", document, got)
		}
		whole := strings.Join(lines, "\n")
		if !gjson.Valid(whole) || gjson.Get(whole, "@ugly").Raw != gjson.Get(document, "@ugly").Raw {
			t.Errorf("%s is another document", whole)
		}
		for _, line := range lines {
			if len(line) > 80 && !strings.Contains(line, "x,x,") {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}
