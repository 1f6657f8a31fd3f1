package webtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// sortedJSON writes a document with its fields in order.
func sortedJSON(t *testing.T, document string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestErrorsStandAtTheirFields(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	at := func(id string) string { return p.text("#" + id + "-error") }
	p.set("f-training-micro_batch", "-3")
	p.wait(`document.getElementById("f-training-micro_batch").getAttribute("aria-invalid") === "true"`)
	if got := at("f-training-micro_batch"); !strings.Contains(got, "-3 was given; accepted: a whole number from 1") {
		t.Errorf("at the micro-batch stands %q", got)
	}
	if described := eval[string](p,
		`document.getElementById("f-training-micro_batch").getAttribute("aria-describedby")`); !strings.Contains(described, "f-training-micro_batch-error") {
		t.Errorf("the field is described by %q", described)
	}
	p.set("f-model-preset", "gpt22")
	p.do("leave the field", chromedp.KeyEvent(kb.Enter))
	p.wait(`document.getElementById("f-model-preset").getAttribute("aria-invalid") === "true"`)
	if got := at("f-model-preset"); !strings.Contains(got, "openai-community/gpt2") {
		t.Errorf("at the model stands %q, without the nearest name", got)
	}
	if got := p.text("#sentence"); got != "No answer to this job yet" {
		t.Errorf("the sentence is %q", got)
	}
	p.set("f-training-micro_batch", "3")
	p.set("f-model-preset", "gpt2")
	p.do("leave the field", chromedp.KeyEvent(kb.Enter))
	p.says("#sentence", "Fits on rtx-4090")
	if left := eval[int](p, `document.querySelectorAll("#job [aria-invalid], #job .error:not([hidden])").length`); left != 0 {
		t.Errorf("%d errors are left after they were corrected", left)
	}
}

// TestUnknownCardIsNamedPlainly: the detail names the card, so no pointer stands before it.
func TestUnknownCardIsNamedPlainly(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":2},"gpus":["rtx-40700"]}`))
	p.wait(`[...document.querySelectorAll("#job .error")].some((e) => e.textContent.includes("rtx-40700"))`)
	if all := p.text("#job"); strings.Contains(all, "/gpus/") {
		t.Errorf("at the cards stands a pointer: %s", all)
	}
}

// TestNarrowPairs: pairs do not make a narrow page wider, however long their figures are.
func TestNarrowPairs(t *testing.T) {
	p := open(t, look{360, 800, "light"}, hashOf(`{"model":{"preset":"meta-llama/Llama-3.1-8B"},"training":{"micro_batch":4,
		"sequence_length":2048,"gradient_accumulation":8,"objective":"sft","lora":{"rank":16,"base_precision":"nf4",
		"double_quantization":true}},"gpus":["rtx-4090"]}`))
	p.wait(`document.querySelector("#pairs table") !== null`)
	p.settled()
	eval[chromedp.Void](p, `for (const e of document.querySelectorAll("#pairs td.figure")) e.textContent = "at least 1,234.5 GiB"`)
	if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d px wide", wide)
	}
}

// TestFieldsThatTheFormLacks: what a document has and the form has not stays in the job, and errors of it are said
// above the form or at the document.
func TestFieldsThatTheFormLacks(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":2,"hold_logits":true,"dropot":0.1},"gpus":["rtx-4090"]}`))
	p.wait(`!document.getElementById("problem").hidden`)
	if all := p.text("#problem"); !strings.Contains(all, "dropot") || !strings.Contains(all, "did you mean dropout") {
		t.Errorf("nothing says what is wrong: %s", all)
	}
	p = open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":2,"hold_logits":true},"gpus":["rtx-4090"]}`))
	p.set("f-training-micro_batch", "4")
	p.wait(`document.getElementById("document-text").value.includes('"micro_batch": 4')`)
	if got, want := sortedJSON(t, p.job()),
		`{"gpus":["rtx-4090"],"model":{"preset":"gpt2"},"training":{"hold_logits":true,"micro_batch":4}}`; got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
}

func TestConfigIsPastedOrOpened(t *testing.T) {
	const config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1376,
		"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 2048, "vocab_size": 32000}`
	p := open(t, desktop, hashOf(gpt4090))
	p.click(`label:has(#way-hf_config)`)
	p.set("config-text", `{"model_type": `)
	p.says("#config-error", "This is not JSON")
	p.set("config-text", strings.Join(strings.Fields(config), " "))
	p.says("#sentence", "Fits on rtx-4090")
	p.says("#versions", "llama: ")

	p = open(t, desktop, hashOf(gpt4090))
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.do("open a file", chromedp.SetUploadFiles(chromedp.ID("file"), []string{file}))
	p.says("#versions", "llama: ")
	if !strings.Contains(p.job(), `"hidden_size":512`) {
		t.Errorf("the job is %s", p.job())
	}
}

func TestTwoJobsBesideEachOther(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.click("#keep")
	p.settled()
	p.set("f-training-micro_batch", "4")
	p.says("#compare", "micro_batch 2 → 4")
	p.says("#compare", "more than the one that was kept")
	link := eval[string](p, `location.hash`)
	again := open(t, desktop, link)
	again.says("#compare", "micro_batch 2 → 4")
	p.click("#back")
	p.wait(`document.getElementById("f-training-micro_batch").value === "2" && document.getElementById("section-compare").hidden`)
}

