package jobdoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/invalid"
)

// validate holds the compiled validate tags; fields go by their JSON names.
var validate = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name
	})
	return v
})

// ambiguous are spellings that are not aliases because tools disagree about them.
var ambiguous = map[string]string{
	"bfloat16": "write amp-bf16 for autocast over float32 weights (nanoGPT's dtype), bf16 where the weights " +
		"are bfloat16 too",
	"float16": "write amp-fp16 for autocast over float32 weights (nanoGPT's dtype), fp16 where the " +
		"weights are float16 too",
	"16":    "write amp-fp16 for autocast over float32 weights, fp16 where the weights are float16 too",
	"mixed": "write amp-bf16 or amp-fp16",
}

// located is a job within a document.
type located struct {
	at             string // its JSON pointer
	job            *estimator.Job
	needMicroBatch bool
}

// checker collects what is wrong with the values of a document that was read.
type checker struct {
	list     invalid.List
	reported map[string]bool
	root     *node

	data   []byte // the document, nil when the value did not come from one
	parsed any
	// sound says that all values satisfy their validate tags.
	sound bool
}

// run checks value, a pointer to a struct, and the jobs in it, and returns
// earlier problems together with new ones.
func (c *checker) run(value any, jobs []located, earlier []invalid.Field) error {
	c.reported = map[string]bool{}
	for _, f := range earlier {
		c.reported[f.Pointer] = true
	}
	c.list.Append(earlier...)
	if !c.sound {
		c.tags(value)
	}
	for _, l := range jobs {
		c.job(l)
	}
	return c.list.Err()
}

// job checks what tags cannot say of a job.
func (c *checker) job(l located) {
	m := &l.job.Model
	var names []string
	for _, way := range [...]struct {
		name  string
		given bool
	}{
		{"preset", m.Preset != ""},
		{"hf_config", len(m.HFConfig) > 0},
		{"nanogpt", m.NanoGPT != nil},
		{"dimensions", m.Dimensions != nil},
		{"recorded", len(m.Recorded) > 0},
		{"diffusion", m.Diffusion != nil},
	} {
		if way.given || c.reported[l.at+"/model/"+way.name] {
			names = append(names, way.name)
		}
	}
	switch {
	case len(names) == 0:
		c.add(l.at+"/model", CodeRequired, "exactly one of preset, hf_config, nanogpt, dimensions, recorded "+
			"and diffusion is required")
	case len(names) > 1:
		c.add(l.at+"/model", CodeConflict, "%s are given; accepted: exactly one of preset, hf_config, nanogpt, "+
			"dimensions, recorded and diffusion", strings.Join(names, " and "))
	}
	filled := defaults.Filled(*l.job)
	if adapters := filled.Training.LoRA; adapters != nil && adapters.Rank == 0 {
		c.add(l.at+"/training/lora/rank", CodeRequired, "is required; accepted: a whole number from 1 to 1048576")
	}
	if l.needMicroBatch && filled.Training.MicroBatch == 0 {
		c.add(l.at+"/training/micro_batch", CodeRequired, "is required: the sequences in one forward pass on one GPU, "+
			"a whole number from 1")
	}
	for i, g := range l.job.GPUs {
		if g.Name == "" && g.MemoryBytes == 0 {
			c.add(l.at+"/gpus/"+strconv.Itoa(i), CodeRequired, "a name, or a name and memory_bytes, is required")
		}
	}
}

// tags runs the validate tags and puts what they find into plain words.
func (c *checker) tags(value any) {
	err := validate().Struct(value)
	if err == nil {
		return
	}
	var failed validator.ValidationErrors
	if !errors.As(err, &failed) {
		c.add("", CodeWrongType, "%s", err)
		return
	}
	for _, f := range failed {
		pointer, n := c.locate(f.Namespace())
		code, detail := explain(f, n)
		c.add(pointer, code, "%s", detail)
	}
}

