package main

import "github.com/vramplan/vramplan/openapi"

type openapiCommand struct{}

// Run prints the document that the service serves at /openapi.json.
func (*openapiCommand) Run(t *terminal) error {
	_, err := t.stdout.Write(openapi.Document)
	return err
}
