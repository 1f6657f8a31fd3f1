package submission

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// ownCommands are commands of tools that do what their settings say and nothing else; every other program may hold code
// of the user's. Commands that start accelerate are not among them: it takes its settings from the user's home where no
// file is named.
var ownCommands = map[string]bool{"llamafactory-cli": true, "litgpt": true, "swift": true}

// tools looks for a job of a tool that package readers knows and this one does not: axolotl's, LLaMA-Factory's,
// torchtune's. What the readers assume, ask or leave unread is a doubt, and so is everything around the command.
func (f *Found) tools(ctx context.Context, s *Source) error {
	name := s.name()
	if s.Name == "" {
		name = "script.sh"
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join("/", s.Dir, path.Base(filepath.ToSlash(name)))
	}
	answer, err := readers.Read(ctx, readers.Source{
		Files: []string{name}, Dir: s.Dir, HasModel: s.HasModel, Pictures: s.Pictures,
		ReadFile: func(file string) ([]byte, error) {
			switch {
			case file == name:
				return s.Script, nil
			case s.Dir == "" && !filepath.IsAbs(file):
				return nil, fs.ErrNotExist // nobody knows where that is
			}
			return s.ReadFile(file)
		},
	})
	if err != nil {
		return unclear("%v", err)
	}
	if len(answer.Jobs) == 0 {
		for _, r := range answer.Refusals {
			if r.Code != "no-job" && r.Code != "unknown-program" && r.Code != "unknown-file" {
				return unclear("%s", r.String())
			}
		}
		return ErrNoJob
	}
	job := answer.Jobs[0]
	f.More = len(answer.Jobs) - 1 + len(answer.Refusals)
	if len(job.Questions) > 0 {
		q := job.Questions[0]
		reason := q.Ask
		if q.Why != "" {
			reason += " (" + q.Why + ")"
		}
		if more := len(job.Questions) - 1; more > 0 {
			reason += fmt.Sprintf(" and %d more things that no file says", more)
		}
		return unclear("%s", reason)
	}
	f.Document, f.Inferred = job.Document, true
	f.From = job.Reader + "'s settings"
	if job.Command != nil {
		f.From = fmt.Sprintf("%s:%d, read as %s's", job.Command.File, job.Command.Line, job.Reader)
	}
	f.Doubts = s.toolDoubts(job)
	if least := job.Least(); least != nil {
		f.Others = append(f.Others, Reading{least, "what no file says, such as the length of the samples, may be so " +
			"small that it fits"})
	} else {
		f.Doubts = append(f.Doubts, Doubt{File: name, Why: "what it needs at the least cannot be told"})
	}
	return nil
}

// toolDoubts are all that stands between a job of a tool and a denial.
func (s *Source) toolDoubts(job readers.Job) []Doubt {
	var doubts []Doubt
	for _, word := range job.Ignored {
		d := Doubt{File: word.File, Line: word.Line, Word: word.Key, Why: "is not understood"}
		if topic, enlarges := topicOf(word.Key); topic != "" {
			d.Why, d.Enlarges = "is about "+topic+", and is not understood", enlarges
		}
		doubts = append(doubts, d)
	}
	for _, a := range job.Assumptions {
		doubts = append(doubts, Doubt{File: s.name(), Why: a.Say, Enlarges: a.Uncertain})
	}
	at := job.Command
	if at == nil {
		return append(doubts, Doubt{File: s.name(), Why: "no command is known that starts it"})
	}
	script, err := readScript(s)
	if err != nil {
		return append(doubts, Doubt{File: at.File, Line: at.Line, Why: "cannot be read again"})
	}
	p := program{source: s, script: script}
	found := false
	for i := range script.Commands {
		c := &script.Commands[i]
		if c.Runs == shell.Never || c.At.Line != at.Line || path.Base(p.file(c.At)) != path.Base(at.File) {
			continue
		}
		words, wrappers := c.Unwrap()
		if len(words) == 0 {
			continue
		}
		found = true
		p.command, p.name = c, words[0].Text
		p.doubtRun()
		p.environment()
		for _, w := range wrappers {
			p.wrapper(w)
		}
		if base := path.Base(words[0].Text); !ownCommands[base] {
			p.doubt(Doubt{File: at.File, Line: at.Line, Word: base,
				Why: "may do more, or something else, than its settings say"})
		}
		for _, w := range words {
			if w.Certainty < shell.Sure {
				p.doubtValue(w, orWord(w.Text))
			}
		}
		if c.Unread != "" {
			p.doubt(Doubt{File: at.File, Line: at.Line, Why: c.Unread})
		}
	}
	if !found {
		p.doubt(Doubt{File: at.File, Line: at.Line, Why: "the command that starts it is not in the script itself"})
	}
	if name := job.Preset(); s.shadowed(name) {
		p.doubt(Doubt{File: at.File, Line: at.Line, Word: name, Why: "is a directory too, whose model would be taken"})
	}
	return append(doubts, p.doubts...)
}

func orWord(text string) string {
	if text == "" {
		return "a word"
	}
	return text
}

// shadowed reports whether a name on the Hub is a directory where the job starts.
func (s *Source) shadowed(name string) bool {
	if name == "" || s.Dir == "" || strings.HasPrefix(name, "/") {
		return false
	}
	_, err := s.ReadFile(filepath.Join(s.Dir, filepath.FromSlash(name), "config.json"))
	return err == nil
}
