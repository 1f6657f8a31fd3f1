package models

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Targets is a list of modules; "all" is every linear layer in tools that have their own word for it.
func Targets(v setting.Value) []string {
	list := v.Strings()
	if len(list) == 1 && (list[0] == "all" || list[0] == "all-linear" || list[0] == "all_linear") {
		return []string{"all-linear"}
	}
	return list
}

// QuantizedName takes the base's type from the name of a checkpoint that is stored quantized.
func QuantizedName(d *draft.Draft, pointer string) bool {
	name := strings.ToLower(d.Text("/model/preset"))
	kind := ""
	switch {
	case strings.Contains(name, "bnb-4bit"):
		kind = "nf4"
	case IsGPTQ(name):
		kind = "gptq-int4"
	default:
		return false
	}
	d.Derive(pointer, kind, "the checkpoint %s is stored so", d.Text("/model/preset"))
	return true
}

// IsGPTQ reports whether a checkpoint is quantized by GPTQ, as its name says.
func IsGPTQ(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "gptq") || strings.HasSuffix(name, "-int4")
}
