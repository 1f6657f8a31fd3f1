package doubt

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/memory"
)

// RecordedCompiled is about what Inductor fuses and keeps of operations that were seen one by one: eleven traced
// jobs are within its width (TestRecordedCompiledIsNearTraces).
var RecordedCompiled = Doubt{"recorded-compile", memory.Doubt{Below: 0.05, Above: 0.05},
	"what torch.compile fuses and keeps is told from the operations of eager PyTorch, which say what a node reads and not " +
		"how"}

// Recorded is about every recording: its autograd is PyTorch's own, and kernels' scratch is known by the
// operation's name alone.
var Recorded = Doubt{"recorded", memory.Doubt{Below: 0.04, Above: 0.06},
	"the model was recorded under fake tensors: scratch of kernels that the replay does not know, and convolutions' " +
		"workspaces, are in no figure"}

// workspaceOfResult is how much of a convolution's result its workspace was at most on a card: 74 MB for the patches of
// ViT-Base at 64 pictures in bfloat16, a result of 19 MB; 183 MB at 128 in float32, of 77 MB; 114 MB in Whisper's, of
// 74 MB (docs/lab/card.md).
const workspaceOfResult = 4

// RecordedConvolution is that cuDNN takes a workspace for each convolution, of which the largest has so large a result,
// beside the bytes that are alive at the peak.
func RecordedConvolution(result, alive int64) Doubt {
	return Doubt{"recorded-workspace", memory.Doubt{Above: workspaceOfResult * float64(result) / float64(alive)},
		"cuDNN chooses a workspace for each convolution, which no recording shows; on a card it was up to four times as " +
			"large as the convolution's result"}
}

// Unexpressed names what the recorder could not write down and answered in the module's place. No trace says how
// far off that is, so that its width is a guess: that of a model known by its numbers alone (Dimensions).
func Unexpressed(list []string) Doubt {
	const most = 3
	words := strings.Join(list[:min(len(list), most)], "; ")
	if more := len(list) - most; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return Doubt{"recorded-unexpressed", memory.Doubt{Below: 0.10, Above: 0.40},
		"the recording could not say all that the module does: " + words}
}
