package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// formerReleases are those of most rows that name none. Such a job is asked with them as well as with the present ones.
var formerReleases = map[string]string{"torch": "2.9.1", "transformers": "4.57.6", "accelerate": "1.13.0"}

// row is a job that was traced or measured.
type row struct {
	key string // the file and the id
	job estimator.Job
}

// rows are those below root whose key matches, by key.
func rows(root string, only *regexp.Regexp) ([]row, error) {
	var found []row
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		inside := strings.Contains(filepath.ToSlash(path), "/testdata/")
		if !inside || !strings.HasSuffix(path, ".jsonl") && !strings.HasSuffix(path, ".jsonl.gz") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		of, err := rowsOf(path, filepath.ToSlash(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found = append(found, slices.DeleteFunc(of, func(r row) bool { return !only.MatchString(r.key) })...)
		return nil
	})
	slices.SortFunc(found, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	return found, err
}

// rowsOf are the rows of one file that have a job.
func rowsOf(path, name string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := io.Reader(f)
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	var found []row
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		var r struct {
			ID  string          `json:"id"`
			Job json.RawMessage `json:"job"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if r.Job == nil {
			continue
		}
		one := row{key: fmt.Sprintf("%s:%d %s", name, n, r.ID)}
		if err := json.Unmarshal(r.Job, &one.job); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		found = append(found, one)
		if len(one.job.Training.Versions) == 0 {
			one.key += " (former releases)"
			one.job.Training.Versions = formerReleases
			found = append(found, one)
		}
	}
	return found, lines.Err()
}
