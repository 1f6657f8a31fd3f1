package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Certainty says how far a text can be relied on.
type Certainty uint8

// The certainties, from the least.
const (
	// Unknown is decided only when the script runs.
	Unknown Certainty = iota
	// Assumed holds unless the environment or the arguments of the script say otherwise.
	Assumed
	// Sure is fixed by the script.
	Sure
)

// Runs says whether a command runs.
type Runs uint8

// Whether a command runs, from the least.
const (
	Never Runs = iota
	Maybe
	Surely
)

// Input is what there is to read.
type Input struct {
	// Name is for messages and spans.
	Name string
	Text []byte
	// Dir is the absolute directory where the script starts; empty where nobody knows.
	Dir string
	// Args are $1 and on. Without them (nil) they are unknown; an empty list says that there are none.
	Args []string
	// Env are variables of the environment that are known. Others may be set or not.
	Env map[string]string
	// ReadFile opens files by absolute names: those that the script sources or runs, and those that
	// [Script.Open] is asked for. Without it no file is found out about.
	ReadFile func(name string) ([]byte, error)
	// Partial reads the texts that bash -c and eval run where parts of them are known only when the script runs: such a
	// part is a word, or a part of one, that is not known, and no shell syntax. That is what scripts mean by it, and
	// not certain.
	Partial bool
}

// Script is what a script does.
type Script struct {
	// Sources are the texts that spans point into: the script, and those that it runs.
	Sources []Source
	// Commands are in the order in which they run.
	Commands []Command
	// Writes are the files that commands write, in order.
	Writes []Write

	readFile func(name string) ([]byte, error)
	// mentioned says which names are in which programs, since every command looks again for its files.
	mentioned map[mention]bool
}

// mention is a name that is looked for in the text of a program, which is known by where it lies.
type mention struct {
	first *byte
	size  int
	name  string
}

// Source is one text.
type Source struct {
	Name string
	Text []byte
}

// Span is a range of bytes in a source. Line and Column count from 1.
type Span struct {
	Source, Start, End int
	Line, Column       int
}

// IsZero says that the text stands nowhere literally.
func (s Span) IsZero() bool { return s.Line == 0 }

// Piece is a part of a word that stems from one place.
type Piece struct {
	Text      string
	Certainty Certainty
	// Reason says why the text is not sure.
	Reason string
	// At is where the text stands literally, without quotes; zero where it was worked out.
	At Span
	// Via are the places of the variables through which it came, the last use first.
	Via []Span

	split bool // stems from an expansion outside quotes, and is split into words
}

// Word is one word of a command, or a value.
type Word struct {
	Text      string
	Certainty Certainty
	Reason    string
	// Many is true for a word outside quotes that may be several words or none: an unknown one, and one that is empty
	// unless the environment says otherwise (${EXTRA:-}).
	Many   bool
	At     Span
	Pieces []Piece
	// Node is the word of the source that it was expanded from, with its quotes; zero for what is no word of a command.
	Node Span
}

// Assign is a variable with its value.
type Assign struct {
	Name  string
	Value Word
}

// Command is one simple command.
type Command struct {
	// Index is its place in Script.Commands.
	Index int
	Words []Word
	// Variants are the words for each way that decisions may go which only the environment knows and which the words
	// depend on (case $SIZE in …). There are none where nothing depends on any, or on too many: what is not known is
	// then in Words alone.
	Variants [][]Word
	// Env are the variables that the script gives to the command: exported ones and those in front of it.
	Env []Assign
	// OpenEnv is not empty where the environment may have more from a place that was not read ("line 3 sources x.sh").
	OpenEnv string
	At      Span
	Runs    Runs
	// Why is the reason for Maybe and Never.
	Why    string
	Likely bool
	// Guarded says how the script deals with its failure; empty where it does not.
	Guarded string
	// Dir is the directory in which it runs, absolute if it is sure.
	Dir Word
	// Within are the words of the programs in front of the shell that runs the command, outermost first: docker run
	// IMAGE of docker run IMAGE bash -c TEXT.
	Within [][]Word
	// Unread says why a script that the command runs was not read; empty where it runs none, or its commands follow.
	Unread string
	// Stdin is the text of a here-document or here-string; nil without one.
	Stdin *Word
	// writes is the number of writes before the command.
	writes int
}

// Lookup gives a variable of the command's environment.
func (c *Command) Lookup(name string) (Word, bool) {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if c.Env[i].Name == name {
			return c.Env[i].Value, true
		}
	}
	return Word{}, false
}

// ErrNotShell means that the first line names another interpreter than a shell.
var ErrNotShell = errors.New("not a shell script")

// SyntaxError is a script that bash would not run.
type SyntaxError struct{ Err error }

func (e *SyntaxError) Error() string { return fmt.Sprintf("syntax error: %v", e.Err) }
func (e *SyntaxError) Unwrap() error { return e.Err }

// LimitError is a script that is larger or deeper than what is read.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "more than is read: " + e.What }

// Read works out what a script does. The error is [ErrNotShell], a *[SyntaxError], a *[LimitError] or that of ctx.
func Read(ctx context.Context, in Input) (*Script, error) {
	r := &reader{ctx: ctx, script: &Script{readFile: in.ReadFile}, partial: in.Partial, functionsRun: map[string]bool{}}
	file, err := r.parse(in.Name, in.Text, nil)
	if err != nil {
		return nil, err
	}
	st := newState(in)
	r.run(st, file)
	r.uncalled(st)
	if r.err != nil {
		return nil, r.err
	}
	r.guardAll()
	return r.script, nil
}

// wordOf puts pieces together.
func wordOf(pieces []Piece) Word {
	w := Word{Certainty: Sure, Pieces: pieces}
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
		if p.Certainty < w.Certainty {
			w.Certainty, w.Reason = p.Certainty, p.Reason
		}
		w.Many = w.Many || p.split && p.Certainty == Unknown
	}
	w.Text = b.String()
	if w.Text == "" { // an expansion that is empty unless the environment says otherwise
		w.Many = slices.ContainsFunc(pieces, func(p Piece) bool { return p.split })
	}
	if len(pieces) > 0 {
		w.At = pieces[0].At
	}
	return w
}

// sureWord is a word that was worked out.
func sureWord(text string) Word { return wordOf([]Piece{{Text: text, Certainty: Sure}}) }

func unknownWord(reason string) Word { return wordOf([]Piece{{Reason: reason}}) }
