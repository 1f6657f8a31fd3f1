package webtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/vramplan/vramplan/estimator"
)

// options are the values that a select offers, but for its default.
func (p *tab) options(id string) []string {
	p.Helper()
	var list []string
	if err := json.Unmarshal([]byte(eval[string](p, `JSON.stringify([...document.getElementById("`+id+
		`").options].map((o) => o.value).filter(Boolean))`)), &list); err != nil {
		p.Fatal(err)
	}
	return list
}

// TestPipelineInTheForm: a diffusion pipeline by its name, from an empty form to the verdict, and back to a language
// model.
func TestPipelineInTheForm(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.click(`label:has(#way-diffusion)`)
	p.wait(`document.getElementById("f-training-sequence_length").closest(".field").hidden`)
	p.set("f-training-resolution", "520")
	p.says("#f-training-resolution-error", "multiples of 16 pixels")
	p.set("f-training-resolution", "512")
	p.choose("f-training-objective-latents", "cached")
	eval[bool](p, `document.getElementById("more-lora").open = true`)
	p.set("f-training-lora-rank", "16")
	p.says("#sentence", "rtx-4090")
	p.says("#versions", "FLUX.1-dev: ")
	p.settled()
	want := sortedJSON(t, `{"model":{"diffusion":{"preset":"black-forest-labs/FLUX.1-dev"}}, "gpus":["rtx-4090"],
		"training":{"micro_batch":2,"resolution":512,"lora":{"rank":16},
			"objective":{"kind":"diffusion","latents":"cached"}}}`)
	if got := sortedJSON(t, p.job()); got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
	p.says("#title-heat", "Micro-batch by resolution")
	p.says("#heat", "pixels")
	eval[chromedp.Void](p, `[...document.querySelectorAll("#ways button")]
		.find((b) => b.textContent === "CLI").click()`)
	p.says("#elsewhere", "--pipeline black-forest-labs/FLUX.1-dev")

	p.set("f-training-resolution", "512 × 768")
	p.wait(`JSON.parse(document.getElementById("document-text").value).training.resolution.join() === "512,768"`)
	p.settled()

	p.click(`label:has(#way-preset)`)
	p.set("f-model-preset", "gpt2")
	p.do("leave the field", chromedp.KeyEvent(kb.Enter))
	p.says("#versions", "gpt2: ")
	p.settled()
	if job := p.job(); strings.Contains(job, "diffusion") || strings.Contains(job, "resolution") {
		t.Errorf("what only a pipeline has stays in the job: %s", job)
	}
}

// TestPipelinesAreTheServices: the form offers the pipelines and the scripts that the service knows.
func TestPipelinesAreTheServices(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	for id, c := range map[string]struct{ job, pointer string }{
		"f-model-diffusion-preset": {`{"model": {"diffusion": {"preset": "none"}}, "training": {"micro_batch": 1,
			"resolution": 512, "objective": "diffusion"}}`, "/model/diffusion/preset"},
		"f-training-script": {`{"model": {"diffusion": {"preset": "FLUX.1-dev"}}, "training": {"micro_batch": 1,
			"resolution": 512, "objective": "diffusion", "script": "none.py"}}`, "/training/script"},
	} {
		answer, err := http.Post(shared.url+"/v1/estimate", "application/json", strings.NewReader(c.job))
		if err != nil {
			t.Fatal(err)
		}
		var problem struct {
			Errors []struct{ Pointer, Detail string }
		}
		err = json.NewDecoder(answer.Body).Decode(&problem)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(problem.Errors, func(e struct{ Pointer, Detail string }) bool {
			return e.Pointer == c.pointer
		})
		if i < 0 {
			t.Fatalf("nothing is wrong at %s: %v", c.pointer, problem.Errors)
		}
		_, known, _ := strings.Cut(problem.Errors[i].Detail, "; ")
		known, _, _ = strings.Cut(known, " are")
		want, got := strings.Split(known, ", "), p.options(id)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s offers %q, and the service knows %q", id, got, want)
		}
	}
}

// qwenTeacher is a model with the vocabulary of Qwen2.5 0.5B.
const qwenTeacher = `{"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
	"num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": true}`

// paste puts a text into a field at once.
func (p *tab) paste(id, text string) {
	p.Helper()
	eval[chromedp.Void](p, fmt.Sprintf(`{ const s = document.getElementById(%q); s.value = %q; s.dispatchEvent(new Event("input")); }`, id, text))
}

// TestKindsOfTraining: every kind that the form offers is one that the service takes, with the fields that it shows.
func TestKindsOfTraining(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"gpus":["rtx-4090"],
		"training":{"micro_batch":2,"sequence_length":512}}`))
	eval[bool](p, `document.getElementById("more-kind").open = true`)
	p.choose("f-training-objective-kind", "dpo")
	p.says("#f-training-objective-prompt_tokens-error", "rompt_tokens is missing")
	p.set("f-training-objective-prompt_tokens", "256")
	p.set("f-training-objective-completion_tokens", "256")
	p.says("#sentence", "Fits on rtx-4090")
	p.settled()
	p.choose("f-training-objective-reference", "precomputed")
	p.settled()
	p.says("#title-heat", "Micro-batch by completion length")
	want := sortedJSON(t, `{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"gpus":["rtx-4090"],"training":{"micro_batch":2,
		"objective":{"kind":"dpo","prompt_tokens":256,"completion_tokens":256,"reference":"precomputed"}}}`)
	if got := sortedJSON(t, p.job()); got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
	kinds := p.options("f-training-objective-kind")
	field, _ := reflect.TypeFor[estimator.Objective]().FieldByName("Kind")
	_, known, _ := strings.Cut(field.Tag.Get("validate"), "oneof=")
	for kind := range strings.FieldsSeq(known) {
		if kind == "language-model" || kind == "diffusion" {
			continue // the form's default, and the way in which a pipeline is given
		}
		if !slices.Contains(kinds, kind) {
			t.Errorf("the form does not offer %s, which the service takes", kind)
		}
	}
	for _, kind := range kinds {
		if kind == "vision-language" || kind == "contrastive" {
			continue // of another model
		}
		p.choose("f-training-objective-kind", kind)
		p.wait(`JSON.stringify(JSON.parse(document.getElementById("document-text").value).training.objective)
			.includes("` + kind + `")`)
		if slices.Contains([]string{"dpo", "orpo", "cpo", "simpo", "kto", "grpo", "rloo", "ppo"}, kind) &&
			!strings.Contains(p.job(), "prompt_tokens") {
			p.set("f-training-objective-prompt_tokens", "256")
			p.set("f-training-objective-completion_tokens", "256")
		}
		if kind == "gkd" {
			p.says("#f-training-objective-teacher-hf_config-error", "eacher is missing")
			p.paste("f-training-objective-teacher-hf_config", qwenTeacher)
		}
		if kind == "grpo" {
			p.set("f-training-objective-num_generations", "2") // which the batch has to be a multiple of
		}
		p.settled()
		if got := p.text("#sentence"); !strings.Contains(got, " on rtx-4090") {
			t.Errorf("%s: %q; %s", kind, got, p.text("#job .error:not([hidden])"))
		}
	}
	p.choose("f-training-objective-kind", "sft")
	p.settled()
	if job := p.job(); strings.Contains(job, "tokens") || strings.Contains(job, "reference") ||
		!strings.Contains(job, `"sequence_length":512`) {
		t.Errorf("what only DPO reads stays in the job: %s", job)
	}
}
