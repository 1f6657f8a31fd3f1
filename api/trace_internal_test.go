package api

import (
	"regexp"
	"testing"
)

const goodTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceparent(t *testing.T) {
	for given, want := range map[string]bool{
		goodTrace:            true,
		"cc" + goodTrace[2:]: true, // a later version
		"cc" + goodTrace[2:] + "-what-the-future-will-be-like": true,
		"cc" + goodTrace[2:] + ".what-the-future-will-be-like": false,
		goodTrace + "-what-the-future-will-be-like":            false,
		"ff" + goodTrace[2:]: false,
		"":                   false,
		goodTrace[:54]:       false,
		"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x": false,
		"00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01": false,
	} {
		got, ok := parseTraceparent(given)
		if ok != want || ok && (got.traceID != "0af7651916cd43dd8448eb211c80319c" ||
			got.parentID != "b7ad6b7169203331") {
			t.Errorf("%q is read as %v, %+v", given, ok, got)
		}
	}
}

// What is logged of a trace can be nothing but an id, whatever was sent.
func FuzzTraceparent(f *testing.F) {
	f.Add(goodTrace)
	f.Add("cc" + goodTrace[2:] + "-x")
	f.Add("00-" + "\"}\n")
	ids := regexp.MustCompile(`^[0-9a-f]{32} [0-9a-f]{16}$`)
	f.Fuzz(func(t *testing.T, header string) {
		if got, ok := parseTraceparent(header); ok && !ids.MatchString(got.traceID+" "+got.parentID) {
			t.Errorf("%q is read as %+v", header, got)
		}
	})
}
