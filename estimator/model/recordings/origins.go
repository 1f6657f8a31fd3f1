package recordings

import "github.com/vramplan/vramplan/estimator/recording"

// nowhere stands for an instruction that another has no counterpart in.
const nowhere = -1

// keepsResult are the operations whose nodes save what the operation made, and stand behind it therefore.
var keepsResult = map[string]bool{"_softmax": true, "_log_softmax": true, "_safe_softmax": true, "exp": true,
	"tanh": true, "sigmoid": true, "rsqrt": true, "sqrt": true, "reciprocal": true, "native_layer_norm": true,
	"native_group_norm": true, "native_batch_norm": true, "_native_batch_norm_legit": true, "cudnn_batch_norm": true,
	"relu": true, "native_dropout": true, "max_pool2d_with_indices": true, "max": true, "min": true, "topk": true,
	"sort": true, "cumprod": true, "logsumexp": true, "_fused_rms_norm": true, "nll_loss_forward": true,
	"nll_loss2d_forward": true, "expm1": true, "linalg_vector_norm": true, "std": true, "amax": true, "amin": true}

// originsOf says of each node of a stretch which allocation is its result, and of each such allocation which node made
// it: places in list, nowhere for others. A node whose operation allocates nothing is that of a view.
//
// The recorder puts a node in front of its operation, and behind it where it saves what the operation made
// (recorder/vramplan_record/program.py, Sequence).
func originsOf(list []recording.Instruction) []int {
	of := make([]int, len(list))
	first := nowhere // allocation of the operation before
	for i := range list {
		of[i] = nowhere
		switch in := &list[i]; in.Kind {
		case recording.Allocate:
			if first == nowhere || list[first].Name != in.Name {
				first = i
			}
		case recording.Node:
			if first != nowhere && keepsResult[list[first].Name] && savesOne(list, first, i) {
				k := ofResult(list, first, i)
				of[i], of[k] = k, i
			}
			first = nowhere
		case recording.Attend, recording.CastParam, recording.Open, recording.Close:
			first = nowhere
		}
	}
	for i := range list {
		in := &list[i]
		if in.Kind != recording.Node || in.Alias || of[i] != nowhere || isView(in) && !makesNext(list, i) {
			continue
		}
		k := i + 1
		for k < len(list) && list[k].Kind == recording.Part {
			k++
		}
		if k < len(list) && list[k].Kind == recording.Allocate && of[k] == nowhere {
			if k = ofResult(list, k, len(list)); of[k] == nowhere {
				of[i], of[k] = k, i
			}
		}
	}
	return of
}

// savesOne says whether node i saves a result of the operation whose allocations begin at first.
func savesOne(list []recording.Instruction, first, i int) bool {
	for k := first; k < i; k++ {
		if list[k].Kind != recording.Allocate {
			continue
		}
		for _, r := range list[i].Saved {
			if r.Scope == recording.Own && r.N == list[k].N {
				return true
			}
		}
	}
	return false
}

// ofResult is the allocation of the first result that is not a mask, of an operation whose allocations begin at first.
func ofResult(list []recording.Instruction, first, end int) int {
	for k := first; k < end && list[k].Kind == recording.Allocate && list[k].Name == list[first].Name; k++ {
		if list[k].Type != recording.Byte {
			return k
		}
	}
	return first
}

// passing are operations that make a tensor and whose gradient goes on as it is.
var passing = map[string]bool{"add": true, "sub": true, "clone": true}

// makesNext says whether node i, which looks like that of a view, is that of the allocation behind it.
func makesNext(list []recording.Instruction, i int) bool {
	return i+1 < len(list) && list[i+1].Kind == recording.Allocate && passing[list[i+1].Name]
}

// isView says whether a node hands views of what arrives on, and makes nothing.
func isView(in *recording.Instruction) bool {
	views := 0
	for i := range in.Backward {
		switch in.Backward[i].Kind {
		case recording.PassView:
			views++
		case recording.Validate, recording.ViewOf:
		default:
			return false
		}
	}
	return views > 0
}

// gradients says of each input of a node how many bytes its backward makes for it: 0 where it hands on what arrives.
func (s *stretch) gradients(in *recording.Instruction) []int64 {
	bytes, held := make([]int64, len(in.Edges)), map[int]int64{}
	for i := range in.Backward {
		switch b := &in.Backward[i]; b.Kind {
		case recording.Take:
			held[b.N] = s.elements(b.Size) * recordedType(b.Type, s.half).Size()
		case recording.Embedding:
			held[b.N] = s.elements(b.Rows) * s.elements(b.Cols) * recordedType(b.Type, s.half).Size()
		case recording.Send, recording.SendView, recording.SendAgain:
			bytes[b.K] = held[b.N]
		}
	}
	return bytes
}
