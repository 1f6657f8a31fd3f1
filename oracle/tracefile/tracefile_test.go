package tracefile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/oracle/tracefile"
)

func TestEachLine(t *testing.T) {
	const text = "a\nbb\n\nccc"
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.jsonl")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close(), os.WriteFile(path, []byte(text), 0o600),
		os.WriteFile(path+".gz", packed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + ".gz"} {
		var got []string
		if err := tracefile.EachLine(path, func(line []byte) error {
			got = append(got, string(line))
			return nil
		}); err != nil || !slices.Equal(got, []string{"a", "bb", "", "ccc"}) {
			t.Errorf("%s: read %q, %v", path, got, err)
		}
	}
	wrong := errors.New("wrong")
	err = tracefile.EachLine(path, func(line []byte) error {
		if string(line) == "bb" {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || !strings.HasSuffix(err.Error(), "rows.jsonl:2: wrong") {
		t.Errorf("got %v", err)
	}
	if err := tracefile.EachLine(path+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
