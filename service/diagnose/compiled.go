package diagnose

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// compiledLine is a line of a graph that Inductor wrote, which allocates one tensor and says its shape.
type compiledLine struct {
	line  int
	text  string
	shape string
	bytes int64
	class Class
}

// emptyStrided is how Inductor's graphs allocate: buf12 = empty_strided_cuda((8192, 50304), (50304, 1), torch.float32).
// Source: torch/_inductor/codegen/wrapper.py (make_allocation), torch 2.1 to 2.15.
var emptyStrided = regexp.MustCompile(`empty_strided(?:_cuda|_xpu)?\(\(([0-9, ]+)\), ?\([0-9, ]*\),[^)]*?torch\.(\w+)`)

// typeBytes are the widths of the types that stand there.
var typeBytes = map[string]int64{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4,
	"int16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}

// compiledRequest is the allocation of a compiled graph that failed at line at (from 1); nil where it was none.
func compiledRequest(all []line, at int) *compiledLine {
	code, number, _ := failing(all, at)
	found := emptyStrided.FindStringSubmatch(code)
	if found == nil {
		return nil
	}
	width := typeBytes[found[2]]
	if width == 0 {
		return nil
	}
	k := &compiledLine{line: number, text: clip(strings.TrimSpace(code), 160), bytes: width}
	var dims []int64
	for field := range strings.SplitSeq(found[1], ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n <= 0 || k.bytes > math.MaxInt64/n {
			return nil
		}
		k.bytes *= n
		dims = append(dims, n)
	}
	if len(dims) == 0 {
		return nil
	}
	k.shape = strings.ReplaceAll(strings.Trim(strings.TrimSpace(found[1]), ","), ", ", " × ") + " in " + found[2]
	k.class = classOfShape(dims)
	return k
}

// leastVocabulary is the least last dimension that is called a vocabulary: those of language models begin at BERT's
// 28,996 and GPT-2's 50,257, and the widest MLP below it is that of Llama 2 70B with 28,672.
const leastVocabulary = 28_700

// classOfShape says what a tensor of a graph is by its shape: a vocabulary behind tokens are logits, tokens by tokens
// behind heads are scores, and the rest is of a layer.
func classOfShape(dims []int64) Class {
	last := dims[len(dims)-1]
	switch {
	case len(dims) >= 2 && last >= leastVocabulary:
		return ClassLogits
	case len(dims) >= 3 && last >= 256 && dims[len(dims)-2] == last:
		return ClassAttentionScores
	}
	return ClassActivations
}
