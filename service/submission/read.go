package submission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// declaredFrom is where a declared job is found.
const declaredFrom = readers.DeclaredReader + " in the script"

// read takes the job of the script as package readers does: what is declared, or the first training that it starts on
// the component that is asked about.
func (f *Found) read(ctx context.Context, s *Source) error {
	name := s.Name
	if name == "" {
		name = "the script"
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join("/", s.Dir, path.Base(filepath.ToSlash(name)))
	}
	answer, err := readers.Read(ctx, readers.Source{
		Files: []string{name}, Scripts: !s.AnyFile, Dir: s.Dir, List: s.List, Set: s.Set, Ignore: s.Ignore,
		HasModel: s.HasModel, ModelType: s.ModelType, Configuration: s.Configuration, Pictures: s.Pictures,
		Programs: s.Programs, Lookup: s.Lookup,
		ReadFile: func(file string) ([]byte, error) {
			switch {
			case file == name:
				return s.Script, nil
			case s.Dir == "" && !filepath.IsAbs(file):
				return nil, fs.ErrNotExist // nobody knows where that is
			}
			if s.ReadFile == nil {
				return nil, fs.ErrNotExist
			}
			return s.ReadFile(file)
		},
	})
	if err != nil {
		return unclear("%v", err)
	}
	if len(answer.Jobs) == 0 {
		if len(answer.Refusals) > 0 && answer.Refusals[0].Reader == readers.DeclaredReader {
			f.From = declaredFrom
		}
		return refused(answer.Refusals)
	}
	jobs := slices.DeleteFunc(answer.Jobs, func(j readers.Job) bool {
		on := j.Components()
		return len(on) > 0 && !slices.Contains(on, s.Component)
	})
	if len(jobs) == 0 {
		return ErrNoJob
	}
	job := jobs[0]
	if job.Reader == readers.DeclaredReader {
		f.Document, f.From = job.Document, declaredFrom
		return nil
	}
	f.More = len(jobs) - 1
	for _, r := range answer.Refusals {
		if r.Code == "unknown-program" {
			f.Unread = append(f.Unread, r.String())
		} else {
			f.More++
		}
	}
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
	if len(job.Components()) == 0 && job.Command != nil {
		f.Doubts = append(f.Doubts, Doubt{File: job.Command.File, Line: job.Command.Line,
			Why: "runs on a component of the job that is known only when the script runs"})
	}
	f.Document, f.Inferred = job.Document, true
	f.From = job.Reader + "'s settings"
	if job.Command != nil {
		f.From = fmt.Sprintf("%s:%d, read as %s's", job.Command.File, job.Command.Line, job.Reader)
	}
	f.Doubts = append(f.Doubts, job.Doubts...)
	span := job.Range()
	f.Others, f.Most = append(f.Others, span.Least...), span.Most
	return nil
}

// refused is the error of a script in which no job could be read. A program that nobody knows is no training, and a
// script of another language, or one that not even bash understands, is none of ours.
func refused(list []readers.Refusal) error {
	for _, r := range list {
		if r.Reader == readers.DeclaredReader {
			return unclear("%s", r.Say)
		}
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
