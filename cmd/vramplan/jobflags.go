package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// jobFlags say what the job is: a file, flags that build a document, or both,
// where a flag replaces what the file says. Values that need knowledge of the
// job document are strings here; its one reader judges them, so that a flag and
// a field get the same message.
type jobFlags struct {
	File string `short:"f" placeholder:"FILE" help:"Job document, or NDJSON with one job a line; - reads standard input." group:"Job:"`

	jobFields `embed:""`
}

// jobFields are the flags that each say one field of a job.
type jobFields struct {
	Model    string `placeholder:"NAME" help:"Model of the catalog, such as gpt2 or meta-llama/Llama-3.1-8B." xor:"model" group:"Job:"`
	HFConfig string `name:"hf-config" placeholder:"FILE" help:"A Hugging Face config.json as the model." xor:"model" group:"Job:"`
	Pipeline string `placeholder:"NAME" help:"A published diffusion pipeline, such as black-forest-labs/FLUX.1-dev; --objective diffusion is meant." xor:"model" group:"Job:"`
	Recorded string `placeholder:"FILE" help:"A recording of the model, as vramplan_record writes it." xor:"model" group:"Job:"`

	MicroBatch           *int64   `placeholder:"N" help:"Sequences in one forward pass on one GPU." group:"Job:"`
	SequenceLength       *int64   `placeholder:"N" help:"Tokens in a sequence; the model's context if not given." group:"Job:"`
	GradientAccumulation *int64   `placeholder:"N" help:"Micro-steps in an optimizer step." group:"Job:"`
	Precision            *string  `placeholder:"NAME" help:"amp-bf16, amp-fp16, fp32, tf32, bf16, fp16 or fp8." group:"Job:"`
	Optimizer            *string  `placeholder:"NAME" help:"adamw, adam, sgd, sgd-momentum, adafactor, rmsprop, lion, adamw-8bit, …" group:"Job:"`
	OptimizerImpl        *string  `name:"optimizer-implementation" placeholder:"NAME" help:"foreach, fused, for-loop, bitsandbytes, torchao, …" group:"Job:"`
	Checkpointing        *string  `aliases:"gradient-checkpointing" placeholder:"MODE" help:"none, full, selective or selective-op." group:"Job:"`
	Attention            *string  `placeholder:"NAME" help:"sdpa, flash or eager." group:"Job:"`
	Loss                 *string  `placeholder:"KIND" help:"standard, fused, chunked or fused-linear." group:"Job:"`
	Objective            *string  `placeholder:"KIND" help:"Kind of training: sft, dpo, vision-language, …; the loss that the model returns if not given." group:"Job:"`
	PromptTokens         *int64   `placeholder:"N" help:"Tokens of a prompt, for objectives with completions." group:"Job:"`
	CompletionTokens     *int64   `placeholder:"N" help:"Tokens of a completion." group:"Job:"`
	Reference            *string  `placeholder:"NAME" help:"What preferences are measured by: separate, adapter-off or precomputed." group:"Job:"`
	Packing              *bool    `negatable:"" help:"sft: documents behind one another fill the sequences." group:"Job:"`
	NumGenerations       *int64   `placeholder:"N" help:"Completions that are written for a prompt." group:"Job:"`
	Texts                *int64   `placeholder:"N" help:"contrastive: columns of texts, 2 for pairs, 3 with a negative." group:"Job:"`
	ContrastiveLoss      *string  `placeholder:"NAME" help:"contrastive: mnrl, cached-mnrl, matryoshka-mnrl or triplet." group:"Job:"`
	MiniBatch            *int64   `placeholder:"N" help:"cached-mnrl: texts embedded at once." group:"Job:"`
	Images               *int64   `placeholder:"N" help:"Pictures in a sequence, of models that read them; --objective vision-language is meant." group:"Job:"`
	ImageSize            []int64  `placeholder:"H,W" help:"Pixels of a picture as it reaches the model, such as 448,448." group:"Job:"`
	FreezeVision         *bool    `negatable:"" help:"The tower that looks at the pictures is not trained." group:"Job:"`
	Resolution           []int64  `placeholder:"N" help:"diffusion: pixels of a picture a side, or height and width, such as 768,1024." group:"Job:"`
	DiffusersScript      *string  `name:"diffusers-script" placeholder:"NAME" help:"diffusion: diffusers' training script; that of the model if not given." group:"Job:"`
	Latents              *string  `placeholder:"NAME" help:"diffusion: each-step, or cached for pictures that were encoded before training." group:"Job:"`
	Compile              *bool    `negatable:"" help:"The model runs under torch.compile." group:"Job:"`
	Framework            *string  `placeholder:"NAME" help:"Whose defaults apply: pytorch, nanogpt, hf-trainer, …" group:"Job:"`
	LoRARank             *int64   `name:"lora-rank" placeholder:"N" help:"Train LoRA adapters of this rank." group:"Job:"`
	QLoRA                bool     `name:"qlora" help:"Train adapters on a base in 4 bits (nf4, double quantization); of rank 16 on all linear layers unless the job says otherwise." group:"Job:"`
	WorldSize            *int64   `placeholder:"N" help:"GPUs over which the job is spread." group:"Job:"`
	DataParallel         *string  `placeholder:"KIND" help:"ddp, zero1, zero2, zero3 or fsdp." group:"Job:"`
	ReserveBytes         *int64   `placeholder:"N" help:"Bytes that a display or other processes hold." xor:"reserve" group:"Job:"`
	Reserve              *jobSize `placeholder:"SIZE" help:"The same as a size, such as 800MiB or 1GiB." xor:"reserve" group:"Job:"`
	Display              *bool    `negatable:"" help:"The card drives a display: a plan leaves 1 GiB for it, as on desktop cards without --no-display." group:"Job:"`
	Confidence           *float64 `placeholder:"P" help:"Share of runs that the low and high figures cover; 0.95 if not given." group:"Job:"`

	GPU []string `name:"gpu" sep:"none" placeholder:"NAME" help:"Card to judge; repeat for more, * is the whole catalog." group:"Job:"`
}

