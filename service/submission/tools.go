package submission

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/vramplan/vramplan/service/readers"
)

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
		Lookup: s.Lookup,
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
	f.Doubts = job.Doubts
	span := job.Range()
	f.Others, f.Most = append(f.Others, span.Least...), span.Most
	return nil
}
