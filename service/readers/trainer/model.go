package trainer

import (
	"path"

	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// modelNames are the names that programs give to the model that they go on with.
var modelNames = []string{"model_name_or_path", "base_model", "model_name", "model_id",
	"pretrained_model_name_or_path", "model_path", "base_model_name_or_path", "model"}

// trainedModel is the model that is gone on with, or else one that begins with random weights of the shapes of
// config_name (transformers 4.57.6 examples/pytorch/language-modeling/run_clm.py: AutoModelForCausalLM.from_config).
func (r *job) trainedModel() {
	shapes, ok := r.In.Get("config_name")
	for _, key := range modelNames {
		v, given := r.In.Peek(key)
		if given && (v.Unknown != "" || !v.Off()) {
			ok = false
		}
	}
	if !ok || shapes.Unknown != "" || shapes.Off() {
		if v, named := r.named(); named && !r.In.Any(modelNames...) {
			models.Of(r.Launch, r.Out, v)
			return
		}
		r.Model(modelNames...)
		return
	}
	r.Fresh = true
	if path.Ext(shapes.String()) != ".json" {
		models.Of(r.Launch, r.Out, shapes)
		return
	}
	full, text, err := r.Open(shapes.String(), r.Beside(shapes.Origin.At))
	config, ok := jobdoc.Configuration(text)
	if err != nil || !ok || path.Base(full) != path.Base(shapes.String()) {
		r.Out.Ask("/model", "What is in "+shapes.String()+"? Give that configuration.", shapes.Origin.At.Where()+
			" names it, and it is not there")
		return
	}
	r.Out.Put("/model/hf_config", config, shapes)
}

// named is the model's name where the program has it itself: from_pretrained("gpt2").
func (r *job) named() (v setting.Value, ok bool) {
	if r.Code == nil {
		return v, false
	}
	call, ok := r.Code.ModelCall()
	if !ok {
		return v, false
	}
	v, given := call.Keywords.Peek("pretrained_model_name_or_path")
	if !given && len(call.Position) > 0 {
		v, given = call.Position[0], true
		v.Origin.Key = call.Name
	}
	_, isName := v.Any.(string)
	return v, given && isName && v.Unknown == ""
}
