package trl

import "github.com/vramplan/vramplan/service/readers/defaults"

// Default is where a default of TRL's stands.
func Default(key string) string {
	d, _ := defaults.Row("trl", key, "")
	return d.String()
}
