package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/compare"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
)

// What clients send is strict, what they get is tolerant.
var (
	requestTypes = []reflect.Type{reflect.TypeFor[estimator.Job](), reflect.TypeFor[jobdoc.Plan](),
		reflect.TypeFor[jobdoc.Comparison](), reflect.TypeFor[jobdoc.Diagnosis](), reflect.TypeFor[jobdoc.Reading](),
		reflect.TypeFor[service.GPUEntry](), reflect.TypeFor[service.ModelEntry](),
		reflect.TypeFor[jobdoc.Observation]()}
	responseTypes = []reflect.Type{
		reflect.TypeFor[estimator.Result](), reflect.TypeFor[planner.Plan](), reflect.TypeFor[compare.Comparison](),
		reflect.TypeFor[service.Diagnosis](), reflect.TypeFor[readers.Answer](), reflect.TypeFor[api.GPUList](),
		reflect.TypeFor[api.ModelList](),
		reflect.TypeFor[api.ChangeList](), reflect.TypeFor[api.ObservationList](), reflect.TypeFor[service.Accuracy](),
		reflect.TypeFor[api.Version](), reflect.TypeFor[api.Health](), reflect.TypeFor[api.Readiness](),
		reflect.TypeFor[problem.Problem](),
	}
)

// published are the names of schemas that are not simply the Go type's.
var published = map[string]string{
	"jobdoc.Plan":          "PlanRequest",
	"jobdoc.Observation":   "ObservationRequest",
	"jobdoc.Comparison":    "ComparisonRequest",
	"jobdoc.Diagnosis":     "DiagnosisRequest",
	"jobdoc.Reading":       "ReadRequest",
	"jobdoc.Known":         "ReadKnown",
	"readers.Answer":       "ReadAnswer",
	"readers.Job":          "ReadJob",
	"draft.Place":          "FilePlace",
	"readers.Origin":       "FieldOrigin",
	"readers.Overridden":   "OverriddenSetting",
	"draft.Assumption":     "ReadAssumption",
	"draft.Question":       "ReadQuestion",
	"readers.Ignored":      "IgnoredSetting",
	"draft.Refusal":        "ReadRefusal",
	"compare.Component":    "ComponentDifference",
	"diagnose.Cause":       "DiagnosedCause",
	"diagnose.Text":        "DiagnosedText",
	"diagnose.Message":     "OutOfMemoryMessage",
	"diagnose.Summary":     "MemorySummary",
	"diagnose.Card":        "DiagnosedCard",
	"diagnose.Process":     "CardProcess",
	"diagnose.Candidate":   "CandidateTensor",
	"diagnose.Allocations": "SnapshotAllocations",
	"diagnose.HeldBlocks":  "SnapshotBlocks",
	"diagnose.Moment":      "SnapshotMoment",
	"diagnose.Held":        "HeldMemory",
	"diagnose.HeldGroup":   "HeldGroup",
	"diagnose.Departure":   "HeldDeparture",
	"catalog.Model":        "CatalogModel",
	"invalid.Field":        "FieldError",
	"release.Change":       "ReleaseChange",
	"release.Stack":        "ReleaseStack",
}

const definitions, references = "#/definitions/", "#/components/schemas/"

func publishedName(goName string) string {
	if name, ok := published[goName]; ok {
		return name
	}
	return goName[strings.LastIndexByte(goName, '.')+1:]
}

func renameReference(o object) {
	if ref, ok := o["$ref"].(string); ok {
		o["$ref"] = references + publishedName(strings.TrimPrefix(strings.TrimPrefix(ref, references), definitions))
	}
}

// describeTypes adds to swag's schemas what it does not know of the Go types.
func describeTypes(from object) (object, error) {
	unalias(from)
	seen := map[reflect.Type]bool{}
	for _, t := range requestTypes {
		visit(t, seen, func(t reflect.Type) { describe(from, t, true) })
	}
	for _, t := range responseTypes {
		visit(t, seen, func(t reflect.Type) { describe(from, t, false) })
	}
	// Parts of a catalog's model are sent and received: as answers they are tolerant.
	sent := seen
	seen = map[reflect.Type]bool{}
	visit(reflect.TypeFor[catalog.Model](), seen, func(t reflect.Type) {
		if schema, ok := from[path.Base(t.PkgPath())+"."+t.Name()].(object); ok && sent[t] {
			delete(schema, "additionalProperties")
		}
	})
	enumerate(from["job.Precision"].(object), jobdoc.Spellings(reflect.TypeFor[estimator.Training](),
		"precision"))
	describeModel(from)
	nameChanges(from)
	schemas := object{}
	for goName, schema := range from {
		name := publishedName(goName)
		if _, taken := schemas[name]; taken {
			return nil, fmt.Errorf("two schemas would be called %s: give %s a name in published", name, goName)
		}
		schemas[name] = schema
		if values, ok := schema.(object)["enum"].([]any); ok {
			// swag lists the constants of a type again for each package that it finds it through.
			values = distinct(values)
			schema.(object)["enum"] = values
			schema.(object)["x-enum-varnames"] = valueNames(inUpperSnake(name)+"_", values)
		}
	}
	rewrite(schemas, func(o object) {
		renameReference(o)
		for _, key := range []string{"x-enum-comments", "x-enum-descriptions"} {
			delete(o, key)
		}
		if d, ok := o["description"].(string); ok {
			o["description"] = strings.ReplaceAll(d, "\n", " ")
		}
	})
	return schemas, nil
}

