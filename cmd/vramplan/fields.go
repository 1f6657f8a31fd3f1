package main

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
)

// eachField gives the fields of a JSON object in their order, with values as a
// person would write them. Empty ones are left out.
func eachField(body []byte, use func(name, value string)) error {
	object := gjson.ParseBytes(body)
	if !object.IsObject() {
		return errors.New("the answer is not a JSON object")
	}
	object.ForEach(func(name, value gjson.Result) bool {
		if text := screen.Plain(fieldText(name.Str, value)); text != "" {
			use(screen.Plain(screen.Words(name.Str)), text)
		}
		return true
	})
	return nil
}

func fieldText(name string, value gjson.Result) string {
	switch {
	case strings.HasSuffix(name, "_bytes") && value.Type == gjson.Number:
		return screen.Size(value.Int())
	case value.Type == gjson.Number && value.Num == float64(value.Int()) && value.Int() >= 10_000: // not a year
		return screen.Thousands(value.Int())
	case value.IsArray():
		var parts []string
		for _, v := range value.Array() {
			parts = append(parts, fieldText("", v))
		}
		return strings.Join(parts, ", ")
	case value.IsObject():
		var parts []string
		value.ForEach(func(k, v gjson.Result) bool {
			if text := fieldText(k.Str, v); text != "" {
				parts = append(parts, screen.Words(k.Str)+" "+text)
			}
			return true
		})
		return strings.Join(parts, "; ")
	case value.Type == gjson.Null:
		return ""
	}
	return value.String()
}

func sortByBytes(components []estimator.Component) {
	slices.SortStableFunc(components, func(a, b estimator.Component) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

func isFileError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
