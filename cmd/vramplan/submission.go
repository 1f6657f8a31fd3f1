package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/submission"
)

// submissionFlags are what a scheduler's user handed in: the script and the options that say
// which GPUs it gets, as sbatch takes them.
type submissionFlags struct {
	Script      string `placeholder:"FILE" help:"Batch script to find the job in: #VRAMPLAN lines, $VRAMPLAN_JOB, or the training that it starts."`
	Directory   string `name:"chdir" placeholder:"DIR" help:"Where the script's relative paths begin; the current directory if not given."`
	GRES        string `name:"gres" placeholder:"LIST" help:"As in sbatch, such as gpu:a100:2."`
	GPUs        string `name:"gpus" placeholder:"N" help:"As in sbatch, such as a100:2."`
	GPUsPerNode string `name:"gpus-per-node" placeholder:"N" help:"As in sbatch."`
	GPUsPerTask string `name:"gpus-per-task" placeholder:"N" help:"As in sbatch."`
	Nodes       string `placeholder:"N" help:"As in sbatch."`
	Tasks       string `name:"ntasks" placeholder:"N" help:"As in sbatch."`
	Constraint  string `placeholder:"LIST" help:"As in sbatch; words in it that name a card count."`
	Partition   string `placeholder:"NAME" help:"As in sbatch; --site says which cards it has."`
	HetGroup    int    `hidden:"" name:"het-group" help:"The component of a heterogeneous job whose options these are, from 0."`
	Comment     string `placeholder:"TEXT" help:"As in sbatch; vramplan:override=REASON in it lets the job through."`
	Site        string `placeholder:"FILE" setting:"VRAMPLAN_SITE" help:"JSON file with the cards behind a cluster's names: {\"partitions\": {\"gpu\": [\"rtx-4070\"]}, \"gpus\": {\"vram12g\": [\"rtx-4070\"]}}."`
}

// cardNames is the part of the catalog that scheduler options are read with.
type cardNames interface {
	submission.Names
	HasModel(name string) bool
	ModelType(name string) string
	ShowsPictures(name string) (reads, always bool)
}

// origin is where a job comes from, for the record.
type origin struct {
	source  string
	options slurm.Options
	// doubts, others, most and more are of a job that was put together from what a script starts.
	doubts []submission.Doubt
	others []submission.Reading
	most   []submission.Reading
	more   int
	unread []string
	// scheduled says that the cards are those that the scheduler was asked for.
	scheduled bool
	// edits are what flags and the scheduler add to the job.
	edits []edit
}

func (f *submissionFlags) options() slurm.Options {
	return slurm.Options{
		GRES: f.GRES, GPUs: f.GPUs, GPUsPerNode: f.GPUsPerNode, GPUsPerTask: f.GPUsPerTask,
		Constraint: f.Constraint, Partition: f.Partition, Comment: f.Comment, Nodes: f.Nodes, Tasks: f.Tasks,
	}
}

