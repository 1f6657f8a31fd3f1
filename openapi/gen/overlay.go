package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/api"
)

// overlay turns what the annotations say into the document that is published.
func overlay(d *document, examples []example) error {
	d.OpenAPI = "3.1.0"
	d.Info["license"] = object{"name": "Apache License 2.0", "identifier": "Apache-2.0"}
	d.Security = []object{{}}
	d.Servers = []object{{"url": "/", "description": "The service that serves this document"}}

	schemas, err := describeTypes(d.Components["schemas"].(object))
	if err != nil {
		return err
	}
	allowZeros(schemas)
	addLines(schemas)
	delete(d.Components, "requestBodies")
	d.Components["securitySchemes"] = object{"key": object{"type": "http", "scheme": "bearer",
		"description": "An API key, made with vramplan keys create."}}
	d.Components["schemas"] = schemas
	rewrite(d.Paths, func(o object) { renameReference(o) })

	operations := map[string]object{}
	for _, item := range d.Paths {
		for _, op := range item.(object) {
			o := op.(object)
			describeResponses(o)
			describeLines(o)
			if keyWhereThereAreKeys[o["operationId"].(string)] {
				o["security"] = []any{object{"key": []any{}}, object{}}
			}
			operations[o["operationId"].(string)] = o
		}
	}
	describeBatch(schemas, operations["estimateBatch"])
	shared := object{}
	for _, e := range examples {
		op, ok := operations[e.Operation]
		if !ok {
			return fmt.Errorf("example %s/%s: no operation has this id", e.Operation, e.Name)
		}
		if err := e.addTo(op, shared); err != nil {
			return err
		}
	}
	d.Components["examples"] = shared
	return addAliases(d)
}

// describeBatch says what an array of jobs is and gets; lines are text for the tools that read the document.
func describeBatch(schemas, op object) {
	id := object{
		"description": "The client's own, which the answer has too.",
		"anyOf":       []any{object{"type": "string", "maxLength": 198}, object{"type": "number"}},
	}
	job := schemas["Job"].(object)
	properties := job["properties"].(ordered)
	schemas["BatchJob"] = object{
		"type": "object", "description": "A job of a batch.", "additionalProperties": false,
		"required":   job["required"],
		"properties": ordered{append([]string{"id"}, properties.names...), withField(properties.values, "id", id)},
	}
	schemas["BriefResult"] = object{
		"type": "object", "description": "What brief=true leaves of an answer.", "required": []any{"peak", "gpus"},
		"properties": ordered{[]string{"id", "peak", "gpus"}, object{
			"id": id, "peak": object{"$ref": references + "Peak"},
			"gpus": object{"type": "array", "items": object{"$ref": references + "GPUFit"}},
		}},
	}
	bytes := object{"type": "integer", "format": "int64"}
	schemas["DeviceVerdicts"] = object{
		"type": "object", "description": "What verdicts=true leaves of an answer.", "required": []any{"peak", "gpus"},
		"properties": ordered{[]string{"id", "peak", "gpus"}, object{
			"id": id,
			"peak": object{"type": "object", "required": []any{"device_bytes"},
				"properties": object{"device_bytes": bytes, "at_least": object{"type": "boolean",
					"description": "The job fits on none of its cards, and takes at least so much; with at_least=true."}}},
			"gpus": object{"type": "array",
				"items": object{"type": "object", "required": []any{"gpu", "usable_bytes", "headroom_bytes", "verdict"},
					"properties": ordered{[]string{"gpu", "usable_bytes", "headroom_bytes", "verdict"}, object{
						"gpu": object{"type": "string"}, "usable_bytes": bytes, "headroom_bytes": bytes,
						"verdict": object{"$ref": references + "Verdict"}}}}},
		}},
	}
	schemas["BatchAnswer"] = object{
		"description": "The answer to one job of a batch, with the id that the job had: a result, what brief=true or " +
			"verdicts=true leaves of one, or a problem.",
		"anyOf": []any{object{"$ref": references + "Result"}, object{"$ref": references + "BriefResult"},
			object{"$ref": references + "DeviceVerdicts"},
			object{"$ref": references + "Problem"}},
	}
	list := func(of string) object {
		return object{"schema": object{"type": "array", "items": object{"$ref": references + of}}}
	}
	op["requestBody"].(object)["content"].(object)["application/json"] = list("BatchJob")
	op["responses"].(object)["200"].(object)["content"].(object)["application/json"] = list("BatchAnswer")
}

func withField(fields object, name string, schema object) object {
	all := maps.Clone(fields)
	all[name] = schema
	return all
}

// keyWhereThereAreKeys are the operations that ask for a key only once the database has keys: on a service of one's own
// they answer without.
var keyWhereThereAreKeys = map[string]bool{
	"listObservations": true, "listCalibrations": true, "getCalibration": true, "listActivations": true,
}

// allowZeros lets the catalog's models have zeros where a job's dimensions have at
// least 1: a model of several towers has no one number of layers or heads.
func allowZeros(schemas object) {
	model, _ := schemas["CatalogModel"].(object)
	rewrite(model, func(o object) {
		if o["type"] == "integer" && fmt.Sprint(o["minimum"]) == "1" {
			o["minimum"] = 0
		}
	})
}

