package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/openapi"
	"github.com/vramplan/vramplan/reliability/meter"
	"github.com/vramplan/vramplan/service"
)

// drawer draws documents from the schemas of the OpenAPI document, so that a new field is
// drawn as soon as it is documented.
type drawer struct {
	t       *rapid.T
	schemas map[string]map[string]any
	depth   int
}

// wild is what no schema asks for. The literals are not all JSON.
var wild = []string{
	"0", "-1", "1e18", "1000000000000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"1e400", "0.5", "NaN", "Infinity",
	"4294967296", "2147483647", "9007199254740993", "null", "true", `""`, `"none"`, `"\ud800"`,
	`"` + strings.Repeat("x", 300) + `"`, "[]", "{}", `[1]`, `{"a": 1}`, `{"a": 1, "a": 2}`,
}

var modelTypes = []string{
	"gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "gpt_neox", "gptj",
	"gpt_neo", "opt", "bloom", "falcon", "starcoder2", "stablelm", "olmo", "olmo2",
	"granite", "cohere", "cohere2", "smollm3", "mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3",
	"gpt_oss", "bert", "roberta", "distilbert", "deberta-v2", "modernbert", "t5", "vit", "clip", "whisper",
}

var configKeys = []string{
	"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
	"vocab_size", "max_position_embeddings", "sliding_window",
	"n_layer", "n_embd", "n_head", "n_positions", "n_inner", "num_experts", "num_experts_per_tok", "num_local_experts",
	"moe_intermediate_size", "n_routed_experts", "q_lora_rank", "kv_lora_rank",
	"d_model", "d_ff", "d_kv", "num_heads", "num_layers", "encoder_layers", "decoder_layers", "encoder_attention_heads",
	"image_size", "patch_size", "tie_word_embeddings", "attention_bias", "rope_theta",
	"layer_types", "attention_dropout", "use_cache", "torch_dtype", "text_config", "vision_config", "num_mel_bins",
	"max_source_positions", "num_labels", "attn_implementation",
}

func (d *drawer) pick(label string, choices ...string) string {
	return rapid.SampledFrom(choices).Draw(d.t, label)
}

func (d *drawer) oneIn(n int) bool { return rapid.IntRange(0, n-1).Draw(d.t, "rare") == n-1 }

// size draws a number: mostly such as people use, sometimes at a limit or beyond.
func (d *drawer) size(lowest, highest int64) string {
	n := rapid.OneOf(rapid.Int64Range(1, 16), rapid.Map(rapid.IntRange(0, 13), func(i int) int64 { return 1 << i }),
		rapid.Map(rapid.IntRange(1, 16), func(i int) int64 {
			return 64 * int64(i)
		}), rapid.SampledFrom([]int64{lowest, highest, highest + 1}), rapid.Int64Range(1, 1<<62)).Draw(d.t, "size")
	return fmt.Sprint(n)
}

