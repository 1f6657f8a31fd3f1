package submission

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// program is a Python program that a script starts.
type program struct {
	source  *Source
	script  *shell.Script
	command *shell.Command
	// name is the program's file, nameAt where it is named; args are the words behind it.
	name   string
	nameAt shell.Span
	args   []shell.Word
	// processes is how many the launcher in front of the program starts.
	processes int
	doubts    []Doubt
	// others are further documents that the job may mean: it is refused only if it fits in none.
	others []reading
}

// reading is another document that the same words may mean.
type reading struct {
	job map[string]any
	why string
}

// fileTools are programs to which a .py is a file like any other.
const fileTools = " cat sed awk cp mv ln ls rm touch chmod head tail grep wc diff cmp ed vi vim nano emacs tee " +
	"patch git tar rsync scp install perl dd stat file md5sum sha256sum " +
	"black ruff flake8 pylint mypy isort jq yq wget curl find echo "

// launched finds the Python program that a command starts. ok is false for commands that start none.
func launched(s *Source, script *shell.Script, c *shell.Command) (p *program, ok bool) {
	words, wrappers := c.Unwrap()
	at := slices.IndexFunc(words, func(w shell.Word) bool {
		return w.Certainty == shell.Sure && strings.HasSuffix(w.Text, ".py") && !strings.HasPrefix(w.Text, "-")
	})
	if at < 0 || at > 0 && words[0].Certainty == shell.Sure && listed(fileTools, path.Base(words[0].Text)) {
		return nil, false
	}
	p = &program{source: s, script: script, command: c, name: words[at].Text, nameAt: words[at].At, args: words[at+1:]}
	p.processes = processes(words[:at], s.Options)
	p.doubtRun()
	for _, w := range wrappers {
		p.wrapper(w)
	}
	p.launcher(words[:at])
	p.environment()
	return p, true
}

// read gives the text of a file that the program would read; nil where there is none.
func (p *program) read(name string) ([]byte, error) {
	text, err := p.script.Open(p.command, name)
	switch written := (*shell.RewrittenError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &written):
		return nil, unclear("%s:%d: %s is, or may be, written by the script before it is read "+
			"(%s)", p.file(written.By.At), written.By.At.Line, clip(name), written.By.How)
	case err != nil && !filepath.IsAbs(name) && p.command.Dir.Certainty < shell.Sure:
		return nil, unclear("%s:%d: nobody knows in which directory %s lies: %s", p.file(p.command.At),
			p.command.At.Line, clip(name), p.command.Dir.Reason)
	case err != nil:
		return nil, unclear("%s cannot be read: %v", clip(name), err)
	}
	return text, nil
}

// doubtRun notes why the program may not run, or why its failing may be meant.
func (p *program) doubtRun() {
	c := p.command
	at := Doubt{File: p.file(c.At), Line: c.At.Line, Word: path.Base(p.name)}
	if c.Runs == shell.Maybe {
		at.Why = "may not run: " + c.Why
		p.doubt(at)
	}
	if c.Guarded != "" {
		at.Why = "may fail without harm: " + c.Guarded
		p.doubt(at)
	}
}

// processes is how many a launcher starts; 1 where it starts only one. A number that cannot be told is taken for 2:
// what matters is that there are several.
func processes(launcher []shell.Word, o Options) int {
	several := false
	for i, w := range launcher {
		name, value, given := strings.Cut(strings.ReplaceAll(w.Text, "_", "-"), "=")
		switch path.Base(name) {
		case "--nproc-per-node", "--num-processes", "--num-gpus":
			sure := w.Certainty == shell.Sure
			if !given && i+1 < len(launcher) {
				value, sure = launcher[i+1].Text, launcher[i+1].Certainty == shell.Sure
			}
			if n, err := strconv.Atoi(value); err == nil && sure && n >= 1 && n <= 1<<20 {
				return n
			}
			several = true // "gpu", "auto" or a variable
		case "deepspeed", "accelerate": // all GPUs, or what a file in the home directory says
			several = true
		}
	}
	if several && o.Count() != 1 {
		return 2
	}
	return 1
}

// launcherWords are the options of launchers that say where and how often a program runs, and nothing of what a GPU
// holds. With = are those that stand alone.
var launcherWords = map[string]string{
	"python": "-u= -O= -OO= -B= -s= -S= -E= -I= -q= -v= -W -X",
	"torchrun": "nproc-per-node nnodes node-rank rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone= " +
		"max-restarts monitor-interval start-method role master-addr master-port " +
		"local-addr log-dir redirects tee use-env= local-ranks-filter logs-specs",
	"accelerate": "num-processes num-machines machine-rank main-process-ip main-process-port multi-gpu= gpu-ids " +
		"num-cpu-threads-per-process rdzv-backend rdzv-conf same-network= max-restarts monitor-interval " +
		"main-training-function debug= quiet= q= config-file mixed-precision dynamo-backend role log-dir tee",
	"deepspeed": "num-gpus num-nodes include exclude hostfile H master-port master-addr i e launcher no-local-rank= " +
		"no-ssh= ssh-port node-rank force-multi=",
}

