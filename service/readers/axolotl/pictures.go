package axolotl

import (
	"cmp"

	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/source"
)

// pictures reads what makes axolotl load a model for pictures (axolotl 0.19 loaders/model.py: is_multimodal),
// and the side that it cuts them to.
func (r *job) pictures() {
	v, ok := r.In.Get("processor_type", "is_multimodal")
	loads := ok && !v.Off()
	switch {
	case loads && models.Pictures(r.Launch, r.Out) == source.NoPictures && len(r.Out.Refusals) > 0:
		return // said already
	case loads && models.Pictures(r.Launch, r.Out) == source.NoPictures:
		r.Out.Refuse("model-kind", v.Origin.At, "%s %s: %s reads pictures, and the catalog has no model with them of that name",
			v.Origin.Key, v.String(), cmp.Or(r.Out.Text("/model/preset"), "the model"))
		return
	case loads:
		models.ShowPictures(r.Launch, r.Out, v.Origin.Key)
	default:
		models.ShowPictures(r.Launch, r.Out, "")
	}
	if size, given := r.In.Get("image_size"); given && models.Shows(r.Launch, r.Out) {
		r.Out.Assume("/training/objective", "image_size %s (%s) is what axolotl makes of a picture before the processor", size.String(),
			size.Origin.At.Where())
	}
	r.In.Read("image_resize_algorithm", "skip_prepare_dataset", "remove_unused_columns")
}
