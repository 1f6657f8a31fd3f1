package readers

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Pictures says how a model of the catalog is trained with pictures.
type Pictures int

// Kinds of models.
const (
	// NoPictures is a model that reads none.
	NoPictures Pictures = iota
	// SomePictures is one that is trained as its text model alone where a job shows it none.
	SomePictures
	// AlwaysPictures is one that is trained with pictures.
	AlwaysPictures
)

// PicturesOf is the kind of a model that reads pictures, and is always trained with some or not.
func PicturesOf(reads, always bool) Pictures {
	switch {
	case always:
		return AlwaysPictures
	case reads:
		return SomePictures
	}
	return NoPictures
}

// picturesOf is how the model that is read so far is trained.
func picturesOf(l *launch, d *draft) Pictures {
	name, _ := d.fields["/model/preset"].value.(string)
	if name == "" || l.files.source.Pictures == nil {
		return NoPictures
	}
	return l.files.source.Pictures(name)
}

// shows reports whether the job trains with pictures.
func shows(l *launch, d *draft) bool {
	return d.has("/training/objective/kind") && picturesOf(l, d) != NoPictures
}

// showPictures makes a job one of pictures, whose number and size no file says. loaded is what loads the model for
// them, empty where nothing but the model's name speaks for it.
func showPictures(l *launch, d *draft, loaded string) {
	kind := picturesOf(l, d)
	if kind == NoPictures || kind == SomePictures && loaded == "" {
		return
	}
	const objective = "/training/objective"
	why := "the model reads pictures"
	if loaded != "" {
		why = loaded + " loads it with its tower"
	}
	d.derive(objective+"/kind", "vision-language", "%s", why)
	d.drop("/training/loss")
	if !d.has(objective + "/image_size") {
		d.assume(objective, "one picture stands in each sequence, of the size that its processor usually makes: which "+
			"pictures the data have no file says (--set objective.images=N --set objective.image_size=[H,W])")
	}
}

const refFactoryFreezes = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py freeze_vision_tower"

// llamaFactoryPictures reads what LLaMA-Factory trains of a model that reads pictures: with the tower and what joins it
// to the text model frozen, where nothing says otherwise, adapters are on the text model's layers alone
// (model/model_utils/visual.py, patch_target_modules).
func (r *reading) llamaFactoryPictures() {
	showPictures(r.launch, r.d, "")
	if !shows(r.launch, r.d) {
		return
	}
	const objective = "/training/objective"
	frozen := true
	if v, ok := r.s.Get("freeze_vision_tower"); ok && v.Unknown == "" {
		frozen = !v.Off()
		if frozen {
			r.d.put(objective+"/freeze_vision", true, v)
		}
	} else {
		r.d.fall(objective+"/freeze_vision", true, "freeze_vision_tower", refFactoryFreezes)
	}
	if v, ok := r.s.Get("image_max_pixels"); ok {
		r.largestPicture(v)
	}
	if v, ok := r.s.Get("freeze_language_model"); ok && v.On() {
		r.d.refuse("unsupported", v.Origin.At, "freeze_language_model trains the tower alone, which is not modelled")
	}
	if f := r.d.fields["/training/lora/target_modules"]; frozen && f.value != nil {
		f.value = []string{textTargets(f.value)}
		r.d.fields["/training/lora/target_modules"] = f
		return
	}
	if v, ok := r.s.Get("freeze_multi_modal_projector"); frozen && !r.adapters() && (!ok || v.On()) {
		r.d.assume(objective+"/freeze_vision", "what joins the tower to the text model counts as trained, unless it is a "+
			"part of the tower, as Qwen's is: LLaMA-Factory freezes it, too")
	}
}

// axolotlPictures reads what makes axolotl load a model for pictures (axolotl 0.19 loaders/model.py: is_multimodal),
// and the side that it cuts them to.
func (r *reading) axolotlPictures() {
	v, ok := r.s.Get("processor_type", "is_multimodal")
	loads := ok && !v.Off()
	switch {
	case loads && picturesOf(r.launch, r.d) == NoPictures && len(r.d.refusals) > 0:
		return // said already
	case loads && picturesOf(r.launch, r.d) == NoPictures:
		r.d.refuse("model-kind", v.Origin.At, "%s %s: %s reads pictures, and the catalog has no model with them of that name",
			v.Origin.Key, v.String(), cmp.Or(r.d.text("/model/preset"), "the model"))
		return
	case loads:
		showPictures(r.launch, r.d, v.Origin.Key)
	default:
		showPictures(r.launch, r.d, "")
	}
	if size, given := r.s.Get("image_size"); given && shows(r.launch, r.d) {
		r.d.assume("/training/objective", "image_size %s (%s) is what axolotl makes of a picture before the processor", size.String(),
			size.Origin.At.Where())
	}
	r.s.Read("image_resize_algorithm", "skip_prepare_dataset", "remove_unused_columns")
}

// largestPicture takes a bound of pixels for the size of the pictures, of models whose processors leave it open.
func (r *reading) largestPicture(v setting.Value) {
	pixels, ok := v.Int()
	name, _ := r.d.fields["/model/preset"].value.(string)
	const side = 28 // Qwen's patches and their merging
	if !ok || pixels < side*side || !strings.Contains(strings.ToLower(name), "qwen") {
		return
	}
	n := int64(math.Sqrt(float64(pixels))) / side * side
	r.d.put("/training/objective/image_size", []int64{n, n}, v)
	r.d.assume("/training/objective/image_size", "every picture counts as the largest square that %s lets through",
		v.Origin.Key)
}

// textTargets names linear layers of the text model alone, as peft takes it.
func textTargets(named any) string {
	names := []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
	if list, ok := named.([]string); ok && (len(list) != 1 || list[0] != "all-linear") {
		names = list
	}
	return fmt.Sprintf(`.*(language|text)_model.*\.(%s)`, strings.Join(names, "|"))
}