// launcher looks at the words in front of the program.
func (p *program) launcher(words []shell.Word) {
	if len(words) == 0 {
		return
	}
	known, rest := "", words[1:]
	switch base := path.Base(words[0].Text); {
	case words[0].Certainty < shell.Sure:
		p.doubtValue(words[0], "the program in front of "+path.Base(p.name))
		return
	case strings.HasPrefix(base, "python"):
		known = "python"
		for i, w := range rest {
			if w.Text == "-m" && i+1 < len(rest) {
				p.options("python", rest[:i])
				words, rest = rest[i+1:], rest[i+2:]
				known = map[string]string{"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
					"accelerate.commands.launch": "accelerate",
					"deepspeed.launcher.runner":  "deepspeed", "deepspeed": "deepspeed"}[words[0].Text]
				break
			}
		}
	case base == "torchrun" || base == "deepspeed":
		known = base
	case base == "accelerate" && len(rest) > 0 && rest[0].Text == "launch", base == "accelerate-launch":
		known = "accelerate"
		if base == "accelerate" {
			rest = rest[1:]
		}
	}
	if known == "" {
		p.doubtWord(words[0].At, words[0].Text)
		return
	}
	p.options(known, rest)
	if known == "accelerate" {
		p.accelerate(rest)
	}
}

// options notes the options of a launcher that are not known.
func (p *program) options(of string, words []shell.Word) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.Certainty < shell.Sure {
			p.doubtValue(w, "an option of the launcher")
			continue
		}
		if !strings.HasPrefix(w.Text, "-") {
			p.doubtWord(w.At, w.Text)
			continue
		}
		name, _, given := strings.Cut(w.Text, "=")
		if of != "python" {
			name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		}
		alone, takes := false, false
		for listed := range strings.FieldsSeq(launcherWords[of]) {
			bare, flag := strings.CutSuffix(listed, "=")
			alone, takes = alone || flag && bare == name, takes || !flag && bare == name
		}
		switch {
		case takes && !given:
			i++ // its value says nothing of what a GPU holds, or is looked at by accelerate
		case takes, alone:
		default:
			p.doubtWord(w.At, w.Text)
		}
	}
}

// accelerateKeys are those of accelerate's file that say where and how often a program runs.
const accelerateKeys = " compute_environment debug downcast_bf16 enable_cpu_affinity gpu_ids machine_rank " +
	"main_process_ip main_process_port main_training_function num_machines num_processes " +
	"rdzv_backend same_network tpu_env tpu_use_cluster tpu_use_sudo tpu_name tpu_zone commands command_file "

// accelerate follows the launcher's own file. Without one it takes that of the user's home directory, which may turn
// on sharding or another precision.
func (p *program) accelerate(words []shell.Word) {
	file := shell.Word{}
	for i, w := range words {
		name, value, given := strings.Cut(strings.ReplaceAll(w.Text, "-", "_"), "=")
		next := w
		if !given && i+1 < len(words) {
			next = words[i+1]
			value = next.Text
		} else if given {
			_, value, _ = strings.Cut(w.Text, "=")
		}
		switch strings.TrimLeft(name, "_") {
		case "config_file":
			file = next
			file.Text = value
		case "mixed_precision":
			p.mixedPrecision(p.file(w.At), w.At.Line, value)
		case "dynamo_backend":
			if !strings.EqualFold(value, "no") {
				p.doubtWord(w.At, w.Text)
			}
		}
	}
	if file.Text == "" {
		p.doubt(Doubt{File: p.file(p.command.At), Line: p.command.At.Line, Word: "accelerate launch",
			Why: "without --config_file takes its settings from the user's home directory, which is not read"})
		return
	}
	text, err := p.read(file.Text)
	if err != nil || text == nil || file.Certainty < shell.Sure {
		p.doubt(Doubt{File: p.file(file.At), Line: file.At.Line, Word: "--config_file " + file.Text,
			Why: "cannot be read"})
		return
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		p.doubt(Doubt{File: file.Text, Why: "is not YAML"})
		return
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value, line := settings[key], lineOf(text, key)
		switch {
		case key == "distributed_type" && (value == "NO" || value == "MULTI_GPU" || value == false):
		case key == "mixed_precision":
			word, isText := value.(string)
			if !isText {
				word = "no"
			}
			p.mixedPrecision(file.Text, line, word)
		case key == "use_cpu" && value == false:
		case strings.Contains(accelerateKeys, " "+key+" "):
		default:
			p.doubtKey(file.Text, line, key)
		}
	}
}

// mixedPrecision is accelerate's word for autocast, which programs that say nothing of their own follow.
func (p *program) mixedPrecision(file string, line int, value string) {
	for _, w := range p.args {
		if name, _, _ := strings.Cut(w.Text, "="); name == "--"+value {
			return
		}
	}
	if value != "no" {
		p.doubtKey(file, line, "mixed_precision "+value)
	}
}

