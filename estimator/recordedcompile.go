package estimator

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/recording"
)

// mostCompiledLines bounds the lines of a layer, or of what stands around the layers: what an operation in place takes
// the place of is looked for among all values. A Mamba whose layers
// were not found to repeat has 5,291.
const mostCompiledLines = 10_000

// recordedCompiled holds torch.compile on a recording against what its rules know: one graph of the model, with the
// loss in it or in a second one.
func recordedCompiled(rec *recording.Recording, program *recording.Program, whole bool, errs *invalid.List) {
	const pointer = "/training/compile"
	unsupported := func(what string) {
		errs.Add(pointer, "unsupported", "torch.compile is not modelled for a recorded model %s; leave the field out", what)
	}
	switch {
	case !whole:
		unsupported("in parts")
	case rec.Breaks == "":
		errs.Add(pointer, "conflict", "the recording does not say where torch.compile breaks the graph, as one of a "+
			"recorder of before; record it again")
	case rec.Breaks == recording.BreaksInModel:
		unsupported("that logs something, where the graph breaks")
	case rec.Breaks == recording.BreaksOutsideLoss:
		unsupported("whose loss stands outside of the module, where it is not compiled")
	case strings.HasPrefix(rec.Source, "transformers.") && !rec.Padded:
		errs.Add(pointer, "conflict", "transformers keeps the mask under torch.compile that it drops elsewhere; record the "+
			"model with --padded")
	case program != nil && program.Longest() > mostCompiledLines:
		errs.Add(pointer, "too_large", "torch.compile is replayed of recordings with up to %d lines in one stretch; this one "+
			"has %d: leave the field out", mostCompiledLines, program.Longest())
	case program != nil && program.WritesAttentionOut():
		unsupported("with an attention that is written out")
	}
}
