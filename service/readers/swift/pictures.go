package swift

import (
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/models"
)

const refSwiftFreezes = "ms-swift 4 swift/arguments/tuner_args.py freeze_vit"

// pictures reads what ms-swift trains of a model that reads pictures: the tower and what joins it to the text model are
// frozen where nothing says otherwise, and adapters are then on the text model's layers alone (swift/utils
// get_multimodal_target_regex). Its processors take a bound of pixels from the environment.
func (r *job) pictures() {
	models.ShowPictures(r.Launch, r.Out, "")
	if !models.Shows(r.Launch, r.Out) {
		return
	}
	const frozenField = "/training/objective/freeze_vision"
	frozen := true
	if v, ok := r.In.Get("freeze_vit"); ok && v.Unknown == "" {
		if frozen = !v.Off(); frozen {
			r.Out.Put(frozenField, true, v)
		}
	} else {
		r.Out.Fall(frozenField, true, "freeze_vit", refSwiftFreezes)
	}
	if w, ok := r.Env("MAX_PIXELS"); ok {
		models.LargestPicture(r.Out, launch.Environment(w, "MAX_PIXELS"))
	} else if v, given := r.In.Get("max_pixels"); given {
		models.LargestPicture(r.Out, v)
	}
	if f := r.Out.Fields["/training/lora/target_modules"]; frozen && f.Value != nil {
		f.Value = []string{models.TextTargets(f.Value)}
		r.Out.Fields["/training/lora/target_modules"] = f
	}
}
