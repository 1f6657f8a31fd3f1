package estimator

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/result"
)

// WithPictures is a job whose model reads pictures, as it is trained where the job leaves that open, and what was
// assumed for it: the objective, and how many pictures a sequence has and of which size. Other jobs are returned as
// they are.
func WithPictures(in Input) (Input, []Note) {
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
func picturesByDefault(t *Training, a *model.Architecture) []Note {
	if a.TextOf != nil {
		return noteWhole(a)
	}
	if !a.Sees() {
		return nil
	}
	o := Objective{}
	if t.Objective != nil {
		o = *t.Objective
	}
	shows := o.Images != 0 || len(o.ImageSize) != 0 || o.ImageTokens != 0 || o.FreezeVision
	if o.Kind != visionLanguage && !shows {
		if pictures.LeavesPictures(a) {
			return noteWhole(a)
		}
	}
	if o.Kind != "" && o.Kind != visionLanguage {
		return nil // said where the objective is read
	}
	o.Kind = visionLanguage
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
	return []Note{{Code: "pictures-assumed", Text: fmt.Sprintf("the job does not say which pictures it shows: one of %s "+
		"in each sequence was taken, %s; %s says it", strings.Join(assumed, " of "), why, strings.Join(flags, " and "))}}
}

// noteTextTargets says which modules get adapters where a job of a model that reads pictures names none.
func (r *work) noteTextTargets(l *LoRA) {
	if len(l.TargetModules) > 0 {
		return
	}
	if targets := r.arch.TextTargets(); len(targets) > 0 {
		r.pictureNotes = append(r.pictureNotes, Note{Code: "targets-assumed", Text: fmt.Sprintf("peft has no default "+
			"modules for %s and would stop; adapters on %s were taken, its default for the text model; --lora-target "+
			"(lora.target_modules) names others", r.arch.Family, strings.Join(targets, " and "))})
	}
}

// noteWhole says what of a model with towers is trained on text.
func noteWhole(a *model.Architecture) []Note {
	whole := a.TextOf
	idle, with := a.WithTowers()
	if !with {
		return []Note{{Code: "without-tower", Text: fmt.Sprintf("a %s counts as its text model alone, %s; where "+
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
	return []Note{{Code: "idle-towers", Text: text}}
}
