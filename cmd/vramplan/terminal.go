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
}

func newTerminal(stdin io.Reader, stdout, stderr io.Writer, environ []string) *terminal {
	return &terminal{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ}
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
