package launch

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// commandDoubts collects what stands between a command and a denial, beside what its words say: whether it runs at all,
// what its environment may do to it, and what the programs in front of it do.
type commandDoubts struct {
	draft.Doubts
	script  *shell.Script
	command *shell.Command
}

// doubtsOf are those of a command. lookup gives variables of the environment that the script itself is started with; it
// may be nil.
func doubtsOf(script *shell.Script, c *shell.Command, words []shell.Word, wrappers [][]shell.Word,
	lookup func(string) (string, bool)) []draft.Doubt {
	d := commandDoubts{script: script, command: c}
	name := words[0].Text
	for _, w := range words { // the program, and not its launcher
		if strings.HasSuffix(w.Text, ".py") {
			name = w.Text
			break
		}
	}
	d.runs(path.Base(name))
	d.environment(lookup)
	for _, w := range append(slices.Clip(c.Within), wrappers...) {
		d.wrapper(w)
	}
	if c.Unread != "" {
		d.at(c.At, "", c.Unread)
	}
	return d.Doubts
}

// at adds a doubt about a word.
func (d *commandDoubts) at(at shell.Span, word, why string) {
	place := spanOf(d.script, at)
	d.Add(draft.Doubt{File: place.File, Line: place.Line, Word: word, Why: why})
}

// word adds a doubt about a word that is not understood.
func (d *commandDoubts) word(at shell.Span, word string) {
	place := spanOf(d.script, at)
	d.Add(draft.NotUnderstood(place.File, place.Line, word))
}

// runs says why the program may not run, or why its failing may be meant.
func (d *commandDoubts) runs(name string) {
	c := d.command
	if c.Runs == shell.Maybe {
		d.at(c.At, name, "may not run: "+c.Why)
	}
	if c.Guarded != "" {
		d.at(c.At, name, "may fail without harm: "+c.Guarded)
	}
}

// containers are wrappers that run a program in files of an image.
var containers = setting.SetOf("docker", "podman", "nerdctl")

// throughEnvironment finds variables of launchers in an option that sets several.
var throughEnvironment = regexp.MustCompile(
	`ACCELERATE_|FSDP_|DEEPSPEED_|MEGATRON_LM_|_VISIBLE_DEVICES|PYTHONPATH|LD_PRELOAD|USE_MCA|USE_KT|USE_V1`)

// noGPUs are options by which a step of Slurm's gets no card.
var noGPUs = regexp.MustCompile(
	`^(?:-G=?|--(?:gres|gpus|gpus-per-node|gpus-per-task)=)(?:none|(?:gres[:/])?(?:gpu[:=])?(?:[A-Za-z][^:=,]*[:=])?0)$`)

// wrapper looks for the environment that a wrapper sets.
func (d *commandDoubts) wrapper(words []shell.Word) {
	base := path.Base(words[0].Text)
	if containers[base] {
		d.at(d.command.At, base, "runs in a container, whose files need not be those that lie here")
	}
	if (base == "apptainer" || base == "singularity") && !slices.ContainsFunc(words, func(w shell.Word) bool {
		return w.Text == "--nv" || w.Text == "--nvccli" || w.Text == "--rocm"
	}) {
		d.at(d.command.At, base, "without --nv or --rocm shows the program no GPU")
	}
	for i, w := range words {
		option := w.Text
		if i+1 < len(words) && !strings.Contains(option, "=") {
			option += "=" + words[i+1].Text
		}
		if base == "srun" && noGPUs.MatchString(option) {
			d.at(d.command.At, option, "gives the step no GPU")
		}
	}
	for _, w := range shell.Loose(words) {
		d.at(w.At, "a word of "+base, "is known only when the script runs: "+w.Reason)
	}
	for i, w := range words {
		value := i > 0 && strings.HasPrefix(words[i-1].Text, "-") && !strings.Contains(words[i-1].Text, "=")
		if w.Many && w.Certainty < shell.Sure && !value { // $PROFILER python, srun $OPTIONS python
			place := spanOf(d.script, w.At)
			d.Add(draft.Doubt{File: place.File, Line: place.Line, Word: wordOf(d.script, w).Name(),
				Why: "may be another program, or its environment: " + w.Reason, Enlarges: true})
		}
	}
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(w.Text, "--env="), "--env "), "=")
		if w.Certainty < shell.Sure && w.Many && path.Base(words[0].Text) == "env" {
			place := spanOf(d.script, w.At)
			d.Add(draft.Doubt{File: place.File, Line: place.Line, Word: "the environment",
				Why: "is known only when the script runs: " + w.Reason, Enlarges: true})
			continue
		}
		// srun --export=ALL,ACCELERATE_USE_FSDP=1
		if strings.HasPrefix(name, "-") && throughEnvironment.MatchString(w.Text) {
			d.word(w.At, w.Text)
		}
		if ok && !strings.HasPrefix(name, "-") {
			d.variable(name, shell.Word{Text: value, Certainty: w.Certainty, Reason: w.Reason, At: w.At})
		}
	}
}

