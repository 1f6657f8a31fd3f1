package llamafactory

import (
	"fmt"
	"math"
	"strings"

	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
)

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
		r.largestPicture(v)
	}
	if v, ok := r.In.Get("freeze_language_model"); ok && v.On() {
		r.Out.Refuse("unsupported", v.Origin.At, "freeze_language_model trains the tower alone, which is not modelled")
	}
	if f := r.Out.Fields["/training/lora/target_modules"]; frozen && f.Value != nil {
		f.Value = []string{textTargets(f.Value)}
		r.Out.Fields["/training/lora/target_modules"] = f
		return
	}
	if v, ok := r.In.Get("freeze_multi_modal_projector"); frozen && !r.Adapters() && (!ok || v.On()) {
		r.Out.Assume(objective+"/freeze_vision", "what joins the tower to the text model counts as trained, unless it is a "+
			"part of the tower, as Qwen's is: LLaMA-Factory freezes it, too")
	}
}

// largestPicture takes a bound of pixels for the size of the pictures, of models whose processors leave it open.
func (r *job) largestPicture(v setting.Value) {
	pixels, ok := v.Int()
	name, _ := r.Out.Fields["/model/preset"].Value.(string)
	const side = 28 // Qwen's patches and their merging
	if !ok || pixels < side*side || !strings.Contains(strings.ToLower(name), "qwen") {
		return
	}
	n := int64(math.Sqrt(float64(pixels))) / side * side
	r.Out.Put("/training/objective/image_size", []int64{n, n}, v)
	r.Out.Assume("/training/objective/image_size", "every picture counts as the largest square that %s lets through",
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
