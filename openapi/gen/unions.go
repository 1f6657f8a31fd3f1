package main

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A generator of clients needs a name for every form of a union, and one that is no other's for every value of an enum.
// This file gives both.

// parts are the names of a union's forms: of the words that stand for the object, where there are any, and of the
// object.
var parts = map[string]struct{ words, object string }{
	"job.Optimizer":     {"OptimizerName", "OptimizerOptions"},
	"job.Checkpointing": {"CheckpointingMode", "CheckpointingOptions"},
	"job.Loss":          {"LossKind", "LossOptions"},
	"job.Objective":     {"ObjectiveKind", "ObjectiveOptions"},
	"job.Compile":       {"", "CompileOptions"},
	"job.Dropout":       {"", "DropoutOptions"},
	"job.GPURef":        {"", "GPUByMemory"},
}

// scalars are the types that are unions of plain values, by what they mean and their forms.
var scalars = map[string]struct {
	words string
	forms []any
}{
	"arch.AttentionBias": {"false, true for all four projections, or \"qkv\".",
		[]any{object{"type": "boolean"}, object{"type": "string", "enum": []any{"qkv"}}}},
	"arch.HeadNorms": {"false, or true and \"per-head\" for a norm over the channels of each head.",
		[]any{object{"type": "boolean"}, object{"type": "string", "enum": []any{"per-head"}}}},
	"job.Stage": {"A stage of a pipeline, counted from 0, or its name.",
		[]any{object{"type": "integer", "format": "int64", "minimum": 0, "maximum": 1 << 20},
			object{"type": "string", "enum": []any{"first", "middle", "last"}}}},
}

// inlined makes a property a union of plain values where swag wrote the Go type's kind in place of a reference.
func inlined(property object, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	union, ok := scalars[path.Base(t.PkgPath())+"."+t.Name()]
	if kind, plain := property["type"].(string); ok && plain && kind != "object" {
		for _, key := range []string{"type", "format", "minimum", "maximum", "enum"} {
			delete(property, key)
		}
		property["anyOf"] = union.forms
	}
}

// withShortForms says that "adamw" may stand for {"name": "adamw"}: the type becomes a union of the short forms, which
// mean the first field, and the object.
func withShortForms(schemas object, name string, kinds []string) {
	schema := schemas[name].(object)
	if union, ok := scalars[name]; ok {
		schemas[name] = object{"description": union.words, "anyOf": union.forms}
		return
	}
	fields, isObject := schema["properties"].(ordered)
	if !isObject {
		return // a list that may be one name: its property says so
	}
	part := parts[name]
	first := fields.values[fields.names[0]].(object)
	var forms []any
	for _, kind := range kinds {
		form := object{"type": map[string]string{"bool": "boolean", "string": "string", "number": "number"}[kind]}
		switch {
		case part.words != "":
			schemas[part.words] = object{"type": "string", "enum": first["enum"],
				"x-enum-varnames": first["x-enum-varnames"], "description": first["description"]}
			fields.values[fields.names[0]] = object{"$ref": references + part.words}
			form = object{"$ref": references + part.words}
		case kind != "bool":
			for _, bound := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxLength"} {
				if limit, ok := first[bound]; ok {
					form[bound] = limit
				}
			}
		}
		forms = append(forms, form)
	}
	union := object{"anyOf": append(forms, object{"$ref": references + part.object})}
	if words, ok := schema["description"]; ok {
		union["description"] = words
	}
	schemas[part.object], schemas[name] = schema, union
}

// enumerate makes words the values of a string's schema.
func enumerate(schema object, words []string) {
	values := make([]any, len(words))
	for i, word := range words {
		values[i] = word
	}
	schema["type"], schema["enum"], schema["x-enum-varnames"] = "string", values, valueNames("", values)
	schema["description"] = described(schema, "Upper case and spaces are read as lower case and dashes.")
}

// valueNames are names for the values of an enum in programs: generators would give the same to words that differ in
// dashes and underscores alone, and Go has one space of names for the values of all types, so that those of types begin
// with prefix.
func valueNames(prefix string, values []any) []any {
	names := make([]any, len(values))
	taken := map[string]bool{}
	for i, value := range values {
		word := value.(string)
		name := prefix + strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
		if name[0] >= '0' && name[0] <= '9' {
			name = "BITS_" + name // 32-true, 8bit
		}
		switch {
		case !taken[strings.ReplaceAll(name, "_", "")]:
		case strings.Contains(word, "_"):
			name += "_UNDERSCORED"
		case strings.Contains(word, "-"):
			name += "_DASHED"
		default:
			name += "_JOINED"
		}
		taken[strings.ReplaceAll(name, "_", "")] = true // as AdamwTorch, in languages that write names so
		names[i] = name
	}
	return names
}

// inUpperSnake is OptimizerName as OPTIMIZER_NAME.
func inUpperSnake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
	}
	return b.String()
}

// describeModel says that a model is given in exactly one way, and what a job must have.
func describeModel(schemas object) {
	properties := schemas["job.Model"].(object)["properties"].(ordered).values
	properties["preset"].(object)["minLength"] = 1
	var ways []any
	for _, way := range []struct{ field, name string }{
		{"preset", "ModelByPreset"}, {"hf_config", "ModelByConfig"}, {"nanogpt", "ModelByNanoGPT"},
		{"dimensions", "ModelByDimensions"}, {"recorded", "ModelByRecording"}, {"diffusion", "ModelByPipeline"},
	} {
		names := []string{way.field, "head"}
		if way.field == "diffusion" { // a pipeline has no head
			names = names[:1]
		}
		own := object{}
		for _, name := range names {
			own[name] = properties[name]
			if name == "head" {
				own[name] = maps.Clone(properties[name].(object))
			}
		}
		schemas[way.name] = object{
			"type":                 "object",
			"properties":           ordered{names, own},
			"required":             []any{way.field},
			"additionalProperties": false,
		}
		ways = append(ways, object{"$ref": references + way.name})
	}
	schemas["job.Model"] = object{
		"description": "What is trained: exactly one of preset, hf_config, nanogpt, dimensions, recorded and diffusion.",
		"oneOf":       ways,
	}
	training := schemas["job.Training"].(object)
	schemas["PlanTraining"] = maps.Clone(training)
	schemas["PlanTraining"].(object)["description"] = "How the model is trained today; of a plan, micro_batch may be " +
		"left out. Absent fields have the framework's defaults."
	training["required"] = []any{"micro_batch"}
	training["description"] = "How the model is trained. Absent fields have the framework's defaults. The spellings " +
		"of common tools are accepted as other words for the values of enums, such as bf16-mixed and adamw_torch_fused."
	schemas["job.Job"].(object)["required"] = []any{"model", "training"}
	schemas["jobdoc.Comparison"].(object)["required"] = []any{"a", "b"}
	plan := schemas["jobdoc.Plan"].(object)
	plan["required"] = []any{"model"}
	plan["properties"].(ordered).values["training"] = object{"$ref": references + "PlanTraining"}
	for _, document := range []string{"job.Job", "jobdoc.Plan"} {
		properties := schemas[document].(object)["properties"].(ordered)
		if !slices.Contains(properties.names, "model") {
			continue
		}
		for field, words := range map[string]string{"model": "What is trained.", "training": "How it is trained."} {
			properties.values[field].(object)["description"] = words
		}
	}
}
