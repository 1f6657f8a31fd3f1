package models

import (
	"encoding/json"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
)

// CheckpointType is the type that from_pretrained(dtype="auto") loads: that of the config.json where it is at hand,
// else that of the name; "" where nobody knows.
func CheckpointType(l *launch.Launch, d *draft.Draft) (kind, from string) {
	raw, given := d.Fields["/model/hf_config"].Value.(json.RawMessage)
	name := d.Text("/model/preset")
	for _, said := range l.Files.Source.Set {
		switch said.Path {
		case "model.hf_config":
			raw, given = json.RawMessage(said.Value), true
		case "model", "model.preset":
			name = strings.Trim(said.Value, `"`)
		}
	}
	if given {
		if kind, said := defaults.ConfigType(raw); said {
			return kind, "as its config.json says"
		}
	}
	return defaults.PublishedType(name), "as " + name + " is published"
}

// FreshType is the type that random weights have: that of the configuration, and float32 where it says none
// (transformers 4.57.6 modeling_utils.py _from_config). The argument torch_dtype is not handed on to them.
func FreshType(d *draft.Draft) string {
	text, _ := d.Fields["/model/hf_config"].Value.(json.RawMessage)
	kind, _ := defaults.ConfigType(text)
	return kind
}
