package doubt

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/memory"
)

// Of 560 crosses of families and recipes that were drawn, 542 were answered and traced, and 514 of these are equal to
// the byte. The others differ as below; "above" is how much more the trace has than the replay. A family that no trace
// has shown at all is in other doubts.
var crossWidths = map[evidence.Axis]memory.Doubt{
	// Of families whose adapters were traced, with another base or without checkpointing, Whisper was 6 % high.
	evidence.LoRA: {Below: 0.06, Above: 0.06},
	// Compiled T5, ViT and Qwen3, and accelerate's loop, are 2 to 7.5 % off.
	evidence.Compile: {Below: 0.08, Above: 0.08},
	evidence.Loop:    {Below: 0.08, Above: 0.08},
	// CLIP under Muon is 11 % high, gpt-oss 6 % low at the optimizer.
	evidence.Optimizer: {Below: 0.10, Above: 0.07},
	// ModernBERT's heads and eager attention: -3.7 to +1.9 %.
	evidence.Attention: {Below: 0.04, Above: 0.04},
	// StableLM with a mask was up to 2.2 % off before a trace had shown it.
	evidence.Mask: {Below: 0.04, Above: 0.04},
	// None of those that were drawn was off; the width is that of attention, the narrowest with a finding.
	evidence.Precision:     {Below: 0.04, Above: 0.04},
	evidence.Checkpointing: {Below: 0.04, Above: 0.04},
	evidence.Evaluation:    {Below: 0.04, Above: 0.04},
	evidence.Parallel:      {Below: 0.04, Above: 0.08},
	// Products of ways to share layers and sequences were 0.3 % off at most when a trace first showed them, and 8 % in
	// what is reserved.
	evidence.Mesh: {Below: 0.08, Above: 0.08},
}

// firstAdapters is about adapters on a family of which no trace had any: LoRA and QLoRA on Falcon without checkpointing
// were 19 to 34 % low, on a checkpointed ViT 31 %, before traces showed them.
var firstAdapters = memory.Doubt{Below: 0.06, Above: 0.52}

// Unproven is about the cells of a job's cross that no trace has shown.
func Unproven(family string, missing []evidence.Cell) Doubt {
	var width memory.Doubt
	var cells []string
	for _, cell := range missing {
		width = width.Or(crossWidths[cell.Axis])
		if cell.Axis == evidence.LoRA && !evidence.Shows(family, cell.Axis) {
			width = width.Or(firstAdapters)
		}
		cells = append(cells, string(cell.Axis)+" "+cell.Value)
	}
	return Doubt{"no-trace", width, fmt.Sprintf("no trace has shown %s with %s; of 542 such crosses that were drawn "+
		"and traced, 28 were off, by up to as much", family, strings.Join(cells, ", "))}
}