func TestSeveralCards(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":8,"sequence_length":1024},"gpus":["rtx-4070","rtx-4090","a100-pcie-80gb"]}`))
	if rows := eval[int](p, `document.querySelectorAll("#fits tbody tr").length`); rows != 3 {
		t.Fatalf("%d cards are shown, want 3", rows)
	}
	p.click("#fits tbody tr:nth-child(2) button")
	p.says("#sentence", "on rtx-4090")
	p.settled()
	if !strings.Contains(p.job(), `"gpus":["rtx-4090","rtx-4070","a100-pcie-80gb"]`) {
		t.Errorf("the job is %s", p.job())
	}
}

func TestOptionsApply(t *testing.T) {
	p := open(t, desktop, "")
	p.says("#sentence", "Does not fit on rtx-4070")
	p.settled()
	p.click(`[aria-label^="Apply: Write the loss gradient over the logits"]`)
	p.says("#sentence", "Fits on rtx-4070")
	if !strings.Contains(p.job(), `"loss":"fused"`) {
		t.Errorf("the job is %s", p.job())
	}
}

// TestElsewhere: what is copied is the job.
func TestElsewhere(t *testing.T) {
	p := open(t, desktop, "")
	for way, want := range map[string]string{
		"curl": `"preset": "nanogpt/train_gpt2"`,
		"CLI": "vramplan plan \\\n    --model nanogpt/train_gpt2 \\\n    --micro-batch 16 \\\n    " +
			"--sequence-length 1024 \\\n    --gradient-accumulation 32 \\\n    --precision amp-bf16 \\\n    " +
			"--optimizer adamw \\\n    --optimizer-implementation fused \\\n    --gpu rtx-4070",
		"Python": "urllib.request.urlopen",
		"Link":   shared.url + "/#job=%7B%22model%22",
	} {
		eval[chromedp.Void](p, `[...document.querySelectorAll("#ways button")].find((b) => b.textContent === "`+way+
			`").click()`)
		if got := eval[string](p, `document.getElementById("elsewhere").textContent`); !strings.Contains(got, want) {
			t.Errorf("%s is\n%s\nwithout\n%s", way, got, want)
		}
	}
}

// TestTimelineUnderThePointer: what is live at a moment, by component, with the tensor that it was reached by and the
// band under the pointer.
func TestTimelineUnderThePointer(t *testing.T) {
	p := open(t, desktop, "")
	p.says("#time .moment", "16.4 GiB live: most in loss backward (backward, micro-step 1)")
	p.says("#time .moment + .moment", "Reached by: gradient of the logits, 3.07 GiB")
	p.says("#time .shares", "logits and loss 9.21 GiB")
	// In the middle of the first layers' backward, near the bottom.
	p.do("scroll to the drawing", chromedp.ScrollIntoView(chromedp.CSS("svg.timeline")))
	type point struct{ X, Y float64 }
	at := eval[point](p, `(() => { const b = document.querySelector("svg.timeline").getBoundingClientRect(); return {X: b.left + 0.35 * b.width, Y: b.top + 0.98 * b.height}; })()`)
	p.do("move the pointer", chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y))
	p.says("#time .moment", "backward of layer")
	if under := p.text("#time .under"); !strings.HasPrefix(under, "weights 474 MiB") {
		t.Errorf("under the pointer is %q", under)
	}
	p.do("move the pointer away", chromedp.MouseEvent(chromedp.MouseMoved, 2, 2))
	p.says("#time .moment", "most in loss backward")
}

// TestEveryCard: of the whole catalog the smallest card that the job fits on is the one that is shown.
func TestEveryCard(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":4,"sequence_length":1024},"gpus":["*"]}`))
	type card struct {
		Needs, Has float64
		Name       string
	}
	said := p.text("#sentence")
	var c card
	var on, of int
	if _, err := fmt.Sscanf(strings.NewReplacer(":", "", ",", "").Replace(said),
		"Fits on %d of %d cards it needs %g GiB and the smallest is %s with %g GiB.", &on, &of, &c.Needs, &c.Name,
		&c.Has); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	if c.Needs > c.Has || on < 20 || on >= of {
		t.Errorf("the sentence is %q", said)
	}
	if first := p.text("#fits tbody th"); first != c.Name {
		t.Errorf("the first card is %s, not %s", first, c.Name)
	}
}

// TestLinksThatCannotBeRead: the example stands in, and is said to.
func TestLinksThatCannotBeRead(t *testing.T) {
	for _, hash := range []string{"#job=%7Bbroken", "#job=[]", "#job=%"} {
		p := open(t, desktop, hash)
		p.says("#state", "could not be read")
		p.says("#sentence", "on rtx-4070")
	}
	// What can be read and is no job is answered as the API does, at its fields.
	p := open(t, desktop, hashOf(`{"model":"gpt2","training":{"micro_batch":"x","optimizer":["a"]},"gpus":"rtx-4070"}`))
	p.says("#problem", "4 fields need another look")
	p.says("#f-gpus-error", "accepted: a list")
}

// TestThePageIsLight: a first visit, with all answers to its first job, takes at most 250 kB, and nothing from
// elsewhere.
func TestThePageIsLight(t *testing.T) {
	p := open(t, desktop, "")
	type load struct {
		Bytes, Requests int
		Elsewhere       []string
	}
	l := eval[load](p, `(() => {
		const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
		return {Bytes: all.reduce((sum, e) => sum + e.transferSize, 0), Requests: all.length,
			Elsewhere: all.map((e) => e.name).filter((name) => !name.startsWith(location.origin) && !name.startsWith("data:"))};
	})()`)
	t.Logf("%d bytes in %d requests", l.Bytes, l.Requests)
	if l.Bytes < 50_000 || l.Bytes > 250_000 {
		t.Errorf("a first visit takes %d bytes", l.Bytes)
	}
	if len(l.Elsewhere) > 0 {
		t.Errorf("it loads %q", l.Elsewhere)
	}
}
