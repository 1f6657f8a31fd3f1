package jobdoc_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/jobdoc"
)

func TestConfiguration(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{`{"a": 1}`, `{"a": 1}`},
		{"\ufeff" + `{"a": 1}`, `{"a": 1}`},
		{`{"a": NaN, "b": [Infinity, -Infinity, -1]}`, `{"a": "NaN", "b": ["Infinity", "-Infinity", -1]}`},
		{`{"NaN": "a \" NaN, -Infinity", "b": NaN}`, `{"NaN": "a \" NaN, -Infinity", "b": "NaN"}`},
		{`{"a": Nan}`, ""}, {`{"a": NaNa}`, ""}, {`{"a": "NaN`, ""}, {`{"a": "\`, ""}, {`- NaN`, ""}, {``, ""},
	} {
		got, ok := jobdoc.Configuration([]byte(c.given))
		if ok != (c.want != "") || ok && string(got) != c.want {
			t.Errorf("%s is %s, %t; want %s", c.given, got, ok, c.want)
		}
	}
}

// FuzzConfiguration: what is JSON stays as it is, and what comes out as JSON is JSON.
func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(`{"a": NaN, "b": [Infinity, -Infinity], "c": "NaN"}`))
	f.Add([]byte(`{"a": "\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := jobdoc.Configuration(bytes.Clone(text))
		if ok != json.Valid(got) {
			t.Errorf("%q: %q, %t", text, got, ok)
		}
		if json.Valid(text) && !bytes.Equal(got, text) {
			t.Errorf("%q was JSON, and is %q", text, got)
		}
		if ok && strings.Count(string(got), "NaN") != strings.Count(string(text), "NaN") {
			t.Errorf("%q lost a word: %q", text, got)
		}
	})
}
