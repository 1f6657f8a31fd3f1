package resolve

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// WithPictures is a job whose model reads pictures, as it is trained where the job leaves that open, and what was
// assumed for it: the objective, and how many pictures a sequence has and of which size. Other jobs are returned as
// they are.
func WithPictures(in resolved.Input) (resolved.Input, []result.Note) {
	var wrong invalid.List
	if in.Job.Model.Diffusion != nil || in.Job.Model.Recorded != nil {
		return in, nil
	}
	a := architecture(&in, &wrong)
	if wrong.Err() != nil || !a.Sees() {
		return in, nil
	}
	return in, picturesByDefault(&in.Job.Training, &a)
}

// picturesByDefault fills in what a job leaves open of the pictures that its model reads. A model that has a class
// without the tower is trained as that one where the objective is not of pictures, and a becomes that.
func picturesByDefault(t *job.Training, a *model.Architecture) []result.Note {
	if a.TextOf != nil {
		return noteWhole(a)
	}
	if !a.Sees() {
		return nil
	}
	o := job.Objective{}
	if t.Objective != nil {
		o = *t.Objective
	}
	shows := o.Images != 0 || len(o.ImageSize) != 0 || o.ImageTokens != 0 || o.FreezeVision
	if o.Kind != fields.VisionLanguage && !shows {
		if pictures.LeavesPictures(a) {
			return noteWhole(a)
		}
	}
	if o.Kind != "" && o.Kind != fields.VisionLanguage {
		return nil // said where the objective is read
	}
	o.Kind = fields.VisionLanguage
	t.Objective = &o
	if o.Images != 0 && (len(o.ImageSize) != 0 || pictures.PictureSize(a) != 0) {
		return nil
	}
	sequence := t.SequenceLength
	if sequence == 0 {
		sequence = a.MaxPositions
	}
	p := model.Pictures{Images: o.Images}
	if len(o.ImageSize) == 2 {
		p.Height, p.Width = o.ImageSize[0], o.ImageSize[1]
	}
	usual, why := pictures.UsualPictures(a, p, sequence)
	if usual.Images == 0 {
		return nil
	}
	var assumed, flags []string
	if o.Images == 0 {
		o.Images = usual.Images
		if usual.Images > 1 {
			assumed, flags = append(assumed, fmt.Sprintf("%d tiles", o.Images)), append(flags, "--images N (images)")
		}
	}
	if len(o.ImageSize) == 0 && pictures.PictureSize(a) == 0 {
		o.ImageSize = []int64{usual.Height, usual.Width}
		assumed = append(assumed, fmt.Sprintf("%d × %d pixels", usual.Height, usual.Width))
		flags = append(flags, "--image-size H,W (image_size)")
	}
	if len(assumed) == 0 {
		return nil
	}
	return []result.Note{{Code: "pictures-assumed", Text: fmt.Sprintf("the job does not say which pictures it shows: one of %s "+
		"in each sequence was taken, %s; %s says it", strings.Join(assumed, " of "), why, strings.Join(flags, " and "))}}
}

// noteTextTargets says which modules get adapters where a job of a model that reads pictures names none.
func (r resolver) noteTextTargets(l *job.LoRA) {
	if len(l.TargetModules) > 0 {
		return
	}
	if targets := r.Arch.TextTargets(); len(targets) > 0 {
		r.PictureNotes = append(r.PictureNotes, result.Note{Code: "targets-assumed", Text: fmt.Sprintf("peft has no default "+
			"modules for %s and would stop; adapters on %s were taken, its default for the text model; --lora-target "+
			"(lora.target_modules) names others", r.Arch.Family, strings.Join(targets, " and "))})
	}
}

// noteWhole says what of a model with towers is trained on text.
func noteWhole(a *model.Architecture) []result.Note {
	whole := a.TextOf
	idle, with := a.WithTowers()
	if !with {
		return []result.Note{{Code: "without-tower", Text: fmt.Sprintf("a %s counts as its text model alone, %s; where "+
			"architectures in its file name the class with towers, as trl loads a model by its name, they count, too",
			whole.Family, whole.TextClass)}}
	}
	text := fmt.Sprintf("a %s is trained on text here, since the job shows it no pictures: the %s parameters of its "+
		"towers are loaded and get no gradient", whole.Family, result.Grouped(idle))
	switch {
	case whole.Auto:
		text += fmt.Sprintf("; AutoModelForCausalLM loads %s, which leaves them out (architectures in the configuration "+
			"says which)", whole.TextClass)
	case whole.TextClass != "":
		text += fmt.Sprintf("; loaded as %s it leaves them out (architectures in the configuration says so), and the "+
			"objective vision-language (--objective vision-language) trains it with pictures", whole.TextClass)
	}
	return []result.Note{{Code: "idle-towers", Text: text}}
}

// VisionFields are those of an objective that it reads.
var VisionFields = []string{"images", "image_size", "image_tokens", "freeze_vision"}

