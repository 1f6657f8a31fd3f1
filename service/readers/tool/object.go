package tool

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

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
