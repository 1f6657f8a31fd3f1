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
				eval[chromedp.Void](p, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
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
				t.Fatal(err)
			}
			if report.Passes < 20 {
				t.Errorf("only %d rules had something to look at", report.Passes)
			}
			for _, v := range report.Violations {
				t.Errorf("%s: %s\n%q", v.ID, v.Help, v.Nodes[:min(len(v.Nodes), 4)])
			}
		})
	}
}