// vision is what an objective of the kind vision-language says of the pictures in a sequence.
func (r resolver) vision(t *job.Training, errs *invalid.List) {
	const pointer = fields.ObjectivePointer
	o := t.Objective
	asked := o != nil && o.Kind == fields.VisionLanguage
	if r.Arch.Family == "" {
		return // said already
	}
	if !asked {
		r.withoutPictures(o, errs)
		return
	}
	if !r.Arch.Sees() {
		errs.Add(pointer+"/kind", "conflict", "%s reads no pictures among its tokens; the kind vision-language is for "+
			"models that do, such as llava", r.Arch.Family)
		return
	}
	refuseWithPictures(t, errs)
	fields.Unread(VisionFields, fields.VisionLanguage, o, errs)
	if o.PromptTokens != 0 || o.CompletionTokens != 0 {
		errs.Add(pointer, "conflict", "prompt_tokens and completion_tokens do not belong to the objective %s; "+
			"sequence_length counts text and pictures", fields.VisionLanguage)
	}
	p := model.Pictures{Images: max(o.Images, 1), Height: pictures.PictureSize(&r.Arch),
		Width:  pictures.PictureSize(&r.Arch),
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
			"[height, width] in pixels says how many tokens one takes", r.Arch.Family)
		return
	}
	const mostImages, mostPixels = 4096, 1 << 14
	if p.Images < 1 || p.Images > mostImages || p.Height < 1 || p.Height > mostPixels || p.Width < 1 ||
		p.Width > mostPixels {
		errs.Add(pointer, "out_of_range", "%d pictures of [%d, %d] pixels are asked for; up to %d of at most [%d, "+
			"%d] are modelled", p.Images, p.Height, p.Width, mostImages, mostPixels, mostPixels)
		return
	}
	tokens := pictures.Show(&r.Arch, p, pointer, errs)
	if tokens == 0 {
		return
	}
	const mostPictures = 1 << 14 // of a micro-batch, each of which takes operations of its own
	if p.Images > mostPictures/max(r.Shape.Batch, 1) {
		errs.Add(pointer+"/images", "out_of_range", "%d pictures in each of %d sequences are asked for; up to %d in a "+
			"micro-batch are modelled", p.Images, r.Shape.Batch, mostPictures)
		return
	}
	const mostParts = 1 << 18 // parts of pictures that a layer attends within one by one, of all layers of the tower
	if parts := pictures.PictureParts(&r.Arch, p); parts > mostParts/max(r.Shape.Batch, 1) {
		errs.Add(pointer, "out_of_range", "the tower's layers attend within %d windows or pictures a sequence, and %d "+
			"a micro-batch are modelled; take fewer or smaller pictures", parts, mostParts)
		return
	}
	if o.ImageTokens != 0 && o.ImageTokens != tokens {
		errs.Add(pointer+"/image_tokens", "conflict", "image_tokens is %d, and %d pictures of [%d, %d] take %d in "+
			"%s; leave it out", o.ImageTokens, p.Images, p.Height, p.Width, tokens, r.Arch.Family)
	}
	r.Pictures, r.PictureParts = p.Images*max(r.Shape.Batch, 1), pictures.PictureParts(&r.Arch, p)*max(r.Shape.Batch, 1)
	r.Shape.Images, r.Shape.Height, r.Shape.Width = p.Images, p.Height, p.Width
	r.PictureTokens = tokens
	if r.Shape.Tokens < tokens {
		errs.Add("/training/sequence_length", "conflict", "sequence_length is %d, and the pictures alone take %d "+
			"tokens of a sequence", r.Shape.Tokens, tokens)
	}
}

// withoutPictures refuses a model that sees where no pictures are said, and pictures where no model sees them.
func (r resolver) withoutPictures(o *job.Objective, errs *invalid.List) {
	const pointer = fields.ObjectivePointer
	if r.Arch.Sees() {
		errs.Add(pointer, "required",
			`%s reads pictures: give {"kind": "vision-language", "images": …, "image_size": [height, width]}, and of each sequence how many of its tokens are text follows from sequence_length; `+
				"for text alone give the object under text_config as hf_config", r.Arch.Family)
		return
	}
	if o != nil && (o.Images != 0 || len(o.ImageSize) != 0 || o.ImageTokens != 0 || o.FreezeVision) {
		errs.Add(pointer, "conflict", "images, image_size, image_tokens and freeze_vision belong to the "+
			"kind vision-language")
	}
}

// refuseWithPictures names what no trace has shown together with pictures.
func refuseWithPictures(t *job.Training, errs *invalid.List) {
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
func (r resolver) picturesFit(errs *invalid.List) {
	rc := &r.Recipe
	if r.Arch.Family != "smolvlm" || !rc.Autocast {
		return
	}
	quantised := r.Arch.LoRA != nil && r.Arch.LoRA.Base != step.NotQuantised
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