// add reports a problem, unless one is known at the same place.
func (c *checker) add(pointer, code, format string, args ...any) {
	if c.reported[pointer] || len(c.reported) >= maxProblems {
		return
	}
	c.reported[pointer] = true
	c.list.Add(pointer, code, format, args...)
}

// explain turns a failed rule into a code and a sentence.
func explain(f validator.FieldError, n *node) (code, detail string) {
	value := f.Value()
	shown := fmt.Sprint(value)
	text, isText := value.(string)
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		text, isText = v.String(), true
	}
	if isText {
		shown = strconv.Quote(clip(text, 64))
	}
	switch f.Tag() {
	case "required", "required_without":
		return CodeRequired, "is required; accepted: " + n.accepts()
	case "gte", "lte", "gt", "lt":
		return CodeOutOfRange, shown + " was given; accepted: " + n.accepts()
	case "max":
		if isText {
			return CodeTooLarge, fmt.Sprintf("%s is too long; accepted: up to %s characters", shown, f.Param())
		}
		return CodeTooLarge, fmt.Sprintf("has %d items; accepted: up to %s", reflect.ValueOf(value).Len(), f.Param())
	case "min":
		return CodeRequired, "is empty; accepted: " + n.accepts()
	case "oneof":
		choices := strings.Fields(f.Param())
		detail = shown + " was given; accepted: " + strings.Join(choices, ", ")
		if f.Field() == "precision" && (fold(text) == "fp8" || fold(text) == "amp-fp8") {
			return CodeUnknownValue, detail + ". Training in fp8 is not modelled yet"
		}
		if near := nearest(text, choices); isText && near != "" {
			return CodeUnknownValue, detail + ". Did you mean " + near + "?"
		}
		if hint, ok := ambiguous[fold(text)]; ok && f.Field() == "precision" {
			return CodeUnknownValue, detail + ". " + shown + " means different things in different tools: " + hint
		}
		return CodeUnknownValue, detail
	}
	return CodeOutOfRange, shown + " was given; accepted: " + n.accepts()
}

// locate turns the validator's namespace ("Job.training.kernels[0]") into a
// pointer and the node of the schema. Where the document has a short form, as
// in "optimizer": "adamww", the pointer ends there.
func (c *checker) locate(namespace string) (string, *node) {
	_, rest, _ := strings.Cut(namespace, ".") // the Go name of the root
	n := c.root
	at, place := "", c.document()
	short := false
	step := func(token string) {
		if short {
			return
		}
		switch p := place.(type) {
		case map[string]any:
			place = p[token]
		case []any:
			place = nil
			if i, err := strconv.Atoi(token); err == nil && i < len(p) {
				place = p[i]
			}
		case nil:
		default:
			short = true // a string or number stands where the Go type has fields
			return
		}
		at += "/" + escapePointer(clip(token, maxSegment))
	}
	for rest != "" {
		name := rest
		if i := strings.IndexAny(rest, ".["); i >= 0 {
			name = rest[:i]
		}
		rest = strings.TrimPrefix(rest[len(name):], ".")
		next := n.field(name)
		if next == nil {
			continue // an embedded struct
		}
		step(name)
		n = next
		if strings.HasPrefix(rest, "[") {
			// The items of a dictionary are strings, so its key ends at the last bracket.
			end := strings.IndexByte(rest, ']')
			if n.shape == shapeDictionary {
				end = strings.LastIndexByte(rest, ']')
			}
			step(rest[1:end])
			rest = strings.TrimPrefix(rest[end+1:], ".")
			n = n.elem
		}
	}
	return at, n
}

// document is the parsed document. It is needed only where something is wrong.
func (c *checker) document() any {
	if c.parsed == nil && c.data != nil {
		// The reader has walked it to its end; what encoding/json makes of a
		// number out of range does not matter here.
		_ = json.Unmarshal(c.data, &c.parsed)
	}
	return c.parsed
}
