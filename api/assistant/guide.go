package assistant

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/openapi"
)

// Guide is the API for language models, as llmstxt.org proposes: what there is to ask, in MostGuideWords at most.
// Routes and fields are those of the OpenAPI document.
var Guide = once(func() string {
	var b strings.Builder
	b.WriteString(guideStart)
	var document struct {
		Paths map[string]map[string]struct {
			Summary    string `json:"summary"`
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(openapi.Document, &document); err != nil {
		panic(err) // it is part of the program, and a test reads it
	}
	b.WriteString("\n## Routes\n\n")
	paths := make([]string, 0, len(document.Paths))
	for path := range document.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, method := range []string{"get", "post", "put", "delete"} {
			operation, ok := document.Paths[path][method]
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "- `%s %s`: %s", strings.ToUpper(method), path, operation.Summary)
			var query []string
			for _, p := range operation.Parameters {
				if p.In == "query" {
					query = append(query, p.Name)
				}
			}
			if len(query) > 0 {
				b.WriteString(" (?" + strings.Join(query, ", ?") + ")")
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n## Fields of a job\n\n")
	job := schemaOf("Job", jobDepth)["properties"].(object)
	for _, name := range []string{"model", "training"} {
		fields := job[name].(object)["properties"].(object)
		for _, field := range sortedKeys(fields) {
			fmt.Fprintf(&b, "- `%s.%s`: %s%s\n", name, field, firstWords(fields[field].(object)), values(fields[field].(object)))
		}
	}
	for _, field := range sortedKeys(job) {
		if field != "model" && field != "training" {
			fmt.Fprintf(&b, "- `%s`: %s\n", field, firstWords(job[field].(object)))
		}
	}
	b.WriteString(guideEnd)
	return b.String()
})

// MostGuideWords is how long the guide may be.
const MostGuideWords = 2000

// firstWords is a field's description up to what it lists of its parts.
func firstWords(field object) string {
	words, _, _ := strings.Cut(textOf(field["description"]), ". Fields: ")
	return words
}

// values are what a field takes, where these are few.
func values(field object) string {
	ways := []any{field}
	if any, ok := field["anyOf"].([]any); ok {
		ways = any
	}
	for _, way := range ways {
		list, ok := way.(object)["enum"].([]any)
		if !ok {
			list, ok = way.(object)["examples"].([]any)
		}
		if !ok {
			continue
		}
		var words []string
		for _, v := range list[:min(6, len(list))] {
			words = append(words, fmt.Sprint(v))
		}
		return ": " + strings.Join(words, ", ")
	}
	return ""
}

const guideStart = `# vramplan

> Says how many bytes of GPU memory a training job takes, by component, on which cards it fits, and what makes it fit. It replays an optimizer step on shapes as PyTorch allocates it: no multipliers, no GPU needed.

All sizes are bytes. Requests are strict: unknown fields are refused, all of them at once. Answers are tolerant: ignore fields that you do not know. Equal requests with equal versions get equal bytes.

Ask with a job document:

    curl -s URL/v1/estimate -H 'Content-Type: application/json' -d '{"model": {"preset": "gpt2"}, "training": {"micro_batch": 8, "sequence_length": 1024}, "gpus": ["rtx-4090"]}'

- Does it fit, and what holds the memory: POST /v1/estimate. peak.device_bytes is what nvidia-smi will show, low_bytes to high_bytes bound it; components add up to it; gpus has a verdict for each card; assumed says what was taken for fields that were left out; doubts says why the bounds lie where they do.
- What to change: POST /v1/plan with the job and effective_batch. options are ranked; changes are fields of training to set, settings the same in the trainer's own words. at_least marks bytes that are a lower bound: never quote them as a figure.
- What a command line or a trainer's configuration means: POST /v1/read with files and command. Then estimate its document.
- What an out-of-memory message means: POST /v1/diagnose with text and, where it is known, job.
- Why two jobs differ: POST /v1/compare with a and b.

Verdicts: fits (even high_bytes is within the card), tight (device_bytes is, high_bytes is not), unlikely (only low_bytes is), does_not_fit, unknown (nobody knows the card's memory).

Assistants that speak the Model Context Protocol connect to URL/mcp (streamable HTTP), or start "vramplan mcp" (standard input and output): tools estimate, plan, check, compare, diagnose, read, find_gpu and find_model.
`

const guideEnd = `
## Errors

Every refusal is application/problem+json (RFC 9457): code, detail, and errors with a JSON pointer, what was given and what is accepted. 400: not this document; 422: impossible values, unknown names, or what is not modelled; 429 and 503: come back after Retry-After. A job that does not fit is no error.

The whole: URL/openapi.json.
`