// jobSize is a size in a job document, which has it in bytes.
type jobSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *jobSize) UnmarshalText(text []byte) error {
	var n byteCount
	err := n.UnmarshalText(text)
	*b = jobSize(n)
	return err
}

// qloraRank is that of the adapters which plan offers.
const qloraRank = 16

// edit is one field of a job document and the value that a flag gives it.
type edit struct {
	path  string // in gjson's syntax
	value any
	// absent says that what the document says wins.
	absent bool
}

// edits lists what the flags say, in the order of the document.
func (f *jobFields) edits(t *terminal) ([]edit, error) {
	var list []edit
	if f.Model != "" {
		list = append(list, edit{path: "model", value: map[string]string{"preset": f.Model}})
	}
	if f.HFConfig != "" {
		config, err := t.readFile(f.HFConfig)
		if err != nil {
			return nil, err
		}
		if !json.Valid(config) {
			return nil, usage("--hf-config %s: not a JSON document", f.HFConfig)
		}
		list = append(list, edit{path: "model", value: map[string]json.RawMessage{"hf_config": config}})
	}
	if f.Recorded != "" {
		recorded, err := t.readFile(f.Recorded)
		if err != nil {
			return nil, err
		}
		if !json.Valid(recorded) {
			return nil, usage("--recorded %s: not a JSON document", f.Recorded)
		}
		list = append(list, edit{path: "model", value: map[string]json.RawMessage{"recorded": recorded}})
	}
	if f.Pipeline != "" {
		list = append(list, edit{path: "model", value: map[string]any{"diffusion": map[string]string{
			"preset": f.Pipeline}}})
	}
	list = appendEdit(list, "training.micro_batch", f.MicroBatch)
	list = appendEdit(list, "training.sequence_length", f.SequenceLength)
	list = appendEdit(list, "training.gradient_accumulation", f.GradientAccumulation)
	list = appendEdit(list, "training.precision", f.Precision)
	if f.OptimizerImpl != nil {
		optimizer := map[string]string{"implementation": *f.OptimizerImpl}
		if f.Optimizer != nil {
			optimizer["name"] = *f.Optimizer
		}
		list = append(list, edit{path: "training.optimizer", value: optimizer})
	} else {
		list = appendEdit(list, "training.optimizer", f.Optimizer)
	}
	list = appendEdit(list, "training.gradient_checkpointing", f.Checkpointing)
	list = appendEdit(list, "training.attention", f.Attention)
	list = appendEdit(list, "training.loss", f.Loss)
	list = appendEdit(list, "training.objective.kind", f.Objective)
	list = appendEdit(list, "training.objective.prompt_tokens", f.PromptTokens)
	list = appendEdit(list, "training.objective.completion_tokens", f.CompletionTokens)
	list = appendEdit(list, "training.objective.reference", f.Reference)
	list = appendEdit(list, "training.objective.packing", f.Packing)
	list = appendEdit(list, "training.objective.num_generations", f.NumGenerations)
	list = appendEdit(list, "training.objective.texts", f.Texts)
	list = appendEdit(list, "training.objective.loss", f.ContrastiveLoss)
	list = appendEdit(list, "training.objective.mini_batch", f.MiniBatch)
	if f.Images != nil || f.ImageSize != nil || f.FreezeVision != nil {
		list = append(list, edit{path: "training.objective.kind", value: "vision-language", absent: true})
	}
	list = appendEdit(list, "training.objective.images", f.Images)
	if f.ImageSize != nil {
		list = append(list, edit{path: "training.objective.image_size", value: f.ImageSize})
	}
	list = appendEdit(list, "training.objective.freeze_vision", f.FreezeVision)
	if f.Pipeline != "" || f.Resolution != nil || f.Latents != nil {
		list = append(list, edit{path: "training.objective.kind", value: "diffusion", absent: true})
	}
	if f.Resolution != nil {
		list = append(list, edit{path: "training.resolution", value: f.Resolution})
	}
	list = appendEdit(list, "training.script", f.DiffusersScript)
	list = appendEdit(list, "training.objective.latents", f.Latents)
	list = appendEdit(list, "training.compile", f.Compile)
	list = appendEdit(list, "training.lora.rank", f.LoRARank)
	if f.QLoRA {
		list = append(list,
			edit{path: "training.lora.base_precision", value: "nf4"}, edit{path: "training.lora.double_quantization",
				value: true},
			edit{path: "training.lora.rank", value: qloraRank, absent: true},
			edit{path: "training.lora.target_modules", value: "all-linear", absent: true})
	}
	list = appendEdit(list, "training.distributed.world_size", f.WorldSize)
	list = appendEdit(list, "training.distributed.data", f.DataParallel)
	list = appendEdit(list, "training.framework", f.Framework)
	if len(f.GPU) > 0 {
		list = append(list, edit{path: "gpus", value: f.GPU})
	}
	list = appendEdit(list, "reserve_bytes", f.ReserveBytes)
	list = appendEdit(list, "reserve_bytes", f.Reserve)
	list = appendEdit(list, "display", f.Display)
	list = appendEdit(list, "confidence", f.Confidence)
	return list, nil
}

