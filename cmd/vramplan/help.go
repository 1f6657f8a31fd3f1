package main

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// helpCommand is in the list of commands so that people find it; its arguments never get to kong, see [asHelp].
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to explain; none for all of them."`
}

// asHelp turns "help estimate" into "estimate --help".
func asHelp(args []string) []string {
	if len(args) == 0 || args[0] != "help" || slices.Contains(args, "--help") {
		return args
	}
	return append(slices.Clone(args[1:]), "--help")
}

// versionFlag is --version: the program's own version on one line, as other programs print it. The command version
// prints those that decide the bytes of an answer.
type versionFlag bool

// BeforeReset prints the version and ends the program before anything else of the command line is looked at.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if _, err := fmt.Fprintln(app.Stdout, "vramplan "+buildVersion()); err != nil {
		return err
	}
	app.Exit(exitOK)
	return nil
}