// addAliases says of every path that also answers without its version that it does. A second copy of the operation
// would be a second method in every client that is generated.
func addAliases(d *document) error {
	for _, route := range api.Routes() {
		item, ok := d.Paths[route.Path].(object)
		if !ok {
			return fmt.Errorf("%s %s has no annotations", route.Method, route.Path)
		}
		if route.Alias != "" {
			item[strings.ToLower(route.Method)].(object)["x-also-at"] = route.Alias
		}
	}
	return nil
}

// describeResponses makes every answer that is not a success a problem, and puts
// into each answer the headers that it has.
func describeResponses(op object) {
	responses := op["responses"].(object)
	for status, r := range responses {
		response := r.(object)
		header := object{"X-Request-Id": object{
			"description": "The request's id: the client's own, or a new one.",
			"schema":      object{"type": "string"},
		}}
		if status < "400" && tagged(op, status) {
			header["ETag"] = object{"description": "The version, for If-Match and If-None-Match.",
				"schema": object{"type": "string"}}
		}
		if status == "401" {
			header["WWW-Authenticate"] = object{"description": "How a key is sent: Bearer.",
				"schema": object{"type": "string"}}
		}
		if status >= "400" {
			response["content"] = object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}
			if slices.Contains([]string{"429", "503"}, status) {
				header["Retry-After"] = object{"description": "Seconds after which to try again.",
					"schema": object{"type": "integer"}}
			}
			response["description"] = problemDescriptions[status]
		} else if response["description"] == "OK" {
			response["description"] = "The answer"
		}
		response["headers"] = header
	}
	if body, ok := op["requestBody"].(object); ok {
		delete(body, "x-originalParamName")
	}
}

// perLine is what each line of an operation's NDJSON is, of the request and of the answer.
var perLine = map[string][2]string{
	"estimateBatch": {"Job", "EstimateLine"},
	"observe":       {"ObservationRequest", "ObservationLine"},
}

// addLines adds the schemas of the lines that answers have.
func addLines(schemas object) {
	reference := func(name string) object { return object{"$ref": references + name} }
	brief := object{"type": "object", "required": []any{"peak", "gpus"}, "properties": object{"peak": reference("Peak"),
		"gpus": object{"type": "array", "items": reference("GPUFit")}}}
	schemas["EstimateLine"] = object{"description": "A line of a batch's answer: the estimate, its peak and verdicts " +
		"alone where brief is asked for, the device figure and verdicts alone where verdicts are, or what is " +
		"wrong with the job.",
		"anyOf": []any{reference("Result"), brief, reference("DeviceVerdicts"), reference("Problem")}}
	schemas["ObservationLine"] = object{"description": "A line of the answer to many observations: one that is " +
		"stored, or what is wrong with it.",
		"anyOf": []any{reference("Observation"), reference("Problem")}}
}

// describeLines says what a line of NDJSON is. The whole is text to OpenAPI 3.1; x-itemSchema is what 3.2 calls
// itemSchema.
func describeLines(op object) {
	lines, ok := perLine[op["operationId"].(string)]
	if !ok {
		return
	}
	reference := func(name string) object { return object{"$ref": references + name} }
	describe := func(holder object, item object) {
		content, _ := holder["content"].(object)
		if media, ok := content["application/x-ndjson"].(object); ok {
			media["schema"] = object{"type": "string", "contentMediaType": "application/x-ndjson"}
			media["x-itemSchema"] = item
		}
	}
	if body, ok := op["requestBody"].(object); ok {
		describe(body, reference(lines[0]))
	}
	for _, r := range op["responses"].(object) {
		describe(r.(object), reference(lines[1]))
	}
}

// tagged says whether an answer has an ETag: all of those do that a client may make a
// change by.
func tagged(op object, status string) bool {
	if status == "204" {
		return false
	}
	parameters, _ := op["parameters"].([]any)
	return slices.ContainsFunc(parameters, func(p any) bool { return p.(object)["name"] == "If-None-Match" })
}

var problemDescriptions = map[string]string{
	"401": "An API key is needed, and none that is valid was sent",
	"403": "The API key does not have the scope that is needed",
	"409": "A name that means another entry, or a built-in entry that cannot be deleted",
	"412": "The entry is another than If-Match names, or exists already",
	"428": "If-Match or If-None-Match is missing",
	"400": "Malformed JSON, unknown or repeated fields, unknown query parameters; all of them are listed",
	"404": "Unknown name; suggestions lists the nearest",
	"408": "The body did not arrive in time",
	"413": "The body is larger than 1 MiB",
	"415": "The body's media type is not understood",
	"422": "Values that cannot be accepted, or that are not modelled; all of them are listed",
	"429": "Too many requests from this client",
	"500": "A fault of the service",
	"503": "Too much to do, or not ready",
}

// rewrite calls edit for every object in a value, the outer before the inner.
func rewrite(v any, edit func(object)) {
	switch v := v.(type) {
	case object:
		edit(v)
		for _, child := range v {
			rewrite(child, edit)
		}
	case ordered:
		rewrite(v.values, edit)
	case []any:
		for _, child := range v {
			rewrite(child, edit)
		}
	}
}
