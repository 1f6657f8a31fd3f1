package webtest

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAxe: axe-core finds nothing to object to, in any colours, at any width and in any state of the page.
func TestAxe(t *testing.T) {
	script := axeScript(t)
	for name, c := range map[string]struct {
		look look
		hash string
		then func(*tab)
	}{
		"wide and light": {desktop, "", nil},
		"4K and dark":    {look{3840, 2160, "dark"}, "", nil},
		"narrow, light":  {look{360, 800, "light"}, "", nil},
		"narrow, dark":   {look{360, 800, "dark"}, "", nil},
		"errors": {desktop,
			hashOf(`{"model":{"preset":"gpt22"},"training":{"micro_batch":-1,"nope":1},"gpus":["rtx-40700"]}`), nil},
		"everything open, several cards": {desktop,
			hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":2,"lora":{"rank":4}},"gpus":["rtx-4070","rtx-4090"]}`),
			func(p *tab) {
				p.click("#keep")
				p.set("f-training-micro_batch", "4")
				p.says("#compare", "micro_batch 2 → 4")
				p.settled()
				openAll(p)
			}},
		"stages listed, everything open, dark": {look{1280, 900, "dark"}, hashOf(staged), openAll},
		"stages listed, narrow":                {look{360, 800, "light"}, hashOf(staged), nil},
		"a pipeline, everything open": {desktop, hashOf(`{"model":{"diffusion":{"preset":"black-forest-labs/FLUX.1-dev"}},
			"training":{"micro_batch":1,"resolution":512,"lora":{"rank":16},"objective":{"kind":"diffusion"}},"gpus":["rtx-4090"]}`), openAll},
		"a pipeline, narrow and dark": {look{360, 800, "dark"}, hashOf(`{"model":{"diffusion":{"preset":"stable-diffusion-v1-5/stable-diffusion-v1-5"}},
			"training":{"micro_batch":1,"resolution":512,"objective":{"kind":"diffusion"}},"gpus":["rtx-4090"]}`), nil},
		"a file that was dropped, with what it does not say": {look{360, 800, "light"}, hashOf(gpt4090), func(p *tab) {
			drop(p, "train.sh", "torchrun --nproc_per_node=2 train.py --model_name_or_path meta-llama/Llama-3.2-1B "+
				"--bf16 --per_device_train_batch_size 2\n")
			p.says("#problem", "One question is open.")
		}},
		"a log that ran out of memory": {look{1280, 900, "dark"}, "", func(p *tab) {
			drop(p, "train.log", outOfMemory)
			p.says("#diagnosis", "What helps")
		}},
		"a list of choices": {desktop, "", func(p *tab) {
			p.set("f-model-preset", "llama")
			p.wait(`document.getElementById("f-model-preset").getAttribute("aria-expanded") === "true"`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, c.look, c.hash)
			if c.then != nil {
				c.then(p)
			}
			accessible(p, script)
		})
	}
	t.Run("each kind of training, light and dark", func(t *testing.T) {
		p := open(t, desktop, hashOf(`{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"gpus":["rtx-4090"],
			"training":{"micro_batch":2,"sequence_length":512}}`))
		openAll(p)
		for i, kind := range p.options("f-training-objective-kind") {
			p.choose("f-training-objective-kind", kind)
			p.settled() // with an answer, or with what the kind asks for at its fields
			p.choose("theme", []string{"light", "dark"}[i%2])
			accessible(p, script)
		}
		p.choose("theme", "")
	})
}

// openAll opens every section.
func openAll(p *tab) {
	p.Helper()
	eval[chromedp.Void](p, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
}

// accessible fails where axe-core has something to object to.
func accessible(p *tab, script string) {
	p.Helper()
	eval[chromedp.Void](p, script+";0")
	var report struct {
		Passes     int `json:"passes"`
		Violations []struct {
			ID, Help string
			Nodes    []string
		}
	}
	const ask = `axe.run().then((r) => JSON.stringify({passes: r.passes.length,
				violations: r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html + " " + n.failureSummary)}))}))`
	if err := json.Unmarshal([]byte(eval[string](p, ask)), &report); err != nil {
		p.Fatal(err)
	}
	if report.Passes < 20 {
		p.Errorf("only %d rules had something to look at", report.Passes)
	}
	for _, v := range report.Violations {
		p.Errorf("%s: %s\n%q", v.ID, v.Help, v.Nodes[:min(len(v.Nodes), 4)])
	}
}
