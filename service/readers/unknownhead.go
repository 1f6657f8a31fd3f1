package readers

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// noLaunchers are programs to which what stands behind them is a text or a file like any other.
var noLaunchers = set(strings.Fields("echo printf cat sed awk cp mv ln ls rm touch chmod chown head tail grep wc diff cmp ed " +
	"vi vim nano emacs tee patch git tar zip unzip rsync scp install perl dd stat file md5sum sha256sum test [ [[ true false : " +
	"black ruff flake8 pylint mypy isort pytest jq yq wget curl find which type command export set read source . cd mkdir " +
	"pip pip3 apt apt-get module sbatch scancel squeue kill pkill less more history alias shellcheck")...)

// starters are programs with which a launch begins, wherever they stand.
var starters = set("torchrun", "accelerate", "accelerate-launch", "deepspeed", "composer", "tune", "trl", "axolotl",
	"llamafactory-cli", "swift", "litgpt")

// named programs of commands that the script only asks for: $(which torchrun), $(command -v python), ${PYTHON}.
var namedProgram = regexp.MustCompile(`(?i)(python|torchrun|accelerate|deepspeed)[0-9.]*`)

// behind reads a command whose first words nobody knows: a container, a function of the site, a variable that holds the
// interpreter. They are taken for a launcher that changes nothing of what stands behind them, which is an assumption
// and a doubt. Nil where what stands behind them is no training.
func (in *inbox) behind(c command) *reading {
	if len(c.words) == 0 || c.words[0].known() && noLaunchers[path.Base(c.words[0].Text)] {
		return nil
	}
	for i, w := range c.words {
		rest, ok := launchAt(c.words, i)
		if ok {
			inner := c
			inner.words = rest
			inner.wrappers = slices.Clone(c.wrappers)
			for _, front := range c.words[:i] {
				inner.wrappers = append(inner.wrappers, path.Base(front.Text))
			}
			if l, ok := parseLaunch(inner); ok {
				readAccelerateFile(l)
				if r := in.job(l); r != nil {
					r.assumeHead(c.words[:max(i, 1)])
					return r
				}
			}
		}
		if w.known() && strings.HasSuffix(w.Text, ".py") {
			break // what stands behind a program are its words
		}
	}
	return nil
}

// launchAt are the words of a launch that begins with a word: a launcher's name, a variable that holds one, or a
// program of Python, which an interpreter in front of it starts.
func launchAt(words []word, i int) (found []word, ok bool) {
	w := words[i]
	name := path.Base(w.Text)
	switch {
	case !w.known():
		m := namedProgram.FindStringSubmatch(w.shown)
		if m == nil {
			return nil, false
		}
		return append([]word{named(w.fixed(), strings.ToLower(m[1]))}, words[i+1:]...), true
	case i == 0:
		return nil, false // it was read already
	case pythonName.MatchString(name) || starters[name]:
		return words[i:], true
	case strings.HasSuffix(name, ".py"):
		return append([]word{named(w.fixed(), "python")}, words[i:]...), true
	}
	return nil, false
}

// fixed is a word of which nothing is open.
func (w word) fixed() word {
	return word{Value: setting.Value{Origin: w.Origin}}
}

// assumeHead says what was taken of the words in front of a launch.
func (r *reading) assumeHead(head []word) {
	names := make([]string, 0, len(head))
	for _, w := range head {
		names = append(names, w.name())
	}
	text := clip(strings.Join(names, " "))
	r.d.settle("", "%s starts what stands behind it, and changes nothing of it", text)
	r.d.doubts.add(Doubt{File: r.at.File, Line: r.at.Line, Word: text,
		Why: "is no program that is known: it is taken to start what stands behind it"})
}

// trains are names of programs that train, as far as a name tells.
var trains = regexp.MustCompile(`(?i)(^|[/_.-])(pre)?(train|finetune|fine_tune|sft|dpo|grpo|lora|qlora|run_[a-z]+)`)

// stranger remembers a program that nobody knows. likely says that it trains, as far as its launcher, its name and its
// words tell.
func (in *inbox) stranger(l *launch) {
	if l.launcher == "" || len(in.unread) > 64 {
		return
	}
	name := l.program.Text
	likely := !trainless.MatchString(l.lastName()) && (l.launcher != "python" || trains.MatchString(path.Base(name)) ||
		slices.ContainsFunc(l.args, func(w word) bool {
			key, _, ok := w.key()
			return ok && slices.Contains(trainerArguments, key)
		}))
	in.unread = append(in.unread, stranger{likely, Refusal{File: l.at.File, Line: l.at.Line, Code: "unknown-program",
		Say: fmt.Sprintf("%s is a program that no reader knows, or that trains nothing: say what it trains "+
			"in a job document", cmp.Or(name, l.program.name()))}})
}

// stranger is a program that was started and not read.
type stranger struct {
	likely bool
	Refusal
}

// unknownCommand remembers a command whose program only the environment knows, where its words are those of a training.
func (in *inbox) unknownCommand(c command) {
	if len(c.words) == 0 || c.words[0].known() || len(in.unread) > 64 ||
		!slices.ContainsFunc(c.words, func(w word) bool {
			key, _, ok := w.key()
			return ok && slices.Contains(trainerArguments, key) || strings.HasSuffix(w.Text, ".py")
		}) {
		return
	}
	in.unread = append(in.unread, stranger{true, Refusal{File: c.at.File, Line: c.at.Line, Code: "unknown-program",
		Say: fmt.Sprintf("which program %s starts is known only when the script runs: %s", c.words[0].name(),
			c.words[0].Unknown)}})
}
