package launch

import (
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Environment is a variable as a setting.
func Environment(w argv.Word, name string) setting.Value {
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v
}