func appendEdit[T any](list []edit, path string, value *T) []edit {
	if value == nil {
		return list
	}
	return append(list, edit{path: path, value: *value})
}

// apply writes the flags into a document and leaves everything else in it as it
// is, unknown and duplicate fields included: whoever reads the document reports
// those. A document that is not an object is returned as it came, likewise.
func apply(document []byte, edits []edit) ([]byte, error) {
	if len(edits) == 0 || !gjson.ValidBytes(document) || !gjson.ParseBytes(document).IsObject() {
		return document, nil
	}
	for _, e := range edits {
		if strings.HasPrefix(e.path, "training.objective.") {
			var err error
			if document, err = openObjective(document); err != nil {
				return nil, err
			}
		}
		if e.path == "training.optimizer" {
			e = keepOptimizerName(document, e)
		}
		if !settable(document, e.path) || e.absent && gjson.GetBytes(document, e.path).Exists() {
			continue
		}
		changed, err := sjson.SetBytes(document, e.path, e.value)
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", e.path, err)
		}
		document = changed
	}
	return document, nil
}

// settable is false where a field would have to go into something that is not
// an object: the reader of the document then says so.
func settable(document []byte, path string) bool {
	for i, c := range path {
		if c != '.' {
			continue
		}
		if parent := gjson.GetBytes(document, path[:i]); parent.Exists() && parent.Type != gjson.Null &&
			!parent.IsObject() {
			return false
		}
	}
	return true
}

// openObjective makes an object of an objective that the document gives by its kind alone, so that flags can add to it.
func openObjective(document []byte) ([]byte, error) {
	const path = "training.objective"
	kind := gjson.GetBytes(document, path)
	if kind.Type != gjson.String {
		return document, nil
	}
	opened, err := sjson.SetBytes(document, path, map[string]string{"kind": kind.Str})
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", path, err)
	}
	return opened, nil
}

// keepOptimizerName lets --optimizer-implementation alone change the
// implementation of the optimizer that the document names.
func keepOptimizerName(document []byte, e edit) edit {
	given, ok := e.value.(map[string]string)
	if !ok || given["name"] != "" {
		return e
	}
	was := gjson.GetBytes(document, e.path)
	switch {
	case was.Type == gjson.String:
		return edit{path: e.path, value: map[string]string{"name": was.Str, "implementation": given["implementation"]}}
	case was.IsObject():
		return edit{path: e.path + ".implementation", value: given["implementation"]}
	}
	return e
}