// find looks for a job in the script or in VRAMPLAN_JOB; wanted is false where
// other flags give one, and then only the scheduler's options are looked for.
func (f *submissionFlags) find(ctx context.Context, t *terminal, cards cardNames, source submission.Source,
	wanted bool) (submission.Found, error) {
	source.Options, source.Component = f.options(), f.HetGroup
	source.ReadFile, source.Lookup, source.HasModel = readBounded, t.lookup, cards.HasModel
	source.ModelType, source.Configuration = cards.ModelType, t.configuration(ctx)
	source.Pictures = func(name string) readers.Pictures { return readers.PicturesOf(cards.ShowsPictures(name)) }
	var err error
	if source.Dir, err = filepath.Abs(f.Directory); err != nil {
		source.Dir = "" // the directory is gone: paths that need it are then unclear
	}
	if f.Script != "" && f.Script != "-" {
		if source.Name, err = filepath.Abs(f.Script); err != nil {
			source.Name = f.Script
		}
	}
	if f.Script != "" {
		if source.Script, err = f.readScript(t); err != nil {
			return submission.Found{Options: source.Options}, err
		}
	}
	if job, ok := t.lookup("VRAMPLAN_JOB"); ok {
		source.Job = job
	}
	found, err := submission.Find(ctx, source)
	switch unclear := (*submission.UnclearError)(nil); {
	case !wanted, f.Script == "" && errors.Is(err, submission.ErrNoJob):
		found.Document, found.From = nil, ""
		return found, nil
	case errors.Is(err, submission.ErrNoJob) && filepath.Ext(f.Script) == ".py":
		return found, &exitError{exitUndecided, fmt.Errorf("%w: %s is a program and no batch script; vramplan read "+
			"%[2]s and vramplan estimate --from %[2]s read programs", err, f.Script)}
	case errors.Is(err, submission.ErrNoJob):
		return found, &exitError{exitUndecided, fmt.Errorf("%w in %s: it has no #VRAMPLAN lines and starts no "+
			"training program whose configuration can be read", err, f.Script)}
	case errors.As(err, &unclear):
		return found, &exitError{exitUndecided, fmt.Errorf("no answer: %w; say what is trained in #VRAMPLAN lines",
			err)}
	}
	return found, err
}

func (f *submissionFlags) readScript(t *terminal) ([]byte, error) {
	return readInput(t, f.Script)
}

// readInput is readBounded, or as much of standard input.
func readInput(t *terminal, name string) ([]byte, error) {
	if name != "-" {
		return readBounded(name)
	}
	in, err := t.open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(in, submission.MaxFileBytes))
}

// readBounded reads a regular file, up to the limit: what a script names may be a pipe or a device.
func readBounded(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, submission.MaxFileBytes))
}

// gpus is the edit that gives a job the cards which the scheduler may give it; none where the
// options do not tell. They win over what a document says: the scheduler decides.
func (f *submissionFlags) gpus(t *terminal, o slurm.Options, names cardNames) ([]edit, error) {
	var site submission.Site
	if f.Site != "" {
		text, err := readInput(t, f.Site)
		if err != nil {
			return nil, &exitError{exitUndecided, fmt.Errorf("--site: %w", err)}
		}
		if site, err = jobdoc.Read[submission.Site](text); err != nil {
			return nil, &exitError{exitUndecided, fmt.Errorf("--site %s: %w", f.Site, err)}
		}
	}
	var cards []string
	for _, name := range site.Cards(o, names.Has) {
		variants, err := names.GPUVariants(name)
		if err != nil {
			return nil, &exitError{exitUndecided, f.unknownCard(err, o)}
		}
		cards = append(cards, variants...)
	}
	if len(cards) == 0 {
		return nil, nil
	}
	return []edit{{path: "gpus", value: cards}}, nil
}

// unknownCard is an error about a card that the scheduler's options ask for and no catalog has: such names are often a
// cluster's own, of a slice or of a kind of node, and only the site's file says what is behind them.
func (f *submissionFlags) unknownCard(err error, o slurm.Options) error {
	asked, name := o.Asks()
	if f.Site != "" {
		return fmt.Errorf("%w\n  %s asks for it as --site %s reads it, which may give a name's cards: "+
			"{\"gpus\": {%q: [\"rtx-4070\"]}}; --gpu NAME says which card is meant", err, asked, f.Site, name)
	}
	return fmt.Errorf("%w\n  %s asks for it; for a name that only the cluster knows, --site FILE says which cards are "+
		"behind it: {\"gpus\": {%q: [\"rtx-4070\"]}}; --gpu NAME says which card is meant", err, asked, name)
}

// aboutCard says whether an error is about nothing but the names of cards.
func aboutCard(err error) bool {
	p, ok := asProblem(err)
	return ok && len(p.Errors) > 0 && !slices.ContainsFunc(p.Errors, func(e estimator.FieldError) bool {
		return e.Code != "unknown_gpu"
	})
}
