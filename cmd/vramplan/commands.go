package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// commands is the command tree. A tag setting:"NAME" makes the variable NAME
// the flag's value where the flag is not given.
type commands struct {
	Estimate   estimateCommand     `cmd:"" help:"Say how many bytes a job takes, by component, and on which cards it fits."`
	Plan       planCommand         `cmd:"" help:"List the micro-batches that reach an effective batch, and the ways out when a job does not fit."`
	Compare    compareCommand      `cmd:"" help:"Say why two jobs take different amounts of memory."`
	Read       readCommand         `cmd:"" help:"Print the job documents that batch scripts, launch lines and configurations of trainers describe, with the place of every field."`
	Replay     replayCommand       `cmd:"" help:"Show what an estimate is made of: every allocation and free of a step, in order."`
	Check      checkCommand        `cmd:"" help:"Say in the exit code whether a job fits: 0 it does, also where it is tight or unlikely; 1 it does not; 2 bad input; 3 no answer, also where nobody knows the card's memory; 4 with --strict, tight or unlikely."`
	Changed    changedCommand      `cmd:"" help:"Say of a change under git what it does to the memory of the jobs that its files describe: 1 where one does not fit any more, as check says it."`
	Diagnose   diagnoseCommand     `cmd:"" help:"Explain an out-of-memory message: what asked for the memory, and what helps."`
	Lengths    lengthsCommand      `cmd:"" help:"Say how long the samples of a data set are, which batch is the longest, and how often it comes; the data stays here."`
	Fleet      fleetCommand        `cmd:"" help:"Say what the jobs of a cluster asked for and used, from files of its accounting: what was left over, what smaller cards would have done, what failed; the files stay here."`
	Measure    measureCommand      `cmd:"" help:"Estimate the training that a command starts, run it, and say what it took beside what was predicted; the exit code is the command's."`
	MCP        mcpCommand          `cmd:"" name:"mcp" help:"Serve assistants over standard input and output by the Model Context Protocol: estimate, plan, check, compare, diagnose, read and the catalog as tools."`
	GPUs       gpusCommand         `cmd:"" name:"gpus" help:"List the cards of the catalog, or show one."`
	Models     modelsCommand       `cmd:"" help:"List the models of the catalog, or show one."`
	Serve      serveCommand        `cmd:"" help:"Run the HTTP service."`
	Health     healthCommand       `cmd:"" help:"Ask a running service whether it is ready; for container health checks."`
	Migrate    migrateCommand      `cmd:"" help:"Bring the database up to date, or show where it stands."`
	Verify     verifyCommand       `cmd:"" help:"Say in the exit code whether a database holds what was written to it: 0 yes, 1 no, 2 bad usage, 3 it could not be looked at."`
	Observe    observeCommand      `cmd:"" help:"Report what runs took to a service, or show how its predictions did."`
	Calibrate  calibrateCommand    `cmd:"" help:"Fit a service's constants to its observations, and choose what it answers with."`
	Keys       keysCommand         `cmd:"" help:"Make, list and revoke the API keys with which the catalog may be changed."`
	OpenAPI    openapiCommand      `cmd:"" name:"openapi" help:"Print the OpenAPI document of the HTTP API."`
	Releases   releasesCommand     `cmd:"" help:"List what releases of torch, transformers and others changed in what a step allocates."`
	Version    versionCommand      `cmd:"" help:"Print the versions that decide the bytes of an answer."`
	Help       helpCommand         `cmd:"" help:"Explain a command, as its --help does."`
	Completion completionCommand   `cmd:"" help:"Print the completion script of a shell: bash, zsh or fish."`
	Man        manCommand          `cmd:"" help:"Write manual pages."`
	Apart      readingApartCommand `cmd:"" hidden:"" name:"reading-apart" help:"Read strangers' files for a service; what it is asked and answers is the service's business."`
	Complete   completeCommand     `cmd:"" hidden:"" help:"Print what may stand next on a command line; for the scripts of completion."`

	ShowVersion versionFlag `name:"version" help:"Print the program's version."`
}

func options(t *terminal, exit func(int)) []kong.Option {
	return []kong.Option{
		kong.Name("vramplan"),
		kong.Description("Plan the GPU memory of training jobs.\n\n" +
			"Everything but serve, observe, calibrate, keys, migrate and verify works without network or database; " +
			"--server asks a service instead, --hub the Hugging Face Hub for a model. " +
			"Flags win over the variables named beside them, which win over the defaults.\n\n" +
			"Exit codes: 0 done, 1 failure (a job that cannot be accepted is one), 2 bad usage, 3 internal error. " +
			"Those of check are a decision: 0 fits, 1 does not fit, 2 bad input, 3 no answer, 4 tight (with --strict)."),
		kong.Bind(t),
		kong.Writers(t.stdout, t.stderr),
		kong.Exit(exit),
		kong.Resolvers(settings(t)),
		kong.ValueFormatter(helpWithSetting),
		kong.KindMapper(reflect.Int, wholeNumber(strconv.IntSize)),
		kong.KindMapper(reflect.Int64, wholeNumber(64)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
	}
}

// settings reads flags from the environment that run was given. kong's own env
// tag would read the process's, which a test cannot change for one run.
func settings(t *terminal) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		name := flag.Tag.Get("setting")
		if name == "" {
			return nil, nil
		}
		if value, ok := t.lookup(name); ok && value != "" {
			return value, nil
		}
		return nil, nil
	})
}

// settingOf names the variable that a value came from which kong could not read;
// kong knows flags alone.
func settingOf(parser *kong.Kong, t *terminal, err error) string {
	flag, _, _ := strings.Cut(err.Error(), ":")
	setting := ""
	_ = kong.Visit(parser.Model, func(v kong.Visitable, next kong.Next) error {
		if f, ok := v.(*kong.Flag); ok && "--"+f.Name == flag && f.Tag.Get("setting") != "" {
			setting = f.Tag.Get("setting")
		}
		return next(nil)
	})
	if value, ok := t.lookup(setting); !ok || value == "" {
		return ""
	}
	return " (" + setting + " is set)"
}

func helpWithSetting(v *kong.Value) string {
	name := v.Tag.Get("setting")
	if name == "" {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " ($" + name + ")."
}

// wholeNumber reads the value of a flag that is a count, and says in words what is wrong with another.
func wholeNumber(bits int) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var given string
		if err := ctx.Scan.PopValueInto("a whole number", &given); err != nil {
			return err
		}
		n, err := strconv.ParseInt(given, 0, bits)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%s is out of range: whole numbers go to %d", given, int64(math.MaxInt64)>>(64-bits))
		case err != nil:
			return fmt.Errorf("%q is not a whole number", given)
		}
		target.SetInt(n)
		return nil
	}
}
