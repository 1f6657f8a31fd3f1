// Package submission finds, in what a user hands to a scheduler, the job that vramplan
// should judge and the cards that it may get: a batch script with its directives, the
// scheduler's options, and the training configuration that the script names.
//
// Nothing of it is executed. Scripts and configurations are read as text, by closed
// grammars and in bounded amounts, and what cannot be understood is an answer of its
// own ([ErrNoJob], [UnclearError]), never a guess: a scheduler hook lets such a job pass. The result is
// a job document, which holds the declared numbers and nothing else of the script.
package submission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// MaxFileBytes is the most that is read of one file.
const MaxFileBytes = 1 << 20

// ErrNoJob means that nothing describes a training job: most batch scripts are of that kind.
var ErrNoJob = errors.New("no job found")

// UnclearError means that there is a training job, but what it needs cannot be told.
type UnclearError struct{ Reason string }

func (e *UnclearError) Error() string { return e.Reason }

func unclear(format string, args ...any) error {
	return &UnclearError{Reason: fmt.Sprintf(format, args...)}
}

// ReadFile gives the contents of a file, [MaxFileBytes] at most.
type ReadFile func(name string) ([]byte, error)

// Source is what there is to look at. Empty fields are not there.
type Source struct {
	// Script is the batch script's text; Dir is where its relative paths begin. Where it is empty, nobody knows, and
	// files with such paths are not read. It is where the job is handed in, too. Name is what messages call it.
	Script []byte
	Dir    string
	Name   string
	// AnyFile says that the text may be a configuration of a trainer or a program, too, and not a batch script alone.
	AnyFile bool
	// List names the files of a directory; it may be nil.
	List func(dir string) []string
	// Set and Ignore are what the user says of the job, and which words move no memory.
	Set    []readers.Said
	Ignore []string
	// Job is a job document that was handed over beside the script (VRAMPLAN_JOB).
	Job string
	// Options are the scheduler's, where they were given outside the script. They win over
	// those in it.
	Options slurm.Options
	// Component is the component of a heterogeneous job that is asked about, from 0.
	Component int
	// ReadFile opens the configurations that the script names. Without it they are not looked for.
	ReadFile ReadFile
	// Lookup gives variables of the environment that the job gets with it; nil where nobody knows.
	Lookup func(name string) (string, bool)
	// HasModel says whether the catalog has a model; nil knows none, and asks about none.
	HasModel func(name string) bool
	// ModelType is model_type of a model of the catalog; nil knows of none.
	ModelType func(name string) string
	// Configuration is the config.json of a model that the catalog does not have, and where it is from; nil knows none.
	Configuration func(name string) (config json.RawMessage, from string)
	// Pictures says how a model of the catalog is trained with pictures; nil knows of none.
	Pictures func(name string) readers.Pictures
	// Programs are the training programs that are known by what they consist of; nil for those of package readers.
	Programs readers.Programs
}

// Found is a job as it was submitted.
type Found struct {
	// Document is a job document. It need not be complete or valid: its one reader says so.
	Document []byte
	// From says where the job was found, for people.
	From string
	// Inferred is true where the job was put together from a training configuration
	// and was not declared.
	Inferred bool
	// Doubts are what was not understood of an inferred job. Where there are any, the job must not be refused.
	Doubts []Doubt
	// Others are further documents that the job may mean: it may be refused only if it fits in none of them.
	Others []Reading
	// Most are documents that the job may mean: it may be passed only if it fits in all of them.
	Most []Reading
	// More is how many further trainings the script starts, which Document does not describe.
	More int
	// Unread are the launches that were not read, each with its place and the reason.
	Unread []string
	// Options are the scheduler's, from outside the script and from within.
	Options slurm.Options
}

// Doubt is something that was not understood.
type Doubt = readers.Doubt

// Reading is another document that the same words may mean.
type Reading = readers.Reading

// Find looks for a job: declared in the script, then beside it, then in what the script starts. The error is
// [ErrNoJob], an *[UnclearError], or that of VRAMPLAN_JOB. Options are found in any case.
func Find(ctx context.Context, s Source) (Found, error) {
	found := Found{Options: s.Options}
	if components := slurm.Script(s.Script); s.Component < len(components) {
		found.Options = s.Options.Over(components[s.Component].Options())
	}
	if s.Component > 0 && (s.Job != "" || len(s.Script) == 0) {
		return found, ErrNoJob // what is declared runs on the first component
	}
	err := ErrNoJob
	if len(s.Script) > 0 {
		err = found.read(ctx, &s)
	}
	if s.Job == "" || found.From == declaredFrom {
		return found, err
	}
	found = Found{Options: found.Options}
	found.Document, found.From, err = besideScript(s)
	return found, err
}

// besideScript is VRAMPLAN_JOB: a document, or the name of a file that holds one.
func besideScript(s Source) (document []byte, from string, err error) {
	if strings.HasPrefix(strings.TrimSpace(s.Job), "{") {
		return []byte(s.Job), "VRAMPLAN_JOB", nil
	}
	if s.ReadFile == nil {
		return nil, "", unclear("VRAMPLAN_JOB is not a JSON object")
	}
	document, err = s.ReadFile(s.path(s.Job))
	if err != nil {
		return nil, "", fmt.Errorf("VRAMPLAN_JOB: %w", err)
	}
	return document, "VRAMPLAN_JOB (" + s.Job + ")", nil
}

// path is where a relative name in the script leads.
func (s Source) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.Dir, name)
}
