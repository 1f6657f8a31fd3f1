package source

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// decoded are the settings of a file, or why there are none.
type decoded struct {
	settings *setting.Settings
	err      error
}

// Settings decodes a configuration once; what it returns is the caller's own.
func (f *Files) Settings(full string, text []byte) (*setting.Settings, error) {
	type key struct {
		full string
		text Text
	}
	d := Once(f, key{full, TextOf(text)}, func() decoded {
		s, err := Decode(full, f.Shown(full), text)
		return decoded{s, err}
	})
	if d.err != nil {
		return nil, d.err
	}
	return d.settings.Clone(), nil
}

// Decode decodes a configuration by its name and, where that says nothing, by what decodes. shown is the file in
// which its values stand.
func Decode(full, shown string, text []byte) (*setting.Settings, error) {
	switch path.Ext(full) {
	case ".toml":
		return decode.TOML(shown, text)
	case ".py":
		p, err := decode.Python(shown, text, "")
		if err != nil {
			return nil, err
		}
		return p.Values, nil
	case ".json":
		return decode.JSON(shown, text)
	case ".yaml", ".yml":
	default:
		if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
			return decode.JSON(shown, text)
		}
	}
	all, err := decode.YAML(shown, text)
	if err != nil {
		if s, jsonErr := decode.JSON(shown, text); jsonErr == nil {
			return s, nil
		}
		return nil, err
	}
	if len(all) == 0 {
		return setting.New(), nil
	}
	return all[0], nil
}
