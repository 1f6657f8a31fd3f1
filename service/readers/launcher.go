package readers

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// launch is a command line taken apart: who starts how many processes of which program with which words.
type launch struct {
	command
	// launcher is python, torchrun, accelerate, deepspeed, composer, tune, or "" for a program that is started itself.
	launcher string
	// own are the launcher's options.
	own *setting.Settings
	// accelerate is the file that accelerate launch reads, with its command line's options over it.
	accelerate *setting.Settings
	// program is the file, module or command; module is true after -m.
	program word
	module  bool
	args    []word
	// counted is the number of processes, for tools that start them themselves; nil otherwise.
	counted func() count
	// problems are refusals and questions that came up on the way.
	problems []func(*draft)
	// notes are assumptions about files.
	notes []string
}

// Switches of launchers: options that take no value. Everything else that begins with a dash takes one.
// torch 2.9 torch/distributed/run.py get_args_parser; accelerate 1.12 commands/launch.py launch_command_parser;
// DeepSpeed 0.18 launcher/runner.py parse_args; composer 0.32 cli/launcher.py.
var (
	torchrunSwitches = set("standalone", "m", "module", "no_python", "run_path", "use_env", "start_method_spawn")
	// accelerate's are those with action store_true.
	accelerateSwitches = set("m", "module", "no_python", "debug", "cpu", "multi_gpu", "tpu", "ipex", "use_xpu",
		"use_mps_device", "use_deepspeed", "use_fsdp",
		"use_tp", "use_megatron_lm", "use_parallelism_config", "quiet", "q", "enable_cpu_affinity", "same_network",
		"use_cpu", "tpu_cluster", "tpu_use_sudo", "no_tpu_cluster")
	deepspeedSwitches = set("no_python", "module", "m", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi",
		"save_pid", "enable_each_rank_log_off", "bind_cores_to_rank", "elastic_training")
	pythonSwitches = regexp.MustCompile(`^-[bBdEhiIOqsSuvVxP]+$`)
	pythonName     = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)
)

// launcherCounts are the options of launchers that say how many processes of what there are; they are read where the
// GPUs are counted.
var launcherCounts = strings.Fields("nproc_per_node nproc_per_gpu nnodes num_processes num_machines num_gpus num_nodes " +
	"include exclude i e n nproc world_size multi_gpu standalone m module module_mode no_python run_path use_env " +
	"command_mode c config_file compute_environment downcast_bf16 tpu_* commands command_file no_local_rank force_multi")

// launcherWords lists the launcher's options that nobody read, and asks about those that may change the memory.
func (r *reading) launcherWords() {
	s := r.own
	if r.accelerate != nil {
		s = r.accelerate
	}
	if s == nil {
		return
	}
	s.Read(launcherCounts...)
	for word := range launcherStill[r.launcher] {
		s.Read(strings.TrimSuffix(word, "="))
	}
	r.unread(s)
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// modules that are launchers.
var launcherModules = map[string]string{
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
	"torch.distributed.elastic.run": "torchrun",
	"accelerate.commands.launch":    "accelerate", "deepspeed.launcher.runner": "deepspeed", "deepspeed": "deepspeed",
	"composer.cli": "composer",
}

// parseLaunch takes a command apart; ok is false where nothing is started that could train.
func parseLaunch(c command) (l *launch, ok bool) {
	l = &launch{command: c, own: setting.New()}
	words := c.words
	for range 4 { // torchrun … -m accelerate.commands.launch … is not seen in the wild, but is legal
		if len(words) == 0 || !words[0].known() {
			return nil, false
		}
		name := path.Base(words[0].Text)
		switch {
		case pythonName.MatchString(name):
			rest, module := python(words[1:])
			if len(rest) == 0 {
				return nil, false
			}
			if l.launcher == "" {
				l.launcher = "python"
			}
			launcher, isLauncher := launcherModules[rest[0].Text]
			if !module && (name == "torchrun" || path.Base(rest[0].Text) == "torchrun") {
				launcher, isLauncher = "torchrun", true
			}
			if (module || launcher == "torchrun") && isLauncher {
				words = rest
				words[0] = named(words[0], launcher)
				continue
			}
			l.program, l.module, l.args = rest[0], module, rest[1:]
			return l, true
		case name == "torchrun":
			words = l.take("torchrun", words[1:], torchrunSwitches)
		case name == "accelerate":
			if len(words) < 2 || words[1].Text != "launch" {
				return nil, false
			}
			words = l.take("accelerate", words[2:], accelerateSwitches)
		case name == "accelerate-launch":
			words = l.take("accelerate", words[1:], accelerateSwitches)
		case name == "deepspeed" || name == "deepspeed.pt" || name == "ds":
			words = l.take("deepspeed", words[1:], deepspeedSwitches)
		case name == "composer":
			words = l.take("composer", words[1:], set("m", "module_mode", "c", "command_mode", "v", "verbose"))
		case name == "tune" && len(words) > 1 && words[1].Text == "run":
			l.launcher = "tune"
			words = l.take("tune", words[2:], torchrunSwitches)
		default:
			l.program, l.args = words[0], words[1:]
			return l, true
		}
		if len(words) == 0 {
			return nil, false
		}
		if l.own.On("no_python", "run_path") {
			continue // a command of its own comes next
		}
		l.module = l.own.On("m", "module", "module_mode")
		l.program, l.args = words[0], words[1:]
		return l, true
	}
	return nil, false
}

func named(w word, name string) word {
	w.Text, w.Any = name, name
	return w
}

// take reads a launcher's own options, up to the first word that is none, and returns what follows.
func (l *launch) take(launcher string, words []word, switches map[string]bool) []word {
	l.launcher = launcher
	end := 0
	for end < len(words) {
		w := words[end]
		if w.open() {
			l.openWord(w)
			end++
			continue
		}
		if !isOption(w.Text) {
			break
		}
		key, _, hasValue := strings.Cut(w.Text, "=")
		end++
		if !hasValue && !switches[optionKey(key)] {
			end++
		}
		if optionKey(key) == "m" || optionKey(key) == "module" {
			break
		}
	}
	end = min(end, len(words))
	own, _, _ := options(words[:end], switches)
	l.own.Over(own)
	return words[end:]
}

// openWord remembers that a word may hold more options of the launcher.
func (l *launch) openWord(w word) {
	l.problems = append(l.problems, func(d *draft) {
		d.assumeOf(Assumption{Uncertain: true, tainted: true,
			Say: fmt.Sprintf("nothing that changes memory is in %s (%s)", w.name(), w.Unknown+w.Assumed)})
	})
}

// python strips python's own options; module is true after -m.
func python(words []word) (rest []word, module bool) {
	for i := 0; i < len(words); i++ {
		switch t := words[i].Text; {
		case words[i].mayBeGone():
		case !words[i].known() && !strings.HasSuffix(t, ".py"):
			return nil, false
		case t == "-m":
			return words[min(i+1, len(words)):], true
		case t == "-c" || t == "-":
			return nil, false
		case t == "-W" || t == "-X":
			i++
		case pythonSwitches.MatchString(t) || strings.HasPrefix(t, "-X") || strings.HasPrefix(t, "-W"):
		case strings.HasPrefix(t, "-"):
			return nil, false
		default:
			return words[i:], false
		}
	}
	return nil, false
}
