package draft

import "github.com/vramplan/vramplan/service/readers/setting"

// checkpointing is a job document's checkpointing with more than its mode.
type checkpointing struct {
	Mode      string `json:"mode"`
	Offload   bool   `json:"offload,omitempty"`
	Reentrant *bool  `json:"reentrant,omitempty"`
}

// Offloaded is full checkpointing with offloading.
var Offloaded = checkpointing{Mode: "full", Offload: true}

// OfKind is full checkpointing, of a kind where the value of use_reentrant says one.
func OfKind(reentrant setting.Value) any {
	kind, ok := reentrant.Bool()
	if !ok || reentrant.Unknown != "" {
		return "full"
	}
	return checkpointing{Mode: "full", Reentrant: &kind}
}

// reentrantAnyway are the frameworks that checkpoint with reentrance where nobody says otherwise, whatever their
// release of transformers. Sources: LLaMA-Factory hparams/model_args.py (use_reentrant_gc), unsloth_zoo
// training_utils.py (prepare_model_for_training).
var reentrantAnyway = setting.SetOf("llama-factory", "unsloth")

// PlainKind leaves out a kind of checkpoints that the job would have anyway with today's releases, so that the document
// says no more than it must. With releases of its own the job keeps the user's word: transformers before 5 and trl
// before 0.28 have the other default (modeling_utils.py, gradient_checkpointing_enable), as LLaMA-Factory has for FSDP2
// (model/model_utils/checkpointing.py). For adapters under ZeRO-3 trl overrides what is said (sft_trainer.py, 1.16).
func (d *Draft) PlainKind() {
	const pointer = "/training/gradient_checkpointing"
	f := d.Fields[pointer]
	said, ok := f.Value.(checkpointing)
	if !ok || said.Reentrant == nil || said.Offload || d.Has("/training/versions") {
		return
	}
	framework := d.Text("/training/framework")
	data := d.Text("/training/distributed/data")
	forced := framework == "trl" && d.Has("/training/lora") && data == "zero3"
	if framework == "llama-factory" && data == "fsdp" {
		return
	}
	if forced || *said.Reentrant == reentrantAnyway[framework] {
		f.Value = "full"
		d.Fields[pointer] = f
	}
}