// value draws what a schema allows, or now and then what it does not.
func (d *drawer) value(schema map[string]any) string {
	if d.oneIn(16) {
		return d.pick("wild", wild...)
	}
	if ref, ok := schema["$ref"].(string); ok {
		return d.value(d.schemas[ref[strings.LastIndexByte(ref, '/')+1:]])
	}
	for _, union := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := schema[union].([]any); ok {
			i := 0
			if union != "allOf" {
				i = rapid.IntRange(0, len(list)-1).Draw(d.t, union)
			}
			return d.value(list[i].(map[string]any))
		}
	}
	if choices, ok := schema["enum"].([]any); ok {
		text, err := json.Marshal(rapid.SampledFrom(choices).Draw(d.t, "enum"))
		if err != nil {
			d.t.Fatal(err)
		}
		return string(text)
	}
	number := func(name string, otherwise float64) float64 {
		if v, ok := schema[name].(float64); ok {
			return v
		}
		return otherwise
	}
	switch schema["type"] {
	case "boolean":
		return d.pick("boolean", "true", "false")
	case "integer":
		return d.size(int64(number("minimum", -1)), int64(number("maximum", 1<<53)))
	case "number":
		return fmt.Sprint(rapid.Float64Range(number("minimum", -1), number("maximum", 2)).Draw(d.t, "number"))
	case "string":
		return d.pick("string", `"q_proj"`, `"all-linear"`, `"2.9.1"`, `"1f1b"`, `"rtx-4090"`, `"A100"`, `"*"`,
			`"`+strings.Repeat("é", 200)+`"`)
	case "array":
		var items []string
		for range rapid.IntRange(0, 3).Draw(d.t, "items") {
			items = append(items, d.value(schema["items"].(map[string]any)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		return d.object(properties)
	}
	return d.pick("free", "{}", `{"stage": 2}`, `{"stage": 3, "reduce_bucket_size": 1e9}`, `{"torch": "2.9.1"}`,
		`{"torch": "99"}`)
}

// object draws some of the properties.
func (d *drawer) object(properties map[string]any) string {
	if d.depth++; d.depth > 6 {
		return "{}"
	}
	defer func() { d.depth-- }()
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return d.fields(properties, rapid.SliceOfN(rapid.SampledFrom(names), 0, 5).Draw(d.t, "fields"))
}

// fields writes the named properties; a name that was drawn twice stands there twice only now and then.
func (d *drawer) fields(properties map[string]any, names []string) string {
	var fields []string
	var seen []string
	for _, name := range names {
		if slices.Contains(seen, name) && !d.oneIn(8) {
			continue
		}
		seen = append(seen, name)
		fields = append(fields, fmt.Sprintf("%q: %s", name, d.value(properties[name].(map[string]any))))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (d *drawer) model() string {
	switch d.pick("model", "preset", "hf_config", "nanogpt", "dimensions", "schema") {
	case "preset":
		return fmt.Sprintf(`{"preset": %q}`, d.pick("preset", "gpt2", "nanogpt/train_gpt2", "Qwen/Qwen2.5-0.5B",
			"google-bert/bert-base-uncased", "t5-small", "mistralai/Mixtral-8x7B-v0.1", "meta-llama/Llama-3.1-70B",
			"no/such"))
	case "hf_config":
		fields := []string{fmt.Sprintf(`"model_type": %q`, d.pick("type", modelTypes...))}
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(configKeys), 0, 6, rapid.ID[string]).Draw(d.t, "keys")
		for _, key := range [...]string{"num_hidden_layers", "n_layer", "num_layers"} {
			if !slices.Contains(keys, key) {
				// the defaults of some make models of which a plan takes a minute
				fields = append(fields, fmt.Sprintf("%q: 4", key))
			}
		}
		for _, key := range keys {
			value := d.size(0, 1<<31)
			if d.oneIn(6) {
				value = d.pick("wild", wild...)
			}
			fields = append(fields, fmt.Sprintf("%q: %s", key, value))
		}
		return `{"hf_config": {` + strings.Join(fields, ", ") + `}}`
	case "nanogpt":
		return fmt.Sprintf(`{"nanogpt": {"n_layer": %s, "n_head": %d, "n_embd": %d, "block_size": 1024, "vocab_size": %s}}`,
			d.size(1, 1<<20), 1<<rapid.IntRange(0, 4).Draw(d.t, "heads"), 16*rapid.IntRange(1, 256).Draw(d.t, "width"),
			d.size(1, 1<<30))
	case "dimensions":
		return fmt.Sprintf(`{"dimensions": {"layers": %s, "hidden": %d, "heads": %d, "ffn": %s, "vocab": %s, "max_positions": 4096}}`,
			d.size(1, 1<<20), 16*rapid.IntRange(1, 256).Draw(d.t, "width"), 1<<rapid.IntRange(0, 4).Draw(d.t, "heads"),
			d.size(1, 1<<30), d.size(1, 1<<30))
	}
	return d.value(d.schemas["Model"])
}

// job draws a job that is all right but for a few fields, else next to none would be accepted.
func (d *drawer) job() string {
	properties := d.schemas["Training"]["properties"].(map[string]any)
	var names []string
	for name := range properties {
		if name != "micro_batch" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	some := rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(d.t, "training")
	training := d.fields(properties, some)
	comma := ", "
	if training == "{}" {
		comma = ""
	}
	micro := rapid.IntRange(1, 64).Draw(d.t, "micro_batch")
	text := fmt.Sprintf(`{"model": %s, "training": {"micro_batch": %d%s%s`, d.model(), micro, comma, training[1:])
	if d.oneIn(3) {
		text += `, "gpus": ` + d.value(d.schemas["Job"]["properties"].(map[string]any)["gpus"].(map[string]any))
	}
	if d.oneIn(8) {
		text += `, "confidence": ` +
			d.value(d.schemas["Job"]["properties"].(map[string]any)["confidence"].(map[string]any))
	}
	return text + "}"
}

// answer is the part of an estimate that has to be consistent.
type answer struct {
	Model struct {
		Parameters int64 `json:"parameters"`
	} `json:"model"`
	Peak struct {
		Allocated int64 `json:"allocated_bytes"`
		Reserved  int64 `json:"reserved_bytes"`
		Device    int64 `json:"device_bytes"`
		Low       int64 `json:"low_bytes"`
		High      int64 `json:"high_bytes"`
		Limit     int64 `json:"minimum_limit_bytes"`
	} `json:"peak"`
	Components []struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
	} `json:"components"`
	GPUs []struct {
		Usable  int64  `json:"usable_bytes"`
		Verdict string `json:"verdict"`
	} `json:"gpus"`
}

// check says what is wrong with an answer, or "".
func (a *answer) check() string {
	if a.Model.Parameters <= 0 {
		return "no parameters"
	}
	var sum int64
	for _, c := range a.Components {
		if c.Bytes < 0 {
			return c.Name + " is negative"
		}
		sum += c.Bytes
	}
	p := a.Peak
	switch {
	case sum != p.Device:
		return fmt.Sprintf("the components add up to %d", sum)
	case len(a.Components) != 10:
		return "not ten components"
	case p.Allocated <= 0 || p.Reserved < p.Allocated || p.Device < p.Reserved:
		return "allocated, reserved and device do not rise"
	case p.Low > p.Device || p.High < p.Device || p.Low < 0:
		return "the bounds do not hold the figure"
	case p.Limit > p.Reserved:
		return "needs a higher limit than it reserves"
	}
	for _, g := range a.GPUs {
		want := "does_not_fit"
		switch {
		case p.High <= g.Usable:
			want = "fits"
		case p.Device <= g.Usable:
			want = "tight"
		case p.Low <= g.Usable:
			want = "unlikely"
		}
		if g.Verdict != want && g.Verdict != "unknown" && len(a.GPUs) == 1 {
			return fmt.Sprintf("verdict %s with %d usable bytes", g.Verdict, g.Usable)
		}
	}
	return ""
}

// live is what tensors take at the peak. What the allocator makes of them may fall when they grow: it
// hands out a block whole where little would be left of it.
func (a *answer) live() int64 {
	var sum int64
	for _, c := range a.Components {
		if c.Name != "allocator" && c.Name != "cuda_context" {
			sum += c.Bytes
		}
	}
	return sum
}

// post reads the answer into dst and reports whether there is one; a refusal has to be a problem that names each field.
func post(t *rapid.T, h http.Handler, path, job string, dst any) bool {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(job))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), dst); err != nil {
			t.Fatalf("%s\nanswer: %v", job, err)
		}
		return true
	}
	var p problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code ||
		(w.Code != http.StatusBadRequest && w.Code != http.StatusUnprocessableEntity) {
		t.Fatalf("%s\nstatus %d: %s", job, w.Code, w.Body)
	}
	if w.Code == http.StatusUnprocessableEntity && len(p.Errors) == 0 {
		t.Fatalf("%s\nno field is named: %s", job, w.Body)
	}
	for _, e := range p.Errors {
		if e.Detail == "" || (e.Pointer != "" && !strings.HasPrefix(e.Pointer, "/")) {
			t.Fatalf("%s\nan error without a place or a reason: %s", job, w.Body)
		}
	}
	return false
}

