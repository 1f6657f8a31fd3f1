package tool

import (
	"path"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Under lays a file of the tool under its arguments; one that is not there is asked for.
func (r *Job) Under(v setting.Value) {
	s, full, err := r.Load(v)
	if s == nil {
		r.Problems = append(r.Problems, func(*draft.Draft) {
			r.NotThere(v, err)
		})
		return
	}
	r.File = full
	merged := s.Clone()
	merged.Over(r.In)
	r.In = merged
}

// IsConfigName reports whether a word is the name of a configuration.
func IsConfigName(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