// distinct are the values without those that came before.
func distinct(values []any) []any {
	var list []any
	for _, v := range values {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// nameChanges makes the names of changes an enum: each is declared where it acts, so that no constants list them.
func nameChanges(from object) {
	var names []any
	for _, c := range release.Changes() {
		if name := any(string(c.Switch)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	from["release.Switch"] = object{"type": "string", "enum": names}
	from["release.Change"].(object)["properties"].(object)["switch"] = object{"$ref": definitions + "release.Switch"}
}

// aliased are, by package, those whose types it has under the same names.
var aliased = map[string][]string{"estimator": {"job", "result"}, "planner": {"document", "pairing"}}

// unalias gives schemas that swag found under a type's alias the name that the type has where it is declared.
func unalias(from object) {
	declared, seen := map[string]bool{}, map[reflect.Type]bool{}
	for _, t := range slices.Concat(requestTypes, responseTypes) {
		visit(t, seen, func(t reflect.Type) { declared[path.Base(t.PkgPath())+"."+t.Name()] = true })
	}
	for _, alias := range slices.Sorted(maps.Keys(from)) {
		front, typeName, _ := strings.Cut(alias, ".")
		for _, in := range aliased[front] {
			if name := in + "." + typeName; declared[name] {
				if _, known := from[name]; !known {
					from[name] = from[alias]
				}
				delete(from, alias)
			}
		}
	}
}

// visit calls use for every named type that a document of type t holds.
func visit(t reflect.Type, seen map[reflect.Type]bool, use func(reflect.Type)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if t.Name() == "" {
			visit(t.Elem(), seen, use)
			return
		}
	}
	if seen[t] || t.PkgPath() == "" || t == reflect.TypeFor[json.RawMessage]() {
		return
	}
	seen[t] = true
	use(t)
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			visit(t.Field(i).Type, seen, use)
		}
	}
}

// describe edits the schema of one Go type.
func describe(schemas object, t reflect.Type, request bool) {
	name := path.Base(t.PkgPath()) + "." + t.Name()
	schema, ok := schemas[name].(object)
	if !ok {
		return // swag has put it where it is used
	}
	if t.Kind() == reflect.Struct {
		describeStruct(schema, t, request)
	}
	if s, ok := reflect.Zero(t).Interface().(interface{ Shorthand() []string }); ok && request {
		withShortForms(schemas, name, s.Shorthand())
	}
}

func describeStruct(schema object, t reflect.Type, request bool) {
	properties, _ := schema["properties"].(object)
	var required []any
	var order []string
	for f := range fields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		order = append(order, name)
		property, ok := properties[name].(object)
		if !ok {
			continue
		}
		if d, ok := property["description"].(string); ok {
			property["description"] = inDocumentWords(d, f.Name, name)
		}
		if request {
			properties[name] = requestProperty(property, t, f)
			inlined(properties[name].(object), f.Type)
			if strings.HasPrefix(f.Tag.Get("validate"), "required") {
				required = append(required, name)
			}
			continue
		}
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
			if f.Type.Kind() == reflect.Pointer {
				properties[name] = object{"anyOf": []any{property, object{"type": "null"}}}
			}
		}
		if f.Type.Kind() == reflect.Int64 {
			property["format"] = "int64"
		}
	}
	if request {
		schema["additionalProperties"] = false
	}
	if properties != nil {
		schema["properties"] = ordered{order, properties}
	}
	delete(schema, "required")
	if len(required) > 0 {
		schema["required"] = required
	}
}

// inDocumentWords begins a description with the field's JSON name instead of its Go name.
func inDocumentWords(description, goName, name string) string {
	if rest, ok := strings.CutPrefix(description, goName+" "); ok {
		return "`" + name + "` " + rest
	}
	return description
}

// fields are the fields of a struct with those of embedded ones.
func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

func requestProperty(p object, owner reflect.Type, f reflect.StructField) object {
	if f.Type == reflect.TypeFor[json.RawMessage]() {
		return object{"type": "object", "additionalProperties": true, "description": p["description"]}
	}
	if named, ok := p["allOf"].([]any); ok && len(named) == 1 { // a type of its own, with what this field says of it
		only := object{"$ref": named[0].(object)["$ref"]}
		if words, ok := p["description"]; ok {
			only["description"] = words
		}
		return only
	}
	own, items, dives := strings.Cut(f.Tag.Get("validate"), "dive")
	for rule := range strings.SplitSeq(own, ",") {
		switch name, value, _ := strings.Cut(rule, "="); {
		case name == "lt":
			p["exclusiveMaximum"], _ = strconv.ParseFloat(value, 64)
		case name == "gt":
			p["exclusiveMinimum"], _ = strconv.ParseFloat(value, 64)
		case name == "max" && f.Type.Kind() == reflect.Map:
			p["maxProperties"], _ = strconv.Atoi(value)
		}
	}
	element, isList := p["items"].(object)
	if isList && dives {
		for rule := range strings.SplitSeq(items, ",") {
			switch name, value, _ := strings.Cut(rule, "="); name {
			case "min":
				element["minLength"], _ = strconv.Atoi(value)
			case "max":
				element["maxLength"], _ = strconv.Atoi(value)
			}
		}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if words := jobdoc.Spellings(owner, name); words != nil && isList {
		enumerate(element, words)
	} else if words != nil {
		enumerate(p, words)
	}
	if f.Type == reflect.TypeFor[estimator.Targets]() { // one name, or a list of them
		list := maps.Clone(p)
		delete(list, "description")
		return object{"anyOf": []any{element, list}, "description": p["description"]}
	}
	if f.Type.Kind() == reflect.Int64 {
		p["format"] = "int64"
		if _, bounded := p["maximum"]; !bounded {
			p["maximum"] = int64(math.MaxInt64)
		}
	}
	return p
}

// described is what a schema says of itself, and then what more there is to say.
func described(p object, more string) string {
	words, _ := p["description"].(string)
	return strings.TrimSpace(words + " " + more)
}
