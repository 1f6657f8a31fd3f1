package main

import (
	"bufio"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const columns = 120

// TestLinesEndAt120Columns holds all Go of the repository to 120 columns, tabs counted as four. Exempt is what cannot
// be broken without saying less: a line with a string or a struct tag on it, what lies in a raw string, text that a
// comment sets out itself (lists, tables, annotations), and generated files.
func TestLinesEndAt120Columns(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, n := range longLines(text) {
			t.Errorf("%s:%d is wider than %d columns", path, n, columns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("looked at %d files only", files)
	}
}

// longLines are the lines, from 1, that are too wide and could be broken.
func longLines(text []byte) []int {
	if generated := "DO NOT EDIT"; strings.Contains(string(text[:min(len(text), 300)]), generated) {
		return nil
	}
	exempt := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		first := set.Position(pos).Line
		switch {
		case tok == token.STRING:
			for n := first; n <= first+strings.Count(literal, "\n"); n++ {
				exempt[n] = true
			}
		case tok == token.COMMENT && setOut(literal):
			exempt[first] = true
		}
	}
	var long []int
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if !exempt[n] && wide(lines.Text()) > columns {
			long = append(long, n)
		}
	}
	return long
}

// setOut reports whether a comment's line is laid out by hand: indented, a list, or an annotation.
func setOut(comment string) bool {
	words, ok := strings.CutPrefix(comment, "//")
	return ok && (!strings.HasPrefix(words, " ") || strings.HasPrefix(words, "  ") || strings.HasPrefix(words, " @"))
}

func wide(line string) int {
	n := 0
	for _, r := range line {
		if r == '\t' {
			n += 3
		}
		n++
	}
	return n
}

// TestLongLines shows what counts.
func TestLongLines(t *testing.T) {
	far := strings.Repeat("x", columns)
	for text, want := range map[string]int{
		"package p\n\nvar " + far + " int\n":                   1,
		"package p\n\n// " + far + "\n":                        1,
		"package p\n\n//   - " + far + "\n":                    0,
		"package p\n\nvar a = \"" + far + "\"\n":               0,
		"package p\n\nvar a = `\n" + far + "\n`\n":             0,
		"// Code generated. DO NOT EDIT.\n\n// " + far + "\n":  0,
		"package p\n\nvar a int\n":                             0,
		"package p\n\nfunc f() {\n" + strings.Repeat("\t", 31): 1,
	} {
		if got := longLines([]byte(text)); len(got) != want {
			t.Errorf("%.40q: lines %v, want %d", text, got, want)
		}
	}
}
