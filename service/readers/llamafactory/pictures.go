package llamafactory

import "github.com/vramplan/vramplan/service/readers/models"

const refFactoryFreezes = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py freeze_vision_tower"

// pictures reads what LLaMA-Factory trains of a model that reads pictures: with the tower and what joins it
// to the text model frozen, where nothing says otherwise, adapters are on the text model's layers alone
// (model/model_utils/visual.py, patch_target_modules).
func (r *job) pictures() {
	models.ShowPictures(r.Launch, r.Out, "")
	if !models.Shows(r.Launch, r.Out) {
		return
	}
	const objective = "/training/objective"
	frozen := true
	if v, ok := r.In.Get("freeze_vision_tower"); ok && v.Unknown == "" {
		frozen = !v.Off()
		if frozen {
			r.Out.Put(objective+"/freeze_vision", true, v)
		}
	} else {
		r.Out.Fall(objective+"/freeze_vision", true, "freeze_vision_tower", refFactoryFreezes)
	}
	if v, ok := r.In.Get("image_max_pixels"); ok {
		models.LargestPicture(r.Out, v)
	}
	if v, ok := r.In.Get("freeze_language_model"); ok && v.On() {
		r.Out.Refuse("unsupported", v.Origin.At, "freeze_language_model trains the tower alone, which is not modelled")
	}
	if f := r.Out.Fields["/training/lora/target_modules"]; frozen && f.Value != nil {
		f.Value = []string{models.TextTargets(f.Value)}
		r.Out.Fields["/training/lora/target_modules"] = f
		return
	}
	if v, ok := r.In.Get("freeze_multi_modal_projector"); frozen && !r.Adapters() && (!ok || v.On()) {
		r.Out.Assume(objective+"/freeze_vision", "what joins the tower to the text model counts as trained, unless it is a "+
			"part of the tower, as Qwen's is: LLaMA-Factory freezes it, too")
	}
}
