package models

import (
	"fmt"
	"math"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Pictures is how the model that is read so far is trained.
func Pictures(l *launch.Launch, d *draft.Draft) source.Pictures {
	name, _ := d.Fields["/model/preset"].Value.(string)
	if name == "" || l.Files.Source.Pictures == nil {
		return source.NoPictures
	}
	return l.Files.Source.Pictures(name)
}

// Shows reports whether the job trains with pictures.
func Shows(l *launch.Launch, d *draft.Draft) bool {
	return d.Has("/training/objective/kind") && Pictures(l, d) != source.NoPictures
}

// ShowPictures makes a job one of pictures, whose number and size no file says. loaded is what loads the model for
// them, empty where nothing but the model's name speaks for it.
func ShowPictures(l *launch.Launch, d *draft.Draft, loaded string) {
	kind := Pictures(l, d)
	if kind == source.NoPictures || kind == source.SomePictures && loaded == "" {
		return
	}
	const objective = "/training/objective"
	why := "the model reads pictures"
	if loaded != "" {
		why = loaded + " loads it with its tower"
	}
	d.Derive(objective+"/kind", "vision-language", "%s", why)
	d.Drop("/training/loss")
	if !d.Has(objective + "/image_size") {
		d.Assume(objective, "one picture stands in each sequence, of the size that its processor usually makes: which "+
			"pictures the data have no file says (--set objective.images=N --set objective.image_size=[H,W])")
	}
}

// LargestPicture takes a bound of pixels for the size of the pictures, of models whose processors leave it open.
func LargestPicture(d *draft.Draft, v setting.Value) {
	pixels, ok := v.Int()
	name, _ := d.Fields["/model/preset"].Value.(string)
	const side = 28 // Qwen's patches and their merging
	if !ok || pixels < side*side || !strings.Contains(strings.ToLower(name), "qwen") {
		return
	}
	n := int64(math.Sqrt(float64(pixels))) / side * side
	d.Put("/training/objective/image_size", []int64{n, n}, v)
	d.Assume("/training/objective/image_size", "every picture counts as the largest square that %s lets through",
		v.Origin.Key)
}

// TextTargets names linear layers of the text model alone, as peft takes it.
func TextTargets(named any) string {
	names := []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
	if list, ok := named.([]string); ok && (len(list) != 1 || list[0] != "all-linear") {
		names = list
	}
	return fmt.Sprintf(`.*(language|text)_model.*\.(%s)`, strings.Join(names, "|"))
}
