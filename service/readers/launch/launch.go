// Package launch takes commands of scripts apart: which program they start, as how many processes, with which words,
// in which environment, and what stands between them and a judgement.
package launch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Launch is a command line taken apart: who starts how many processes of which program with which words.
type Launch struct {
	Command
	// Launcher is python, torchrun, accelerate, deepspeed, composer, tune, or "" for a program that is started itself.
	Launcher string
	// Own are the launcher's options.
	Own *setting.Settings
	// Accelerate is the file that accelerate launch reads, with its command line's options over it.
	Accelerate *setting.Settings
	// Program is the file, module or command; module is true after -m.
	Program argv.Word
	Module  bool
	Args    []argv.Word
	// Counted is the number of processes, for tools that start them themselves; nil otherwise.
	Counted func() Count
	// Problems are refusals and questions that came up on the way.
	Problems []func(*draft.Draft)
	// Notes are assumptions about files.
	Notes []string
}

// Clone is the launch again, to which one tool may add without the next one seeing it.
func (l *Launch) Clone() *Launch {
	c := *l
	c.Problems = slices.Clone(l.Problems)
	return &c
}

// Switches of launchers: options that take no value. Everything else that begins with a dash takes one.
// torch 2.9 torch/distributed/run.py get_args_parser; accelerate 1.12 commands/launch.py launch_command_parser;
// DeepSpeed 0.18 launcher/runner.py parse_args; composer 0.32 cli/launcher.py.
var (
	torchrunSwitches = setting.SetOf("standalone", "m", "module", "no_python", "run_path", "use_env", "start_method_spawn")
	// accelerate's are those with action store_true.
	accelerateSwitches = setting.SetOf("m", "module", "no_python", "debug", "cpu", "multi_gpu", "tpu", "ipex", "use_xpu",
		"use_mps_device", "use_deepspeed", "use_fsdp",
		"use_tp", "use_megatron_lm", "use_parallelism_config", "quiet", "q", "enable_cpu_affinity", "same_network",
		"use_cpu", "tpu_cluster", "tpu_use_sudo", "no_tpu_cluster")
	deepspeedSwitches = setting.SetOf("no_python", "module", "m", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi",
		"save_pid", "enable_each_rank_log_off", "bind_cores_to_rank", "elastic_training")
	pythonSwitches = regexp.MustCompile(`^-[bBdEhiIOqsSuvVxP]+$`)
	PythonName     = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)
)

// modules that are launchers.
var launcherModules = map[string]string{
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
	"torch.distributed.elastic.run": "torchrun",
	"accelerate.commands.launch":    "accelerate", "deepspeed.launcher.runner": "deepspeed", "deepspeed": "deepspeed",
	"composer.cli": "composer",
}

// Parse takes a command apart; ok is false where nothing is started that could train.
func Parse(c Command) (l *Launch, ok bool) {
	l = &Launch{Command: c, Own: setting.New()}
	words := c.Words
	for range 4 { // torchrun … -m accelerate.commands.launch … is not seen in the wild, but is legal
		if len(words) == 0 || !words[0].Known() {
			return nil, false
		}
		name := path.Base(words[0].Text)
		switch {
		case PythonName.MatchString(name):
			rest, module := python(words[1:])
			if len(rest) == 0 {
				return nil, false
			}
			if l.Launcher == "" {
				l.Launcher = "python"
			}
			launcher, isLauncher := launcherModules[rest[0].Text]
			if !module && (name == "torchrun" || path.Base(rest[0].Text) == "torchrun") {
				launcher, isLauncher = "torchrun", true
			}
			if (module || launcher == "torchrun") && isLauncher {
				words = rest
				words[0] = Named(words[0], launcher)
				continue
			}
			l.Program, l.Module, l.Args = rest[0], module, rest[1:]
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
			words = l.take("composer", words[1:], setting.SetOf("m", "module_mode", "c", "command_mode", "v", "verbose"))
		case name == "tune" && len(words) > 1 && words[1].Text == "run":
			l.Launcher = "tune"
			words = l.take("tune", words[2:], torchrunSwitches)
		default:
			l.Program, l.Args = words[0], words[1:]
			return l, true
		}
		if len(words) == 0 {
			return nil, false
		}
		if l.Own.On("no_python", "run_path") {
			continue // a command of its own comes next
		}
		l.Module = l.Own.On("m", "module", "module_mode")
		l.Program, l.Args = words[0], words[1:]
		return l, true
	}
	return nil, false
}

// Named is a word with another text.
func Named(w argv.Word, name string) argv.Word {
	w.Text, w.Any = name, name
	return w
}

// take reads a launcher's own options, up to the first word that is none, and returns what follows.
func (l *Launch) take(launcher string, words []argv.Word, switches map[string]bool) []argv.Word {
	l.Launcher = launcher
	end := 0
	for end < len(words) {
		w := words[end]
		if w.Open() {
			l.OpenWord(w)
			end++
			continue
		}
		if !argv.IsOption(w.Text) {
			break
		}
		key, _, hasValue := strings.Cut(w.Text, "=")
		end++
		if !hasValue && !switches[argv.OptionKey(key)] {
			end++
		}
		if argv.OptionKey(key) == "m" || argv.OptionKey(key) == "module" {
			break
		}
	}
	end = min(end, len(words))
	own, _, _ := argv.Options(words[:end], switches)
	l.Own.Over(own)
	return words[end:]
}

// OpenWord remembers that a word may hold more options of the launcher.
func (l *Launch) OpenWord(w argv.Word) {
	l.Problems = append(l.Problems, func(d *draft.Draft) {
		d.AssumeOf(draft.Assumption{Uncertain: true, Tainted: true,
			Say: fmt.Sprintf("nothing that changes memory is in %s (%s)", w.Name(), w.Unknown+w.Assumed)})
	})
}

// python strips python's own options; module is true after -m.
func python(words []argv.Word) (rest []argv.Word, module bool) {
	for i := 0; i < len(words); i++ {
		switch t := words[i].Text; {
		case words[i].MayBeGone():
		case !words[i].Known() && !strings.HasSuffix(t, ".py"):
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

// Alone is the launch of a file that was handed over without a command.
func Alone(f *source.Files) *Launch {
	return &Launch{Command: Command{
		Files: f, Dir: f.Source.Dir, Env: func(string) (argv.Word, bool) { return argv.Word{}, false },
		Open: func(name string, dirs ...string) (string, []byte, error) {
			full, text, ok := f.Find(name, dirs...)
			if !ok {
				return "", nil, source.Missing(name)
			}
			return full, text, nil
		},
	}, Own: setting.New()}
}
