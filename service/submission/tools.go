package submission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// infer reads what the script starts, as package readers does: the first training counts.
func (f *Found) infer(ctx context.Context, s *Source) error {
	name := s.Name
	if name == "" {
		name = "the script"
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join("/", s.Dir, path.Base(filepath.ToSlash(name)))
	}
	answer, err := readers.Read(ctx, readers.Source{
		Files: []string{name}, Scripts: true, Dir: s.Dir, HasModel: s.HasModel, Pictures: s.Pictures,
		Programs: s.Programs, Lookup: s.Lookup,
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
		return refused(answer.Refusals)
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

// refused is the error of a script in which no job could be read. A program that nobody knows is no training, and a
// script of another language, or one that not even bash understands, is none of ours.
func refused(list []readers.Refusal) error {
	for _, r := range list {
		_, wrong := errors.AsType[*shell.SyntaxError](r.Err)
		switch {
		case r.Code == "no-job", r.Code == "unknown-program", r.Code == "unknown-file", wrong,
			errors.Is(r.Err, shell.ErrNotShell):
			continue
		}
		return unclear("%s", r.String())
	}
	return ErrNoJob
}
