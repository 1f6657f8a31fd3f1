package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/openapi"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// These tests hold the document against what generators of clients need of it; "make clients" runs the generators.

func published31(t *testing.T) (document object, schemas object) {
	t.Helper()
	if err := json.Unmarshal(openapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	return document, document["components"].(object)["schemas"].(object)
}

func TestDocumentIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	// Examples of answers are held against their schemas by the tests of the API, which know what 3.1 means by them.
	if err := doc.Validate(t.Context(), openapi3.DisableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

// Every field of a job and of a plan says what it is.
func TestEveryFieldOfAJobIsDescribed(t *testing.T) {
	_, schemas := published31(t)
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		schema := schemas[name].(object)
		properties, _ := schema["properties"].(object)
		for field, property := range properties {
			p := property.(object)
			words, _ := p["description"].(string)
			if ref, ok := p["$ref"].(string); ok && words == "" {
				words, _ = schemas[strings.TrimPrefix(ref, references)].(object)["description"].(string)
			}
			if words == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
		rewrite(schema, func(o object) {
			if ref, ok := o["$ref"].(string); ok {
				visit(strings.TrimPrefix(ref, references))
			}
		})
	}
	visit("Job")
	visit("PlanRequest")
	if !seen["Training"] || !seen["LoRA"] || !seen["OptimizerOptions"] || !seen["Dimensions"] {
		t.Errorf("looked at %v alone", seen)
	}
	if len(schemas["Training"].(object)["properties"].(object)) != reflect.TypeFor[estimator.Training]().NumField() {
		t.Error("Training has other fields than the Go type")
	}
}

func TestEnumsHaveEverySpelling(t *testing.T) {
	_, schemas := published31(t)
	enum := func(schema string, path ...string) (words []string) {
		at := schemas[schema].(object)
		for _, step := range path {
			at = at[step].(object)
		}
		for _, word := range at["enum"].([]any) {
			words = append(words, word.(string))
		}
		return words
	}
	for _, c := range []struct {
		got  []string
		want []string
	}{
		{enum("OptimizerName"), jobdoc.Spellings(reflect.TypeFor[estimator.Optimizer](), "name")},
		{enum("Precision"), jobdoc.Spellings(reflect.TypeFor[estimator.Training](), "precision")},
		{enum("LossKind"), jobdoc.Spellings(reflect.TypeFor[estimator.Loss](), "kind")},
		{enum("CheckpointingMode"), jobdoc.Spellings(reflect.TypeFor[estimator.Checkpointing](), "mode")},
		{enum("Training", "properties", "attention"), jobdoc.Spellings(reflect.TypeFor[estimator.Training](),
			"attention")},
		{enum("Training", "properties", "kernels", "items"), jobdoc.Spellings(reflect.TypeFor[estimator.Training](),
			"kernels")},
		{enum("PlanTraining", "properties", "framework"), jobdoc.Spellings(reflect.TypeFor[estimator.Training](),
			"framework")},
		{enum("LoRA", "properties", "base_precision"), jobdoc.Spellings(reflect.TypeFor[estimator.LoRA](),
			"base_precision")},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("the document has %q, read are %q", c.got, c.want)
		}
	}
}

// A generator makes a name of every value, and a type of every schema: values without a type, and two values of one
// name, are what breaks the programs that it writes.
func TestEnumsHaveATypeAndNamesOfTheirOwn(t *testing.T) {
	document, _ := published31(t)
	rewrite(document["components"].(object)["schemas"], func(o object) {
		values, isEnum := o["enum"].([]any)
		if !isEnum {
			return
		}
		if o["type"] == nil {
			t.Errorf("%v has no type", values)
		}
		names, _ := o["x-enum-varnames"].([]any)
		if names != nil && len(names) != len(values) {
			t.Errorf("%v has %d names", values, len(names))
		}
		seen := map[any]bool{}
		for i, value := range values {
			var name any = value
			if names != nil {
				name = names[i]
			}
			if text, ok := name.(string); ok {
				name = strings.ToUpper(strings.NewReplacer("-", "", "_", "").Replace(text))
			}
			if seen[name] {
				t.Errorf("two values of %v are called %v", values, name)
			}
			seen[name] = true
		}
	})
}

// No operation is in the document twice.
func TestUnversionedPathsAreNotThere(t *testing.T) {
	document, _ := published31(t)
	paths := document["paths"].(object)
	for path := range paths {
		if _, twice := paths["/v1"+path]; twice {
			t.Errorf("%s is there beside /v1%s", path, path)
		}
	}
}