// estimate is the answer for a job, nil for a refusal.
func estimate(t *rapid.T, h http.Handler, job string) *answer {
	a := new(answer)
	if !post(t, h, "/v1/estimate", job, a) {
		return nil
	}
	if wrong := a.check(); wrong != "" {
		t.Fatalf("%s\n%s: %+v", job, wrong, a)
	}
	return a
}

// plan asks for the ways out of a job that has an estimate.
func plan(t *rapid.T, h http.Handler, job string, a *answer) {
	var p struct {
		EffectiveBatch int64 `json:"effective_batch"`
		Today          struct {
			MicroBatch int64 `json:"micro_batch"`
			Device     int64 `json:"device_bytes"`
		} `json:"today"`
		Pairs []struct {
			MicroBatch   int64 `json:"micro_batch"`
			Accumulation int64 `json:"gradient_accumulation"`
		} `json:"pairs"`
	}
	if !post(t, h, "/v1/plan", job, &p) {
		return
	}
	if p.Today.Device != a.Peak.Device {
		t.Fatalf("%s\nneeds %d by the estimate, %d by the plan", job, a.Peak.Device, p.Today.Device)
	}
	for _, pair := range p.Pairs {
		if pair.MicroBatch <= 0 || p.EffectiveBatch%(pair.MicroBatch*pair.Accumulation) != 0 {
			t.Fatalf("%s\nthe pair %d × %d does not make %d", job, pair.MicroBatch, pair.Accumulation, p.EffectiveBatch)
		}
	}
}

// metered holds every request against the bound of the processor time and memory that it may take, and answers 500
// where it took more.
func metered(m *meter.Meter, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, answer := int(r.ContentLength), httptest.NewRecorder()
		m.Begin()
		h.ServeHTTP(answer, r)
		if err := m.End(document, answer.Body.Len()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// Whatever is asked, the answer is a consistent estimate or a problem, and a larger job never
// takes less: an overflow would make it.
func TestRandomJobs(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	var m meter.Meter
	h := metered(&m, api.New(service.New(service.EmbeddedCatalog(), service.WithCost(m.Tell)), api.Options{}))
	answered, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := &drawer{t: t, schemas: document.Components.Schemas}
		job := d.job()
		a := estimate(t, h, job)
		if a == nil {
			refused++
			return
		}
		answered++
		_, rest, _ := strings.Cut(job, `"training": {"micro_batch": `)
		digits := rest[:strings.IndexAny(rest, ",}")]
		larger := strings.Replace(job, `"training": {"micro_batch": `+digits, `"training": {"micro_batch": `+digits+`0`,
			1)
		if b := estimate(t, h, larger); b != nil && b.live() < a.live() {
			t.Fatalf("%s\ntakes %d, and %d with ten times the micro-batch", job, a.live(), b.live())
		}
		if d.oneIn(4) {
			plan(t, h, job, a)
		}
	})
	t.Logf("%d answered, %d refused; %v", answered, refused, &m)
}
