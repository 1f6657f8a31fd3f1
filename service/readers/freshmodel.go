package readers

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
)

// modelNames are the names that programs give to the model that they go on with.
var modelNames = []string{"model_name_or_path", "base_model", "model_name", "model_id",
	"pretrained_model_name_or_path", "model_path", "base_model_name_or_path", "model"}

// trainedModel is the model that is gone on with, or else one that begins with random weights of the shapes of
// config_name (transformers 4.57.6 examples/pytorch/language-modeling/run_clm.py: AutoModelForCausalLM.from_config).
func (r *reading) trainedModel() {
	shapes, ok := r.s.Get("config_name")
	for _, key := range modelNames {
		v, given := r.s.Peek(key)
		if given && (v.Unknown != "" || !v.Off()) {
			ok = false
		}
	}
	if !ok || shapes.Unknown != "" || shapes.Off() {
		r.model(modelNames...)
		return
	}
	r.fresh = true
	if path.Ext(shapes.String()) != ".json" {
		modelOf(r.launch, r.d, shapes)
		return
	}
	full, text, err := r.open(shapes.String(), r.beside(shapes.Origin.At))
	config, ok := jobdoc.Configuration(text)
	if err != nil || !ok || path.Base(full) != path.Base(shapes.String()) {
		r.d.ask("/model", "What is in "+shapes.String()+"? Give that configuration.", shapes.Origin.At.Where()+
			" names it, and it is not there")
		return
	}
	r.d.put("/model/hf_config", config, shapes)
}

// freshType is the type that random weights have: that of the configuration, and float32 where it says none
// (transformers 4.57.6 modeling_utils.py _from_config). The argument torch_dtype is not handed on to them.
func freshType(d *draft) string {
	text, _ := d.fields["/model/hf_config"].value.(json.RawMessage)
	var c struct {
		Dtype      string `json:"dtype"`
		TorchDtype string `json:"torch_dtype"`
	}
	if len(text) == 0 || json.Unmarshal(text, &c) != nil {
		return ""
	}
	return dtype(strings.TrimPrefix(cmp.Or(c.Dtype, c.TorchDtype), "torch."))
}

// configOfModel reads the name under which old releases of axolotl look for the model's configuration: mostly that of
// the model itself.
func (r *reading) configOfModel() {
	v, ok := r.s.Peek("base_model_config")
	base, named := r.s.Peek("base_model")
	if ok && named && v.Unknown == "" && strings.TrimSuffix(v.String(), "/") == strings.TrimSuffix(base.String(), "/") {
		r.s.Read("base_model_config")
	}
}
