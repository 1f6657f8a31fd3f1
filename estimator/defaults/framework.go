package defaults

import (
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// Taken is what a framework takes for a field of a job's training that nobody says, and the row that it is read off.
type Taken struct {
	Value any
	Row   Default
}

// packages are those whose defaults a framework has, its own before the ones that it builds on.
var packages = map[string][]string{
	"hf-trainer": {"transformers"},
	"trl":        {"trl", "transformers"},
	"ms-swift":   {"ms-swift", "transformers"},
}

// The fields of a job's training that the table knows, as [For] is asked for them.
const (
	MicroBatch      = "micro_batch"
	Accumulation    = "gradient_accumulation"
	SequenceLength  = "sequence_length"
	Precision       = "precision"
	Optimizer       = "optimizer"
	Checkpointing   = "gradient_checkpointing"
	EvaluationBatch = "evaluation.micro_batch"
)

// field is a field of a job's training: the packages' words for it, and what a row says of it.
type field struct {
	keys  []string
	reads func(d Default) (value any, ok bool)
}

var fields = map[string]field{
	MicroBatch:      {[]string{"per_device_train_batch_size"}, whole},
	Accumulation:    {[]string{"gradient_accumulation_steps"}, whole},
	SequenceLength:  {[]string{"max_length", "max_seq_length"}, whole},
	Precision:       {[]string{"bf16"}, mixed},
	Optimizer:       {[]string{"optim"}, optimizer},
	Checkpointing:   {[]string{"gradient_checkpointing"}, checkpoints},
	EvaluationBatch: {[]string{"per_device_eval_batch_size"}, whole},
}

// For is what a framework takes for a field in the releases that a job names, and in those that count where it names
// none.
func For(framework, name string, versions map[string]string) (Taken, bool) {
	f := fields[name]
	for _, tool := range packages[framework] {
		for _, key := range f.keys {
			row, ok := Row(tool, key, Running(tool, versions))
			if !ok || row.Value == "-" {
				continue
			}
			if row.Value == defaultOptim {
				row = torchs(row, versions)
			}
			if value, ok := f.reads(row); ok {
				return Taken{value, row}, true
			}
		}
	}
	return Taken{}, false
}

// Running is the release of a package that counts for a job: the one that it names, or that of the stack which does; ""
// is the newest.
func Running(tool string, versions map[string]string) string {
	if named := versions[tool]; named != "" {
		return named
	}
	return release.Assumed(versions).Releases[tool]
}

// whole is a number of sequences, steps or tokens.
func whole(d Default) (any, bool) {
	n, err := strconv.ParseInt(d.Value, 10, 64)
	return n, err == nil
}

// mixed is the precision where it is not the type in which the model is loaded.
func mixed(d Default) (any, bool) {
	return job.PrecisionAMPBF16, d.Value == "None"
}

// defaultOptim is the name under which transformers says its optimizer by the release of torch.
const defaultOptim = "default_optim"

// fusedFrom is the torch with which transformers takes the fused AdamW. Source: transformers/training_args.py
// (default_optim), 4.54.1 to 5.23.0.
const fusedFrom = "2.8"

// torchs is a row of default_optim with the optimizer that it is under the job's torch.
func torchs(d Default, versions map[string]string) Default {
	d.Value = "'adamw_torch'"
	if strings.HasPrefix(d.Means, "adamw_torch_fused") && !Older(Running("torch", versions), fusedFrom) {
		d.Value = "'adamw_torch_fused'"
	}
	return d
}

func optimizer(d Default) (any, bool) {
	o, ok := trainerWords[strings.Trim(d.Value, "'")]
	return job.Optimizer{Name: o.Name, Implementation: o.Implementation}, ok
}

var trainerWords = optim.TrainerWords()

// checkpoints is what is computed again in backward.
func checkpoints(d Default) (any, bool) {
	if d.Value == "True" {
		return job.Checkpointing{Mode: "full"}, true
	}
	return job.Checkpointing{Mode: "none"}, d.Value == "False" || d.Value == "None"
}
