package tool

import (
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

var interpolated = regexp.MustCompile(`^\$\{([A-Za-z0-9_.]+)\}$`)

// Interpolate follows OmegaConf's ${key}; resolvers such as ${oc.env:X} leave the value unknown.
func Interpolate(s *setting.Settings) {
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		text, isString := v.Any.(string)
		for range 8 {
			if !isString || !strings.HasPrefix(text, "${") {
				break
			}
			m := interpolated.FindStringSubmatch(text)
			if m == nil {
				v.Unknown = text + " is worked out at run time"
				break
			}
			other, ok := s.Peek(m[1])
			if !ok {
				v.Unknown = text + " is not there"
				break
			}
			v = other
			text, isString = v.Any.(string)
		}
		if old, _ := s.Peek(key); old.Text != v.Text || v.Unknown != "" {
			v.Origin.Key = key
			s.Replace(key, v)
		}
	}
}
