package finish

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/models"
)

// ownCode compares the program that the job runs with those that are known. A program of a release does what its
// settings say, and nothing else.
func (r *closing) ownCode() {
	r.strangeModel()
	switch base := path.Base(r.Program.Text); {
	case r.Compare != nil && r.Compare():
	case r.Program.Text == "", r.Launcher == "" && r.table.Commands[base] && !strings.HasPrefix(r.Program.Text, "."):
	default:
		r.StrangeAt(r.Program.Origin.At, base, "may do more, or something else, than its settings say")
	}
}

// strangeModel notes what is about the model and the optimizer, and that the document does not hold: a checkpoint that
// is stored otherwise than its name's family, and states that may leave the GPU.
func (r *closing) strangeModel() {
	if f, ok := r.Out.Fields["/model/hf_config"]; ok {
		text, _ := f.Value.(json.RawMessage)
		for _, key := range []string{"peft_config", "auto_map"} {
			if gjson.GetBytes(text, key).Exists() {
				r.StrangeAt(f.Origin.At, f.Text, "has a config.json with "+key+", which is not followed")
			}
		}
	}
	if f, ok := r.Out.Fields["/model/preset"]; ok {
		switch topic, _ := draft.TopicOf(f.Word()); topic {
		case "adapters and frozen weights", "quantisation", "precision":
			if _, known := models.StoredQuantized(r.Out); known {
				break // what its name says is followed
			}
			r.StrangeAt(f.Origin.At, f.Word(), "may be a checkpoint of "+topic)
		}
	}
	if o, ok := r.Out.Fields["/training/optimizer"].Value.(draft.Optimizer); ok && strings.HasPrefix(o.Name, "paged-") {
		f := r.Out.Fields["/training/optimizer"]
		r.StrangeAt(f.Origin.At, cmp.Or(f.Text, o.Name), "may move its state to the host when the GPU is full")
	}
}
