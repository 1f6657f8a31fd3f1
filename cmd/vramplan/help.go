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

// trainersFlags are what trainers call what flags of a job say here: without dashes in front, and with one kind
// between.
var trainersFlags = map[string]string{
	"batch-size": "--micro-batch N, sequences per pass and GPU", "bs": "--micro-batch N", "train-batch-size": "--micro-batch N",
	"per-device-train-batch-size": "--micro-batch N", "micro-batch-size": "--micro-batch N", "per-device-batch-size": "--micro-batch N",
	"seq-len": "--sequence-length N", "seq-length": "--sequence-length N", "max-seq-len": "--sequence-length N",
	"max-seq-length": "--sequence-length N", "max-length": "--sequence-length N", "sequence-len": "--sequence-length N",
	"block-size": "--sequence-length N", "cutoff-len": "--sequence-length N", "context-length": "--sequence-length N",
	"grad-accum": "--gradient-accumulation N", "grad-accumulation": "--gradient-accumulation N", "gradient-accumulation-steps": "--gradient-accumulation N",
	"accumulate-grad-batches": "--gradient-accumulation N",
	"bf16":                    "--precision amp-bf16, which is what transformers' --bf16 means; --precision bf16 has the weights in it too",
	"fp16":                    "--precision amp-fp16, which is what transformers' --fp16 means; --precision fp16 has the weights in it too",
	"fp32":                    "--precision fp32", "tf32": "--precision tf32", "gradient-checkpointing": "--checkpointing full", "activation-checkpointing": "--checkpointing full",
	"model-name-or-path": "--model NAME", "model-name": "--model NAME", "base-model": "--model NAME", "optim": "--optimizer NAME",
	"lora-r": "--lora-rank N", "lora-dim": "--lora-rank N", "load-in-4bit": "--qlora", "num-gpus": "--world-size N", "nproc-per-node": "--world-size N",
	"ngpus": "--world-size N", "attn-implementation": "--attention NAME", "use-lora": "--lora-rank N",
	"flash-attn": "--attention flash", "flash-attention": "--attention flash", "use-flash-attention-2": "--attention flash",
	"use-flash-attn": "--attention flash", "load-in-8bit": "--lora-base int8 beside --lora-rank N",
	"zero-stage": "--data-parallel zero1, zero2 or zero3", "deepspeed-stage": "--data-parallel zero1, zero2 or zero3",
	"strategy": "--data-parallel ddp, zero1, zero2, zero3 or fsdp", "parallel": "--data-parallel ddp, zero1, zero2, zero3 or fsdp",
	"fsdp": "--data-parallel fsdp", "ddp": "--data-parallel ddp", "tp": "--tensor-parallel N", "pp": "--pipeline-parallel N",
	"cp": "--context-parallel N", "tensor-model-parallel-size": "--tensor-parallel N",
	"pipeline-model-parallel-size": "--pipeline-parallel N", "context-parallel-size": "--context-parallel N",
	"global-batch-size": "--micro-batch N and --gradient-accumulation N", "quantization": "--qlora",
	"torch-compile": "--compile", "dtype": "--precision NAME", "torch-dtype": "--precision NAME", "device": "--gpu NAME",
	"vram":          "--gpu NAME, and a card that the catalog lacks is {\"name\", \"memory_bytes\"} in gpus of a job document",
	"learning-rate": "", "lr": "", "epochs": "", "num-train-epochs": "", "max-steps": "", "warmup-steps": "", "weight-decay": "", "output-dir": "",
	"num-workers": "", "save-steps": "", "logging-steps": "",
}

// flagOfATrainer is what is said of a flag that a trainer has; "" of others.
func flagOfATrainer(name string) string {
	words, ok := trainersFlags[strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "_", "-")]
	switch {
	case !ok:
		return ""
	case words == "":
		return "unknown flag " + name + ": it changes nothing in memory, so leave it out"
	}
	return "unknown flag " + name + ": here it is " + words
}

// flagsOfTrainers is what is said of the flags of trainers in a command line, each once, a line each.
func flagsOfTrainers(args []string) string {
	var lines []string
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if words := flagOfATrainer(name); strings.HasPrefix(name, "--") && words != "" && !slices.Contains(lines, words) {
			lines = append(lines, words)
		}
	}
	return strings.Join(lines, "\nvramplan: ")
}

// flagOfAnother is what is wrong with a command line. A flag of another command is answered with the one that is meant.
func flagOfAnother(args []string, err error) string {
	if strings.HasPrefix(err.Error(), "--checkpointing: expected") {
		return "--checkpointing has no mode: full recomputes every block, selective attention alone; none keeps all " +
			"(trainers' --gradient-checkpointing is --checkpointing full)"
	}
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag "); unknown {
		name, _, _ = strings.Cut(name, ",")
		if words, ok := otherFlags[name]; ok {
			return "unknown flag " + name + ": " + words
		}
		if flagOfATrainer(name) != "" && readsJobs(err) {
			return flagsOfTrainers(args)
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
