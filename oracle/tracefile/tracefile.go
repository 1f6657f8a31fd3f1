// Package tracefile reads the files that traced jobs are kept in: one JSON document a line, packed where the
// name ends in .gz.
package tracefile

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLineBytes is the longest line that is read: a traced job with all of its events has some megabytes.
const maxLineBytes = 64 << 20

// EachLine calls f for every line of a file, until f returns an error; that error names the file and the line. The
// bytes are f's until it returns.
func EachLine(path string, f func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLineBytes)
	n := 1
	for ; lines.Scan(); n++ {
		if err := f(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", path, n, err)
	}
	return nil
}
