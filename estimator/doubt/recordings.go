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
