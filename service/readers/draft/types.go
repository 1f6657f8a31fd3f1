package draft

import "strings"

// Dtype reads a type's name: torch.bfloat16, bf16.
func Dtype(s string) string {
	switch strings.TrimPrefix(strings.ToLower(s), "torch.") {
	case "bfloat16", "bf16":
		return "bf16"
	case "float16", "fp16", "half":
		return "fp16"
	case "float32", "fp32", "float":
		return "fp32"
	}
	return ""
}

// Optimizer is a job document's optimizer.
type Optimizer struct {
	Name           string `json:"name"`
	Implementation string `json:"implementation,omitempty"`
}
