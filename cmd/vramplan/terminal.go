package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal is where the program reads and writes, and what it knows of it.
type terminal struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	taken          bool // that somebody reads standard input
	models         *hubModels
}

func newTerminal(stdin io.Reader, stdout, stderr io.Writer, environ []string) *terminal {
	return &terminal{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, models: &hubModels{}}
}

// open opens a file that the user named; "-" is standard input, which only one of them can be.
func (t *terminal) open(name string) (io.ReadCloser, error) {
	if name != "-" {
		return os.Open(name)
	}
	if t.taken {
		return nil, usage("- stands for standard input, which can be read once: name a file in the other place")
	}
	t.taken = true
	return io.NopCloser(t.stdin), nil
}

// readFile reads a whole file as open opens it.
func (t *terminal) readFile(name string) ([]byte, error) {
	file, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// lookup finds a variable; the last setting of a name wins, as in os/exec.
func (t *terminal) lookup(name string) (string, bool) {
	for i := len(t.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(t.environ[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// colour says whether standard output takes escape sequences: a terminal, unless
// NO_COLOR (no-color.org) is set to anything or TERM says that it is a dumb one.
func (t *terminal) colour() bool {
	if v, ok := t.lookup("NO_COLOR"); ok && v != "" {
		return false
	}
	if v, _ := t.lookup("TERM"); v == "dumb" {
		return false
	}
	return isTerminal(t.stdout)
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
