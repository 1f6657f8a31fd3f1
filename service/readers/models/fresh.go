package models

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
)

// FreshType is the type that random weights have: that of the configuration, and float32 where it says none
// (transformers 4.57.6 modeling_utils.py _from_config). The argument torch_dtype is not handed on to them.
func FreshType(d *draft.Draft) string {
	text, _ := d.Fields["/model/hf_config"].Value.(json.RawMessage)
	var c struct {
		Dtype      string `json:"dtype"`
		TorchDtype string `json:"torch_dtype"`
	}
	if len(text) == 0 || json.Unmarshal(text, &c) != nil {
		return ""
	}
	return draft.Dtype(strings.TrimPrefix(cmp.Or(c.Dtype, c.TorchDtype), "torch."))
}
