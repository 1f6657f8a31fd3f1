// Command vramplan answers how much GPU memory a training job takes, whether it
// fits on a card, and what to change when it does not. It is a service, a
// command line and a check for scripts in one binary; see vramplan --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes. A hook may refuse a job on exactly 1 from check, so no failure of
// vramplan itself may ever end in 1 there, and a panic is 3 everywhere: the Go
// runtime's own choice, 2, would read as bad input.
const (
	exitOK        = 0
	exitFailure   = 1 // check: the job does not fit
	exitUsage     = 2 // check: bad input too
	exitUndecided = 3
	exitTight     = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the program without its process: everything that it reads or writes
// is an argument, and the result is the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(stderr, "vramplan: "+fault(p, debug.Stack()))
			code = exitUndecided
		}
	}()

	term := newTerminal(stdin, stdout, stderr, environ)
	var cli commands
	exited := false
	parser, err := kong.New(&cli, options(term, func(int) { exited = true })...)
	if err != nil {
		fmt.Fprintf(stderr, "vramplan: internal error: %v\n", err)
		return exitUndecided
	}
	command, err := parser.Parse(withNegatives(asHelp(args)))
	if exited { // --help or --version has printed what was asked for
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "vramplan: %s%s\nRun \"%s --help\" for the flags and their values.\n",
			flagOfAnother(args, err), settingOf(parser, term, err), helpFor(err))
		return exitUsage
	}

	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run()
	return report(stderr, strings.TrimPrefix(command.Selected().FullPath(), "vramplan "), err)
}

// helpFor is the command line whose --help explains a parse error.
func helpFor(err error) string {
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil &&
		parse.Context.Selected() != nil {
		return parse.Context.Selected().FullPath()
	}
	return "vramplan"
}

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exit ends with a code after everything has been said already.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// report prints an error once and gives the exit code that it stands for.
func report(stderr io.Writer, command string, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitFailure
	if known, ok := errors.AsType[*exitError](err); ok {
		code = known.code
		if known.err == nil {
			return code
		}
	}
	fmt.Fprintf(stderr, "vramplan %s: %s\n", command, strings.TrimSpace(err.Error()))
	return code
}
