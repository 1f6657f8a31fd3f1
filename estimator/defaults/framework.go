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
	"hf-trainer":    {"transformers", "peft"},
	"trl":           {"trl", "transformers", "peft"},
	"axolotl":       {"axolotl"},
	"llama-factory": {"llamafactory", "transformers"},
	"ms-swift":      {"ms-swift", "transformers"},
}

// The fields of a job's training that the table knows, as [For] is asked for them.
const (
	MicroBatch         = "micro_batch"
	Accumulation       = "gradient_accumulation"
	SequenceLength     = "sequence_length"
	Precision          = "precision"
	StoredWeights      = "states.weights"
	Optimizer          = "optimizer"
	Checkpointing      = "gradient_checkpointing"
	EvaluationBatch    = "evaluation.micro_batch"
	LoRARank           = "lora.rank"
	LoRADropout        = "lora.dropout"
	LoRATargets        = "lora.target_modules"
	BasePrecision      = "lora.base_precision"
	DoubleQuantization = "lora.double_quantization"
)

// field is a field of a job's training: the packages' words for it, and what a row says of it.
type field struct {
	keys  []string
	reads func(d Default) (value any, ok bool)
}

var fields = map[string]field{
	MicroBatch:      {[]string{"per_device_train_batch_size", "micro_batch_size"}, whole},
	Accumulation:    {[]string{"gradient_accumulation_steps"}, whole},
	SequenceLength:  {[]string{"max_length", "max_seq_length", "sequence_len", "cutoff_len"}, whole},
	Precision:       {[]string{"bf16"}, mixed},
	Optimizer:       {[]string{"optim", "optimizer"}, optimizer},
	Checkpointing:   {[]string{"gradient_checkpointing", "disable_gradient_checkpointing"}, checkpoints},
	EvaluationBatch: {[]string{"per_device_eval_batch_size", "eval_batch_size"}, evaluated},
	// lora_r of trl's ModelConfig is what its own programs take, and say; who trains with trl makes a LoraConfig
	LoRARank:           {[]string{"r", "lora_rank"}, whole},
	LoRADropout:        {[]string{"lora_dropout"}, share},
	LoRATargets:        {[]string{"lora_target", "target_modules"}, targets},
	DoubleQuantization: {[]string{"double_quantization", "bnb_4bit_use_double_quant"}, switched},
}

// For is what a framework takes for a field in the releases that a job names, and in those that count where it names
// none.
func For(framework, name string, versions map[string]string) (Taken, bool) {
	f := fields[name]
	for _, tool := range packages[framework] {
		for _, key := range f.keys {
			row, ok := Row(tool, key, Running(tool, versions))
			if !ok || row.Value == "-" || row.Class == ConfigOfTRL {
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

// evaluated is whole, or 0 for the training's own.
func evaluated(d Default) (any, bool) {
	if d.Value == "None" {
		return int64(0), true
	}
	return whole(d)
}

// share is a probability.
func share(d Default) (any, bool) {
	p, err := strconv.ParseFloat(d.Value, 64)
	return p, err == nil
}

// switched is what is on or off.
func switched(d Default) (any, bool) {
	return d.Value == "True", d.Value == "True" || d.Value == "False"
}

// targets are the modules that get adapters.
func targets(d Default) (any, bool) {
	return job.Targets{"all-linear"}, strings.Contains(d.Value, "'all'") || strings.Contains(d.Value, "'all-linear'")
}

// mixed is the precision where it is not the type in which the model is loaded.
func mixed(d Default) (any, bool) {
	return job.PrecisionAMPBF16, d.Value == "None" || d.Value == "'auto'"
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
	if d.Value == "True" || d.Key == "disable_gradient_checkpointing" {
		return job.Checkpointing{Mode: "full"}, true
	}
	return job.Checkpointing{Mode: "none"}, d.Value == "False" || d.Value == "None"
}
