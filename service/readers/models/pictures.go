package models

import (
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
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
