package readers

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trainer"
)

// noLaunchers are programs to which what stands behind them is a text or a file like any other.
var noLaunchers = setting.SetOf(strings.Fields("echo printf cat sed awk cp mv ln ls rm touch chmod chown head tail grep wc diff cmp ed " +
	"vi vim nano emacs tee patch git tar zip unzip rsync scp install perl dd stat file md5sum sha256sum test [ [[ true false : " +
	"black ruff flake8 pylint mypy isort pytest jq yq wget curl find which type command export set read source . cd mkdir " +
	"pip pip3 apt apt-get module sbatch scancel squeue kill pkill less more history alias shellcheck")...)

// launchers are programs with which a launch begins, wherever they stand; so do the tools' own.
var launchers = setting.SetOf("torchrun", "accelerate", "accelerate-launch", "deepspeed", "composer", "tune")

func starts(program string) bool {
	return launchers[program] || slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Command == program })
}

// named programs of commands that the script only asks for: $(which torchrun), $(command -v python), ${PYTHON}.
var namedProgram = regexp.MustCompile(`(?i)(python|torchrun|accelerate|deepspeed)[0-9.]*`)

// behind reads a command whose first words nobody knows: a container, a function of the site, a variable that holds the
// interpreter. They are taken for a launcher that changes nothing of what stands behind them, which is an assumption
// and a doubt. Nil where what stands behind them is no training.
func (in *inbox) behind(c launch.Command) *tool.Job {
	if len(c.Words) == 0 || c.Words[0].Known() && noLaunchers[path.Base(c.Words[0].Text)] {
		return nil
	}
	for i, w := range c.Words {
		rest, ok := launchAt(c.Words, i)
		if ok {
			inner := c
			inner.Words = rest
			inner.Wrappers = slices.Clone(c.Wrappers)
			for _, front := range c.Words[:i] {
				inner.Wrappers = append(inner.Wrappers, path.Base(front.Text))
			}
			if l, ok := launch.Parse(inner); ok {
				shards.ReadFile(l)
				if r := in.job(l); r != nil {
					assumeHead(r, c.Words[:max(i, 1)])
					return r
				}
			}
		}
		if w.Known() && strings.HasSuffix(w.Text, ".py") {
			break // what stands behind a program are its words
		}
	}
	return nil
}

// launchAt are the words of a launch that begins with a word: a launcher's name, a variable that holds one, or a
// program of Python, which an interpreter in front of it starts.
func launchAt(words []argv.Word, i int) (found []argv.Word, ok bool) {
	w := words[i]
	name := path.Base(w.Text)
	switch {
	case !w.Known():
		m := namedProgram.FindStringSubmatch(w.Shown)
		if m == nil {
			return nil, false
		}
		return append([]argv.Word{launch.Named(w.Fixed(), strings.ToLower(m[1]))}, words[i+1:]...), true
	case i == 0:
		return nil, false // it was read already
	case launch.PythonName.MatchString(name) || starts(name):
		return words[i:], true
	case strings.HasSuffix(name, ".py"):
		return append([]argv.Word{launch.Named(w.Fixed(), "python")}, words[i:]...), true
	}
	return nil, false
}

// assumeHead says what was taken of the words in front of a launch.
func assumeHead(r *tool.Job, head []argv.Word) {
	names := make([]string, 0, len(head))
	for _, w := range head {
		names = append(names, w.Name())
	}
	text := draft.Clip(strings.Join(names, " "))
	r.Out.Settle("", "%s starts what stands behind it, and changes nothing of it", text)
	r.Out.Doubts.Add(draft.Doubt{File: r.At.File, Line: r.At.Line, Word: text,
		Why: "is no program that is known: it is taken to start what stands behind it"})
}

// trains are names of programs that train, as far as a name tells.
var trains = regexp.MustCompile(`(?i)(^|[/_.-])(pre)?(train|finetune|fine_tune|sft|dpo|grpo|lora|qlora|run_[a-z]+)`)

// stranger remembers a program that nobody knows. likely says that it trains, as far as its launcher, its name and its
// words tell.
func (in *inbox) stranger(l *launch.Launch) {
	if l.Launcher == "" || len(in.unread) > 64 {
		return
	}
	name := l.Program.Text
	likely := !trainer.Trainless.MatchString(l.LastName()) && (l.Launcher != "python" || trains.MatchString(path.Base(name)) ||
		slices.ContainsFunc(l.Args, func(w argv.Word) bool {
			key, _, ok := w.Key()
			return ok && slices.Contains(trainer.Arguments, key)
		}))
	in.unread = append(in.unread, stranger{likely, draft.Refusal{File: l.At.File, Line: l.At.Line, Code: "unknown-program",
		Say: fmt.Sprintf("%s is a program that no reader knows, or that trains nothing: say what it trains "+
			"in a job document", cmp.Or(name, l.Program.Name()))}})
}

// stranger is a program that was started and not read.
type stranger struct {
	likely bool
	draft.Refusal
}

// unknownCommand remembers a command whose program only the environment knows, where its words are those of a training.
func (in *inbox) unknownCommand(c launch.Command) {
	if len(c.Words) == 0 || c.Words[0].Known() || len(in.unread) > 64 ||
		!slices.ContainsFunc(c.Words, func(w argv.Word) bool {
			key, _, ok := w.Key()
			return ok && slices.Contains(trainer.Arguments, key) || strings.HasSuffix(w.Text, ".py")
		}) {
		return
	}
	in.unread = append(in.unread, stranger{true, draft.Refusal{File: c.At.File, Line: c.At.Line, Code: "unknown-program",
		Say: fmt.Sprintf("which program %s starts is known only when the script runs: %s", c.Words[0].Name(),
			c.Words[0].Unknown)}})
}
