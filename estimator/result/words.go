package result

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/step"
)

// InBytes is the size of an element of type d, in words.
func InBytes(d step.DType) string { return fmt.Sprintf("%d B (%s)", d.Size(), Dtype(d)) }

// Dtype is the name of a type as the job document has it.
func Dtype(d step.DType) string {
	switch d {
	case step.F32:
		return "fp32"
	case step.BF16:
		return "bf16"
	case step.F16:
		return "fp16"
	case step.F64:
		return "fp64"
	case step.I64:
		return "int64"
	case step.Bool:
		return "bool"
	}
	return "other"
}

// Grouped writes n with thousands separators.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
