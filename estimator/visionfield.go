package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/step"
)

// visionLanguage is the kind of training with pictures among the tokens.
const visionLanguage = "vision-language"

// visionFields are those of an objective that it reads.
var visionFields = []string{"images", "image_size", "image_tokens", "freeze_vision"}

// vision is what an objective of the kind vision-language says of the pictures in a sequence.
func (r *work) vision(t *Training, errs *invalid.List) {
	const pointer = objectivePointer
	o := t.Objective
	asked := o != nil && o.Kind == visionLanguage
	if r.arch.Family == "" {
		return // said already
	}
	if !asked {
		r.withoutPictures(o, errs)
		return
	}
	if !r.arch.Sees() {
		errs.Add(pointer+"/kind", "conflict", "%s reads no pictures among its tokens; the kind vision-language is for "+
			"models that do, such as llava", r.arch.Family)
		return
	}
	refuseWithPictures(t, errs)
	how := trainer{fields: visionFields}
	how.unread(visionLanguage, o, errs)
	if o.PromptTokens != 0 || o.CompletionTokens != 0 {
		errs.Add(pointer, "conflict", "prompt_tokens and completion_tokens do not belong to the objective %s; "+
			"sequence_length counts text and pictures", visionLanguage)
	}
	p := model.Pictures{Images: max(o.Images, 1), Height: pictures.PictureSize(&r.arch),
		Width:  pictures.PictureSize(&r.arch),
		Frozen: o.FreezeVision}
	switch {
	case len(o.ImageSize) == 2:
		p.Height, p.Width = o.ImageSize[0], o.ImageSize[1]
	case len(o.ImageSize) != 0:
		errs.Add(pointer+"/image_size", "out_of_range", "image_size has %d numbers; it is [height, width] in pixels",
			len(o.ImageSize))
		return
	case p.Height == 0:
		errs.Add(pointer+"/image_size", "required", "image_size is missing: %s reads pictures of any size, and "+
			"[height, width] in pixels says how many tokens one takes", r.arch.Family)
		return
	}
	const mostImages, mostPixels = 4096, 1 << 14
	if p.Images < 1 || p.Images > mostImages || p.Height < 1 || p.Height > mostPixels || p.Width < 1 ||
		p.Width > mostPixels {
		errs.Add(pointer, "out_of_range", "%d pictures of [%d, %d] pixels are asked for; up to %d of at most [%d, "+
			"%d] are modelled", p.Images, p.Height, p.Width, mostImages, mostPixels, mostPixels)
		return
	}
	tokens := pictures.Show(&r.arch, p, pointer, errs)
	if tokens == 0 {
		return
	}
	const mostPictures = 1 << 14 // of a micro-batch, each of which takes operations of its own
	if p.Images > mostPictures/max(r.shape.Batch, 1) {
		errs.Add(pointer+"/images", "out_of_range", "%d pictures in each of %d sequences are asked for; up to %d in a "+
			"micro-batch are modelled", p.Images, r.shape.Batch, mostPictures)
		return
	}
	const mostParts = 1 << 18 // parts of pictures that a layer attends within one by one, of all layers of the tower
	if parts := pictures.PictureParts(&r.arch, p); parts > mostParts/max(r.shape.Batch, 1) {
		errs.Add(pointer, "out_of_range", "the tower's layers attend within %d windows or pictures a sequence, and %d "+
			"a micro-batch are modelled; take fewer or smaller pictures", parts, mostParts)
		return
	}
	if o.ImageTokens != 0 && o.ImageTokens != tokens {
		errs.Add(pointer+"/image_tokens", "conflict", "image_tokens is %d, and %d pictures of [%d, %d] take %d in "+
			"%s; leave it out", o.ImageTokens, p.Images, p.Height, p.Width, tokens, r.arch.Family)
	}
	r.pictures, r.pictureParts = p.Images*max(r.shape.Batch, 1), pictures.PictureParts(&r.arch, p)*max(r.shape.Batch, 1)
	r.shape.Images, r.shape.Height, r.shape.Width = p.Images, p.Height, p.Width
	r.pictureTokens = tokens
	if r.shape.Tokens < tokens {
		errs.Add("/training/sequence_length", "conflict", "sequence_length is %d, and the pictures alone take %d "+
			"tokens of a sequence", r.shape.Tokens, tokens)
	}
}

// withoutPictures refuses a model that sees where no pictures are said, and pictures where no model sees them.
func (r *work) withoutPictures(o *Objective, errs *invalid.List) {
	const pointer = objectivePointer
	if r.arch.Sees() {
		errs.Add(pointer, "required",
			`%s reads pictures: give {"kind": "vision-language", "images": …, "image_size": [height, width]}, and of each sequence how many of its tokens are text follows from sequence_length; `+
				"for text alone give the object under text_config as hf_config", r.arch.Family)
		return
	}
	if o != nil && (o.Images != 0 || len(o.ImageSize) != 0 || o.ImageTokens != 0 || o.FreezeVision) {
		errs.Add(pointer, "conflict", "images, image_size, image_tokens and freeze_vision belong to the "+
			"kind vision-language")
	}
}

// refuseWithPictures names what no trace has shown together with pictures.
func refuseWithPictures(t *Training, errs *invalid.List) {
	refuse := func(field, what string) {
		errs.Add("/training/"+field, "unsupported", "%s is not modelled together with pictures yet; leave it out", what)
	}
	if t.Attention == "eager" {
		errs.Add("/training/attention", "unsupported", "attention that is written out (eager) is not modelled "+
			"together with pictures yet; use sdpa or flash")
	}
	if t.AttentionMask == "explicit" {
		refuse("attention_mask", "padding")
	}
	if t.Evaluation != nil {
		refuse("evaluation", "an evaluation pass")
	}
	if c := t.GradientCheckpointing; c != nil && (c.Mode != "" && c.Mode != "none" && c.Mode != "full" || c.Every > 1 ||
		c.Offload) {
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"with pictures, gradient_checkpointing full and none are modelled")
	}
	if l := t.Loss; l != nil && l.Kind != "" && l.Kind != "standard" {
		refuse("loss", "another loss than the standard one")
	}
	if len(t.Kernels) > 0 {
		refuse("kernels", "a fused kernel")
	}
	if d := t.Distributed; d != nil && d.WorldSize > 1 {
		refuse("distributed", "more than one GPU")
	}
}

// picturesFit refuses what the library itself fails in: SmolVLM puts features in embeddings of another type. Autocast
// has made the features half as wide; on a base that bitsandbytes quantised they are float32, as a norm left the input
// of the layer that returns its input's type. Sources: transformers/models/smolvlm/modeling_smolvlm.py (inputs_merger),
// 4.57; bitsandbytes/nn/modules.py (Linear4bit.forward), 0.50.
func (r *work) picturesFit(errs *invalid.List) {
	rc := &r.recipe
	if r.arch.Family != "smolvlm" || !rc.Autocast {
		return
	}
	quantised := r.arch.LoRA != nil && r.arch.LoRA.Base != step.NotQuantised
	switch {
	case quantised && rc.Stored != step.F32:
		errs.Add("/training/lora/upcast_base", "conflict",
			"smolvlm fails under autocast on a quantised base whose other "+
				"weights are in half precision; give upcast_base true (prepare_model_for_kbit_training), or precision bf16")
	case !quantised && rc.Stored != rc.Compute:
		errs.Add("/training/states", "conflict",
			`smolvlm fails under autocast with weights in another type than it computes in; give {"weights": "bf16"} with amp-bf16, or precision bf16`)
	}
}
