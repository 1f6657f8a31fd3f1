package finish

import (
	"slices"

	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// stops are the frameworks that load a checkpoint as its config.json says and hand it to transformers' Trainer, which
// stops at quantized weights without adapters (transformers 5.23.0 trainer.py: "You cannot perform fine-tuning on
// purely quantized models").
var stops = setting.SetOf("hf-trainer", "trl", "axolotl", "llama-factory", "ms-swift", "unsloth")

// quantized lays what the checkpoint is stored in over what the tool's words say of the base: they quantize nothing
// that is quantized (transformers quantizers/auto.py merge_quantization_configs keeps the checkpoint's own).
func (r *closing) quantized() {
	q, ok := models.StoredQuantized(r.Out)
	if r.Code != nil {
		if call, made := r.Code.Call("Mxfp4Config"); made && call.Keywords.On("dequantize") {
			return
		}
	}
	if !ok || slices.Contains(r.Dequantized, q.Method) || len(r.Out.Refusals) > 0 {
		return
	}
	at := r.At
	for _, pointer := range []string{"/model/hf_config", "/model/preset"} {
		if f, given := r.Out.Fields[pointer]; given && f.Origin.At.Known() {
			at = f.Origin.At
		}
	}
	switch {
	case q.Method == "mxfp4":
		r.Out.Assume("/model", "the weights are stored by mxfp4, as %s, and brought back as they are loaded, as "+
			"transformers does where no kernels for them are installed; with these, the Trainer stops unless "+
			"Mxfp4Config(dequantize=True) is given", q.From)
	case !stops[r.Out.Text("/training/framework")]:
		r.StrangeAt(at, q.Method, "stores the weights, as "+q.From+", which is not followed")
	case r.Out.Text("/training/framework") == "unsloth" && !r.Out.Has("/model/hf_config"):
		// it loads that of its own checkpoints that goes with load_in_4bit (models/loader_utils.py get_model_name)
	case !q.Trains():
		r.Out.Refuse("cannot-start", at, "the weights are stored by %s, as %s: transformers trains nothing on them (that "+
			"quantization method do not support training); name the checkpoint that is not quantized", q.Method, q.From)
	case r.Out.Has("/training/lora"):
		models.QuantizedBase(r.Out)
	case r.Out.Has("/model/hf_config"):
		r.Out.Refuse("cannot-start", at, "the weights are stored by %s, as %s, and take no gradients: the Trainer stops "+
			"(You cannot perform fine-tuning on purely quantized models); train adapters, or name the checkpoint that is "+
			"not quantized", q.Method, q.From)
	}
}
