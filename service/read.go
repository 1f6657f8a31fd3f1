package service

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/submission"
)

// Read turns files of other tools into job documents. Nothing is opened: the texts are in the request, and nothing of
// them is kept.
func (s *Service) Read(ctx context.Context, r jobdoc.Reading) (*readers.Answer, error) {
	source, err := s.readingSource(r)
	if err != nil {
		return nil, err
	}
	return readers.Read(ctx, source)
}

// readingSource is what a reading gives the readers to look at. The error is an *[invalid.Error].
func (s *Service) readingSource(r jobdoc.Reading) (readers.Source, error) {
	const root = "/" // names in the request begin here
	texts := make(map[string]string, len(r.Files))
	for name, text := range r.Files {
		texts[path.Join(root, name)] = text
	}
	source := readers.Source{
		Dir: root, Files: r.Read, Line: r.Command, GPUs: r.Known.GPUs, Ignore: r.Known.Ignore,
		ReadFile: func(name string) ([]byte, error) {
			text, ok := texts[path.Clean(name)]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
		List: func(dir string) []string {
			var names []string
			for name := range texts {
				if path.Dir(name) == path.Clean(dir) {
					names = append(names, path.Base(name))
				}
			}
			return names
		},
		HasModel: func(name string) bool {
			_, err := s.current().Model(name)
			return err == nil
		},
		Pictures: func(name string) readers.Pictures { return readers.PicturesOf(s.current().ShowsPictures(name)) },
		HasGPU: func(name string) bool {
			_, err := s.current().GPU(name)
			return err == nil
		},
	}
	source.Cards = func(o slurm.Options) []string { return (&submission.Site{}).CardsOf(s.current())(o) }
	if len(source.Files) == 0 {
		source.Files = slices.Sorted(maps.Keys(r.Files))
	}
	var errs invalid.List
	for i, name := range source.Files {
		if _, ok := texts[path.Join(root, name)]; !ok {
			errs.Add(fmt.Sprintf("/read/%d", i), "unknown_file", "%.100q is not among the files", name)
		}
	}
	if len(source.Files) == 0 && r.Command == "" {
		errs.Add("/files", "required", "give files, or the command that starts the job")
	}
	if err := errs.Err(); err != nil {
		return source, err
	}
	for _, key := range slices.Sorted(maps.Keys(r.Known.Set)) {
		source.Set = append(source.Set, readers.Said{Path: key, Value: r.Known.Set[key]})
	}
	return source, nil
}
