package huggingface

import "github.com/vramplan/vramplan/service/readers/defaults"

// OfTRL are the defaults of trl's configurations where they differ from the Trainer's.
func (t *Defaults) OfTRL(release string) {
	if d, ok := defaults.Row("trl", "gradient_checkpointing", release); ok && d.Value == "True" {
		t.Checkpointing, t.CheckpointingRef = true, d.String()
	}
	if d, ok := defaults.Row("trl", "bf16", release); ok && d.Value == "None" {
		t.bf16, t.bf16Ref = true, d.String()
	}
}
