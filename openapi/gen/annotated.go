package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"path/filepath"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/swaggo/swag"
)

// object is a JSON object that is edited.
type object = map[string]any

// document is an OpenAPI document in the order in which people read one.
type document struct {
	OpenAPI    string   `json:"openapi"`
	Info       object   `json:"info"`
	Servers    []object `json:"servers"`
	Tags       []any    `json:"tags"`
	Security   []object `json:"security"`
	Paths      object   `json:"paths"`
	Components object   `json:"components"`
}

// annotated is what the annotations say, as OpenAPI 3.0.
func annotated(root string) (*document, error) {
	parser := swag.New(swag.SetParseDependency(1), swag.SetDebugger(log.New(io.Discard, "", 0)))
	if err := parser.ParseAPIMultiSearchDir([]string{filepath.Join(root, "api")}, "api.go", 4); err != nil {
		return nil, fmt.Errorf("read the annotations: %w", err)
	}
	var v2 openapi2.T
	if err := convert(parser.GetSwagger(), &v2); err != nil {
		return nil, err
	}
	v3, err := openapi2conv.ToV3(&v2)
	if err != nil {
		return nil, fmt.Errorf("turn OpenAPI 2 into 3: %w", err)
	}
	var doc document
	return &doc, convert(v3, &doc)
}

// convert goes from one Go form of a document to another.
func convert(from, to any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func (d *document) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}
