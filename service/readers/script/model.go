package script

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// modelArguments are model_init_kwargs; a BitsAndBytesConfig of the program is read by its own call.
func (r *job) modelArguments() {
	if _, quantizes := r.Code.Call("BitsAndBytesConfig"); quantizes {
		r.ModelArguments("quantization_config")
		return
	}
	r.ModelArguments()
}

// model reads what is trained: the name that the trainer is given, which it loads by model_init_kwargs, or the
// call that loads the model (trl 1.16.0 trainer/sft_trainer.py: model_init_kwargs of a model that is loaded already are
// ignored).
func (r *job) model() {
	if trainer, has := r.Code.TrainerCall(); has {
		v, given := trainer.Keywords.Get("model")
		if !given && len(trainer.Position) > 0 {
			v, given = trainer.Position[0], true
			v.Origin.Key = trainer.Name
		}
		if name, isName := v.Any.(string); given && v.Unknown == "" && isName && name != "" {
			models.Of(r.Launch, r.Out, v)
			r.modelArguments()
			return
		}
	}
	call, ok := r.Code.ModelCall()
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", r.Code.File+" loads none in a way that can be read")
		r.modelArguments()
		return
	}
	r.In.Read("model_init_kwargs")
	v, given := call.Keywords.Get("model_name", "pretrained_model_name_or_path")
	if !given && len(call.Position) > 0 {
		v, given = call.Position[0], true
		v.Origin.Key = call.Name
	}
	if given {
		models.Of(r.Launch, r.Out, v)
	} else {
		r.Out.Ask("/model", "Which model is trained?", setting.Span{File: r.Code.File, Line: call.Line}.Where())
	}
	if call.Spread != nil {
		r.Out.Ask("/training/precision", "In which type is the model loaded?", call.Spread.Origin.At.Where()+": **"+
			call.Spread.Text+" cannot be followed")
	}
	r.HeadOf(call)
	r.Code.ModelsBeside(call, r.Out)
	loads := programs.LoadsPictures.MatchString(call.Name) ||
		strings.HasSuffix(call.Name, "ForConditionalGeneration.from_pretrained")
	switch {
	case loads && models.Pictures(r.Launch, r.Out) != source.NoPictures:
		models.ShowPictures(r.Launch, r.Out, call.Name[:strings.LastIndexByte(call.Name, '.')])
	case programs.LoadsPictures.MatchString(call.Name):
		r.Out.Uncertain("/model", "the model trains on text alone: what %s (%s) loads for pictures is not in it", call.Name,
			setting.Span{File: r.Code.File, Line: call.Line}.Where())
	}
	for _, key := range []string{"torch_dtype", "dtype", "attn_implementation", "load_in_4bit", "load_in_8bit",
		"full_finetuning", "max_seq_length"} {
		if v, ok := call.Keywords.Peek(key); ok && !r.In.Has(key) && v.Given() {
			r.In.Set(key, v)
		}
	}
}
