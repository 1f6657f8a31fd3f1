package tool

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Load opens and decodes a configuration that a value names. It looks where the job runs and beside the file that names
// it.
func (r *Job) Load(v setting.Value) (s *setting.Settings, full string, err error) {
	if v.Unknown != "" {
		return nil, "", fmt.Errorf("%s", v.Unknown)
	}
	return r.LoadName(v.String(), r.Beside(v.Origin.At))
}

// Broken refuses a file that the tool could not read either.
func (r *Job) Broken(err error) bool {
	var wrong *decode.Error
	if !errors.As(err, &wrong) {
		return false
	}
	r.Out.Refuse("not-readable", setting.Span{File: wrong.File, Line: wrong.Line}, "%s", wrong.Say)
	return true
}

// NotThere refuses a job whose configuration cannot be read: nearly all of it is in that file.
func (r *Job) NotThere(v setting.Value, err error) {
	var written *shell.RewrittenError
	switch {
	case r.Broken(err):
	case errors.As(err, &written):
		r.Out.Refuse("missing-file", v.Origin.At, "%s", strings.ReplaceAll(written.Error(), written.Name,
			r.Files.Shown(written.Name)))
	case v.Unknown != "":
		r.Out.Refuse("missing-file", v.Origin.At, "which configuration it is cannot be told: %s", v.Unknown)
	default:
		r.Out.Refuse("missing-file", v.Origin.At, "the configuration %s is not there: hand it over too", v.String())
	}
}

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

// ObjectOf is an object that a setting has: the settings under it, or what stands in its text as JSON.
func (r *Job) ObjectOf(v setting.Value) (inner *setting.Settings, ok bool) {
	if inner = r.In.Under(v.Origin.Key); inner.Len() > 0 {
		return inner, true
	}
	text := strings.TrimSpace(v.String())
	if !strings.HasPrefix(text, "{") {
		return inner, v.Unknown == ""
	}
	s, err := source.Decode(".json", v.Origin.At.File+".json", []byte(text))
	if err != nil {
		return nil, false
	}
	inner = setting.New()
	for _, key := range s.Keys() {
		x, _ := s.Peek(key)
		x.Origin.At, x.Origin.Kind = v.Origin.At, v.Origin.Kind
		inner.Set(key, x)
	}
	return inner, true
}