// throughEnvironment finds variables of launchers in an option that sets several.
var throughEnvironment = regexp.MustCompile(`ACCELERATE_|FSDP_|DEEPSPEED_|MEGATRON_LM_|CUDA_VISIBLE_DEVICES|PYTHONPATH|LD_PRELOAD`)

// wrapper looks for the environment that a wrapper sets, and for words about memory.
func (p *program) wrapper(words []shell.Word) {
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(w.Text, "--env="), "--env "), "=")
		if w.Certainty < shell.Sure && w.Many && path.Base(words[0].Text) == "env" {
			p.doubtValue(w, "the environment")
			continue
		}
		// srun --export=ALL,ACCELERATE_USE_FSDP=1
		if strings.HasPrefix(name, "-") && throughEnvironment.MatchString(w.Text) {
			p.doubtWord(w.At, w.Text)
		}
		if ok && !strings.HasPrefix(name, "-") {
			value := shell.Word{Text: value, Certainty: w.Certainty, Reason: w.Reason, At: w.At}
			p.variable(name, value)
		}
	}
}

// variable notes a variable of the environment that may change what a GPU holds.
func (p *program) variable(name string, value shell.Word) {
	if value.At.IsZero() {
		value.At = p.command.At
	}
	switch {
	case name == "CUDA_VISIBLE_DEVICES", name == "NVIDIA_VISIBLE_DEVICES":
		if value.Certainty == shell.Sure && (value.Text == "" || strings.HasPrefix(value.Text, "-") ||
			value.Text == "none" || value.Text == "void") {
			p.doubt(Doubt{File: p.file(value.At), Line: value.At.Line, Word: name, Why: "hides all GPUs"})
		}
	case name == "PYTHONPATH", name == "PYTHONSTARTUP":
		p.doubt(Doubt{File: p.file(value.At), Line: value.At.Line, Word: name, Why: "may put other modules in the " +
			"place of those that are known"})
	case name == "LD_PRELOAD":
		if value.Certainty < shell.Sure || value.Text != "" && !strings.Contains(value.Text, "malloc") {
			p.doubt(Doubt{File: p.file(value.At), Line: value.At.Line, Word: name,
				Why: "may change what is taken from the GPU"})
		}
	case strings.HasPrefix(name, "ACCELERATE_"), strings.HasPrefix(name, "FSDP_"),
		strings.HasPrefix(name, "MEGATRON_LM_"), strings.HasPrefix(name, "PARALLELISM_CONFIG_"),
		strings.HasPrefix(name, "DEEPSPEED_"), name == "PYTORCH_NO_CUDA_MEMORY_CACHING", name == "ACCELERATE":
		if value.Certainty < shell.Sure || value.Text != "" && !strings.EqualFold(value.Text, "false") &&
			value.Text != "0" {
			p.doubtWord(value.At, name)
		}
	case strings.HasPrefix(name, "PYTORCH_"), strings.HasPrefix(name, "NCCL_"), strings.HasPrefix(name, "CUDA_"),
		strings.HasPrefix(name, "HF_"), strings.HasPrefix(name, "TRANSFORMERS_"), strings.HasPrefix(name, "TORCH_"),
		strings.HasPrefix(name, "WANDB_"), strings.HasPrefix(name, "OMP_"), strings.HasPrefix(name, "SLURM_"),
		strings.HasPrefix(name, "MASTER_"), strings.HasPrefix(name, "TOKENIZERS_"), strings.HasPrefix(name, "MKL_"):
	default:
		switch topic, _ := readers.TopicOf(name); topic {
		case "adapters and frozen weights", "quantisation", "sharding", "offload":
			p.doubtWord(value.At, name)
		}
	}
}

// environment looks at what the script and its user give to the program.
func (p *program) environment() {
	for _, a := range p.command.Env {
		p.variable(a.Name, a.Value)
	}
	if why := p.command.OpenEnv; why != "" {
		p.doubt(Doubt{File: p.file(p.command.At), Line: p.command.At.Line, Word: "the environment",
			Why: "is not known: a variable may be " + why})
	}
	if p.source.Lookup == nil {
		return
	}
	for _, name := range []string{"ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM",
		"ACCELERATE_USE_PARALLELISM_CONFIG", "ACCELERATE_MIXED_PRECISION"} {
		if _, own := p.command.Lookup(name); own {
			continue
		}
		if value, ok := p.source.Lookup(name); ok {
			p.variable(name, shell.Word{Text: value, Certainty: shell.Sure})
		}
	}
}

// readScript follows the script.
func readScript(s *Source) (*shell.Script, error) {
	in := shell.Input{Name: s.name(), Text: s.Script, Dir: s.Dir, ReadFile: s.ReadFile}
	if s.SubmitDir != "" {
		in.Env = map[string]string{"SLURM_SUBMIT_DIR": s.SubmitDir}
	}
	script, err := shell.Read(context.Background(), in)
	switch limit := (*shell.LimitError)(nil); {
	case errors.As(err, &limit):
		return nil, unclear("the script is %v", err)
	case err != nil: // in another language, or not even bash understands it
		return nil, ErrNoJob
	}
	return script, nil
}
