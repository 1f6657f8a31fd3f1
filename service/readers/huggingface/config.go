package huggingface

import (
	"path"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
)

// ConfigFile lays the file of --config, or the one that stands alone behind the program, under the arguments
// (trl 1.9 scripts/utils.py TrlParser; transformers 4.57.6 hf_argparser.py parse_json_file and parse_yaml_file). It is
// false where there is such a file and it cannot be read.
func (r *Job) ConfigFile(positional []argv.Word) bool {
	v, ok := r.In.Get("config", "config_file", "args_file")
	if !ok {
		if len(positional) == 0 {
			return true
		}
		switch path.Ext(positional[0].Text) {
		case ".yaml", ".yml", ".json":
		default:
			return true
		}
		v = positional[0].Argument("")
	}
	s, full, err := r.Load(v)
	if err != nil {
		r.Problems = append(r.Problems, func(*draft.Draft) { r.NotThere(v, err) })
		return false
	}
	r.File = full
	merged := s.Clone()
	merged.Over(r.In)
	merged.Read("config", "config_file", "args_file")
	r.In = merged
	return true
}
