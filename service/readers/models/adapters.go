package models

import "github.com/vramplan/vramplan/service/readers/setting"

// Targets is a list of modules; "all" is every linear layer in tools that have their own word for it.
func Targets(v setting.Value) []string {
	list := v.Strings()
	if len(list) == 1 && (list[0] == "all" || list[0] == "all-linear" || list[0] == "all_linear") {
		return []string{"all-linear"}
	}
	return list
}