// launcherVariables are those that transformers and accelerate look for: whether one is set turns on sharding, or
// another precision (accelerate 1.12 state.py, utils/environment.py).
var launcherVariables = []string{"ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM",
	"ACCELERATE_USE_PARALLELISM_CONFIG", "ACCELERATE_MIXED_PRECISION"}

// stillVariables begin the names of variables that move nothing on a GPU, or what a reader looks at by itself.
var stillVariables = []string{"PYTORCH_", "NCCL_", "CUDA_", "HF_", "TRANSFORMERS_", "TORCH_", "WANDB_", "OMP_", "SLURM_",
	"MASTER_", "TOKENIZERS_", "MKL_"}

// variable notes a variable of the environment that may change what a GPU holds.
func (d *commandDoubts) variable(name string, value shell.Word) {
	if value.At.IsZero() {
		value.At = d.command.At
	}
	sure := value.Certainty == shell.Sure
	switch {
	case name == "CUDA_VISIBLE_DEVICES", name == "NVIDIA_VISIBLE_DEVICES", name == "HIP_VISIBLE_DEVICES",
		name == "ROCR_VISIBLE_DEVICES":
		switch {
		case !sure && value.Text == "": // 0,$MORE hides none
			d.at(value.At, name, "is known only when the script runs, and may hide all GPUs: "+value.Reason)
		case sure && (value.Text == "" || strings.HasPrefix(value.Text, "-") || value.Text == "none" ||
			value.Text == "void"):
			d.at(value.At, name, "hides all GPUs")
		}
	case name == "PYTHONPATH", name == "PYTHONSTARTUP":
		d.at(value.At, name, "may put other modules in the place of those that are known")
	case name == "LD_PRELOAD":
		if !sure || value.Text != "" && !strings.Contains(value.Text, "malloc") {
			d.at(value.At, name, "may change what is taken from the GPU")
		}
	case strings.HasPrefix(name, "ACCELERATE_"), strings.HasPrefix(name, "FSDP_"),
		strings.HasPrefix(name, "MEGATRON_LM_"), strings.HasPrefix(name, "PARALLELISM_CONFIG_"),
		strings.HasPrefix(name, "DEEPSPEED_"), name == "PYTORCH_NO_CUDA_MEMORY_CACHING", name == "ACCELERATE":
		if !sure || value.Text != "" && !strings.EqualFold(value.Text, "false") && value.Text != "0" {
			d.word(value.At, name)
		}
	default:
		for _, still := range stillVariables {
			if strings.HasPrefix(name, still) {
				return
			}
		}
		switch topic, _ := draft.TopicOf(name); topic {
		case "adapters and frozen weights", "quantisation", "sharding", "offload":
			d.word(value.At, name)
		}
	}
}

// environment looks at what the script and its user give to the program.
func (d *commandDoubts) environment(lookup func(string) (string, bool)) {
	c := d.command
	for _, a := range c.Env {
		d.variable(a.Name, a.Value)
	}
	if c.OpenEnv != "" {
		d.at(c.At, "the environment", "is not known: a variable may be "+c.OpenEnv)
	}
	if lookup == nil {
		return
	}
	for _, name := range launcherVariables {
		if _, own := c.Lookup(name); own {
			continue
		}
		if value, ok := lookup(name); ok {
			d.variable(name, shell.Word{Text: value, Certainty: shell.Sure})
		}
	}
}
