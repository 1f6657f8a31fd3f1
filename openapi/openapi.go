// Package openapi holds the OpenAPI 3.1 document of the HTTP API. The document is
// generated from the annotations of the handlers by ./gen, which is no part of
// the program.
package openapi

import _ "embed"

//go:generate go run ./gen

// Document is openapi.json.
//
//go:embed openapi.json
var Document []byte
