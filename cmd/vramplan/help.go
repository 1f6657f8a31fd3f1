package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

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

// negative is a number below nothing, which kong takes for a short flag where it stands by itself.
var negative = regexp.MustCompile(`^-\d[\d.]*[A-Za-z]*$`)

// withNegatives joins a flag and the negative number behind it, so that the value is refused by what the field accepts.
func withNegatives(args []string) []string {
	joined := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		last := len(joined) - 1
		if negative.MatchString(arg) && last >= 0 && strings.HasPrefix(joined[last], "--") &&
			!strings.Contains(joined[last], "=") {
			joined[last] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// otherFlags are flags that another command has for what this one calls otherwise.
var otherFlags = map[string]string{
	"--gpus": "on how many GPUs the job runs is --world-size N here, and --gpu NAME is the card; --gpus N belongs to " +
		"read and to plan",
	"--world-size": "on how many GPUs the job runs is --gpus N here; --world-size N belongs to the commands that estimate",
}

// flagOfAnother is what is wrong with a command line. A flag of another command is answered with the one that is meant.
func flagOfAnother(err error) string {
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag "); unknown {
		name, _, _ = strings.Cut(name, ",")
		if words, ok := otherFlags[name]; ok {
			return "unknown flag " + name + ": " + words
		}
	}
	if given, unexpected := strings.CutPrefix(err.Error(), "unexpected argument "); unexpected && readsJobs(err) {
		given, _, _ = strings.Cut(given, ",")
		if given == "-" || strings.ContainsAny(given, "./") {
			return fmt.Sprintf("unexpected argument %s: a job document is read with -f %[1]s", given)
		}
		return fmt.Sprintf("unexpected argument %s: a model is named with --model %[1]s, and a job document is read "+
			"with -f FILE", given)
	}
	return err.Error()
}

// readsJobs says whether the command that an error is of takes job documents and models by flags.
func readsJobs(err error) bool {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || parse.Context == nil || parse.Context.Selected() == nil {
		return false
	}
	flags := parse.Context.Selected().Flags
	has := func(name string) bool {
		return slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == name })
	}
	return has("file") && has("model")
}
