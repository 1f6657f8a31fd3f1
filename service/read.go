package service

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/apart"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/diagnose"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/submission"
	"github.com/vramplan/vramplan/service/workplace"
)

// Read turns files of other tools into job documents. Nothing is opened: the texts are in the request, and nothing of
// them is kept.
func (s *Service) Read(ctx context.Context, r jobdoc.Reading) (*readers.Answer, error) {
	read, err := s.readFiles(ctx, ReadingWork{Reading: r})
	if err != nil {
		return nil, err
	}
	return read.Answer, nil
}

// ReadingWork is what is read of strangers' files, as a process apart gets it.
type ReadingWork struct {
	Reading jobdoc.Reading `json:"reading"`
	// GPUs and Models are users' entries of the catalog by their names, beside those that are built in.
	GPUs   []catalog.GPU   `json:"gpus,omitempty"`
	Models []catalog.Model `json:"models,omitempty"`
	// Plan asks for the change of the files by which their one job fits; nil asks for none.
	Plan *planner.Plan `json:"plan,omitempty"`
	// Snapshot is a memory snapshot in base64, which is read in place of files.
	Snapshot string `json:"snapshot,omitempty"`
	// Beside is what was said of the planned job beside the files.
	Beside json.RawMessage `json:"beside,omitempty"`
}

// ReadingResult is what comes of it.
type ReadingResult struct {
	Answer *readers.Answer `json:"answer,omitempty"`
	// Document is that of the one job, as plans take it; nothing where there is not one.
	Document json.RawMessage `json:"document,omitempty"`
	Patch    *planner.Patch  `json:"patch,omitempty"`
	// Dump is what a memory snapshot holds, Wrong why it is not read.
	Dump  *diagnose.Dump `json:"dump,omitempty"`
	Wrong string         `json:"wrong,omitempty"`
}

// WithReadingApart has strangers' files read in processes of that room. Without it they are read in this process, as on
// a terminal, where the files are the user's own.
func WithReadingApart(room *apart.Room) Option { return func(o *options) { o.readingRoom = room } }

// ReadingOutlives is how many readings are at work whose request has ended.
func (s *Service) ReadingOutlives() int64 {
	if s.readingRoom == nil {
		return 0
	}
	return s.readingRoom.Outliving()
}

// readFiles reads files, in a process apart where there is a room for it. Errors of the request are an
// *[invalid.Error].
func (s *Service) readFiles(ctx context.Context, w ReadingWork) (*ReadingResult, error) {
	if err := checkReading(w.Reading); err != nil {
		return nil, err
	}
	now := s.current()
	if s.readingRoom == nil {
		return readIn(ctx, now, w)
	}
	var err error
	if w.GPUs, w.Models, err = usersEntries(now); err != nil {
		return nil, unreadable(err)
	}
	return s.apart(ctx, w, "/files", "reading these files takes more than %s: hand over only those that start the job")
}

// apart does a reading's work in a process apart. tooMuch says what to do where it takes more than its limits.
func (s *Service) apart(ctx context.Context, w ReadingWork, at, tooMuch string) (*ReadingResult, error) {
	return workplace.Do(ctx, s.place, workplace.Reading, func(ctx context.Context) (*ReadingResult, error) {
		var result ReadingResult
		err := s.readingRoom.Do(ctx, w, &result)
		switch {
		case errors.Is(err, apart.ErrTooMuch):
			var errs invalid.List
			limits := s.readingRoom.Limits
			errs.Add(at, "too_large", tooMuch, fmt.Sprintf("%d seconds of a core or %d MiB", limits.Seconds,
				limits.MemoryBytes>>20))
			err = errs.Err()
		case err != nil && ctx.Err() == nil:
			err = &Error{Code: CodeInternal, Message: "what was sent could not be read", Err: err}
		}
		return &result, err
	})
}

// readSnapshot reads a memory snapshot that came in base64, in a process apart where there is a room for it.
func (s *Service) readSnapshot(ctx context.Context, snapshot string) (*diagnose.Dump, error) {
	var result *ReadingResult
	var err error
	if s.readingRoom == nil {
		result = snapshotIn(snapshot)
	} else {
		result, err = s.apart(ctx, ReadingWork{Snapshot: snapshot}, "/snapshot", "reading this snapshot takes more than "+
			"%s: record fewer events (max_entries of torch.cuda.memory._record_memory_history), or have it read where "+
			"it is, by vramplan diagnose --snapshot FILE")
	}
	if err != nil {
		return nil, err
	}
	if result.Dump == nil {
		var errs invalid.List
		errs.Add("/snapshot", "malformed", "%s", result.Wrong)
		return nil, errs.Err()
	}
	return result.Dump, nil
}

