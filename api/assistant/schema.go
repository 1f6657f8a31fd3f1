package assistant

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/openapi"
)

// object is a JSON Schema as an object of JSON.
type object = map[string]any

// components are the schemas of the API, which are generated from its Go types.
var components = once(func() object {
	var document struct {
		Components struct{ Schemas object }
	}
	if err := json.Unmarshal(openapi.Document, &document); err != nil {
		panic(err) // it is part of the program, and a test reads it
	}
	return document.Components.Schemas
})

// schemaOf is the schema of one of the API's types, deep levels down: an assistant reads every tool's schema before it
// asks anything, and the whole of a job is as long as a chapter. Deeper objects name their fields; the reader of job
// documents says the rest where something is wrong.
func schemaOf(name string, deep int) object {
	return brief(object{"$ref": "#/components/schemas/" + name}, deep)
}

// mostEnumerated is how many values are listed one by one.
const mostEnumerated = 12

func brief(s object, deep int) object {
	out := object{}
	if ref, ok := s["$ref"].(string); ok {
		out = brief(components()[ref[strings.LastIndexByte(ref, '/')+1:]].(object), deep)
		if d, given := s["description"]; given {
			_, fields, listed := strings.Cut(textOf(out["description"]), "Fields: ")
			if out["description"] = sentence(d.(string)); listed {
				out["description"] = out["description"].(string) + ". Fields: " + fields
			}
		}
		return out
	}
	for _, key := range []string{"type", "minimum", "maximum", "required"} {
		if v, ok := s[key]; ok {
			out[key] = v
		}
	}
	if out["maximum"] != nil && out["maximum"].(float64) > 1<<30 {
		delete(out, "maximum")
	}
	if d, ok := s["description"].(string); ok {
		out["description"] = sentence(d)
	}
	if values, ok := s["enum"].([]any); ok {
		values = slices.DeleteFunc(slices.Clone(values), func(v any) bool {
			text, is := v.(string)
			return is && strings.Contains(text, "_") && slices.Contains(values, any(strings.ReplaceAll(text, "_", "-")))
		})
		if out["enum"] = values; len(values) > mostEnumerated {
			delete(out, "enum") // further ones are spellings of other tools
			out["examples"] = values[:mostEnumerated]
		}
	}
	if items, ok := s["items"].(object); ok {
		out["items"] = brief(items, deep-1)
	}
	if properties, ok := s["properties"].(object); ok {
		if deep <= 0 {
			out["description"] = strings.TrimSpace(textOf(out["description"]) + " Fields: " + strings.Join(sortedKeys(properties), ", "))
			delete(out, "required")
			return out
		}
		fields := object{}
		for name, p := range properties {
			if field := brief(p.(object), deep-1); !strings.HasPrefix(textOf(field["description"]), "refused") {
				fields[name] = field
			}
		}
		out["properties"] = fields
	}
	for _, kind := range []string{"oneOf", "anyOf"} {
		if ways, ok := s[kind].([]any); ok {
			join(out, ways, deep)
		}
	}
	return out
}

// join writes down the ways in which a value may be given: objects become one with the fields of all.
func join(out object, ways []any, deep int) {
	fields, others := object{}, []any{}
	for _, w := range ways {
		way := brief(w.(object), deep)
		p, ok := way["properties"].(object)
		if !ok {
			others = append(others, way)
			continue
		}
		for name, field := range p {
			fields[name] = field
		}
	}
	switch {
	case len(fields) == 0:
		out["anyOf"] = others
	case len(others) == 0:
		out["type"], out["properties"] = "object", fields
	default:
		out["anyOf"] = append(others, object{"type": "object", "properties": fields})
	}
}

// sentence is the first sentence of a description, without the field's own name.
func sentence(d string) string {
	d, _, _ = strings.Cut(d, ". ")
	d, _, _ = strings.Cut(d, "; ")
	if strings.HasPrefix(d, "`") {
		if _, rest, ok := strings.Cut(d[1:], "` "); ok {
			d = strings.TrimPrefix(rest, "is ")
		}
	}
	return clip(strings.TrimSuffix(d, "."), 120)
}

func textOf(v any) string { s, _ := v.(string); return s }

func sortedKeys(m object) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// inputs is a tool's input schema.
func inputs(required []string, properties object) object {
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// outputOf is a tool's output schema, of the type that the tool answers with.
func outputOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage]():     {},
		reflect.TypeFor[estimator.Verdict]():   {Type: "string"},
		reflect.TypeFor[map[string]any]():      {Type: "object"},
		reflect.TypeFor[estimator.Precision](): {Type: "string"},
	}})
	if err != nil {
		panic(err) // of types of this package, which a test makes schemas of
	}
	return s
}