// snapshotIn reads a memory snapshot in this process.
func snapshotIn(snapshot string) *ReadingResult {
	dump, err := diagnose.ReadDump(base64.NewDecoder(base64.StdEncoding, strings.NewReader(snapshot)))
	if err != nil {
		return &ReadingResult{Wrong: err.Error()}
	}
	return &ReadingResult{Dump: dump}
}

// ReadApart does a reading's work in this process, with the built-in catalog and the entries that came with it.
func ReadApart(ctx context.Context, work json.RawMessage) (any, error) {
	var w ReadingWork
	if err := json.Unmarshal(work, &w); err != nil {
		return nil, fmt.Errorf("read the work: %w", err)
	}
	if w.Snapshot != "" {
		return snapshotIn(w.Snapshot), nil
	}
	builtin := EmbeddedCatalog()
	gpus, err := builtin.GPUs()
	if err != nil {
		return nil, err
	}
	models, err := builtin.Models()
	if err != nil {
		return nil, err
	}
	return readIn(ctx, catalog.Of(&catalog.Contents{GPUs: slices.Concat(gpus, w.GPUs),
		Models: slices.Concat(models, w.Models)}), w)
}

// usersEntries are the entries that users made, with what their names mean and nothing else.
func usersEntries(c *catalog.Catalog) (gpus []catalog.GPU, models []catalog.Model, err error) {
	all, err := c.GPUs()
	if err != nil {
		return nil, nil, err
	}
	for _, g := range all {
		if g.Origin == catalog.User {
			gpus = append(gpus, g)
		}
	}
	list, err := c.Models()
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		if m := &list[i]; m.Origin == catalog.User {
			named := catalog.Model{Origin: m.Origin}
			named.ID, named.Aliases, named.Kind, named.Family = m.ID, m.Aliases, m.Kind, m.Family
			models = append(models, named)
		}
	}
	return gpus, models, nil
}

// readIn reads files with the names of a catalog.
func readIn(ctx context.Context, c *catalog.Catalog, w ReadingWork) (*ReadingResult, error) {
	source := readingSource(c, w.Reading)
	answer, err := readers.Read(ctx, source)
	if err != nil {
		return nil, err
	}
	result := &ReadingResult{Answer: answer}
	if len(answer.Jobs) != 1 {
		return result, nil
	}
	job := &answer.Jobs[0]
	if result.Document, err = job.PlanDocument(); err != nil {
		return nil, err
	}
	if w.Plan != nil {
		patching := Patching{Catalog: c, Source: source, Job: job, Plan: w.Plan,
			Over: func(document []byte) ([]byte, error) { return layOver(document, w.Beside) }}
		result.Patch, err = patching.Patch(ctx)
	}
	return result, err
}

// root is where names in a request begin.
const root = "/"

// checkReading refuses a reading that names nothing, or what is not there.
func checkReading(r jobdoc.Reading) error {
	var errs invalid.List
	for i, name := range r.Read {
		full := path.Join(root, name)
		is := func(file string) bool { return path.Join(root, file) == full }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(r.Files)), is) {
			errs.Add(fmt.Sprintf("/read/%d", i), "unknown_file", "%.100q is not among the files", name)
		}
	}
	if len(r.Read) == 0 && len(r.Files) == 0 && r.Command == "" {
		errs.Add("/files", "required", "give files, or the command that starts the job")
	}
	return errs.Err()
}

// readingSource is what a reading gives the readers to look at.
func readingSource(c *catalog.Catalog, r jobdoc.Reading) readers.Source {
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
		HasModel:  c.HasModel,
		ModelType: c.ModelType,
		Pictures:  func(name string) readers.Pictures { return readers.PicturesOf(c.ShowsPictures(name)) },
		HasGPU:    c.Has,
	}
	source.Cards = func(o slurm.Options) []string { return (&submission.Site{}).CardsOf(c)(o) }
	if len(source.Files) == 0 {
		source.Files = slices.Sorted(maps.Keys(r.Files))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Known.Set)) {
		source.Set = append(source.Set, readers.Said{Path: key, Value: r.Known.Set[key]})
	}
	return source
}
