package webtest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// gpt4090 is a job that has nothing of the stories in it.
const gpt4090 = `{"model":{"preset":"openai-community/gpt2-large"},"training":{"micro_batch":2},"gpus":["rtx-4090"]}`

func hashOf(job string) string { return "#job=" + url.PathEscape(job) }

// TestFoundingStoryGPT2: GPT-2 124M as nanoGPT trains it does not fit on a 12 GB card with 16 × 1024 tokens and 32
// accumulation steps; 8 × 64 keeps the batch and fits.
func TestFoundingStoryGPT2(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.says("#sentence", "Fits on rtx-4090")

	p.set("f-model-preset", "nanogpt")
	p.wait(`[...document.querySelectorAll("#f-model-preset-list li")].some((row) => row.textContent.includes("nanogpt/train_gpt2"))`)
	p.do("choose the model", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.set("f-training-micro_batch", "16")
	p.set("f-training-sequence_length", "1024")
	p.set("f-training-gradient_accumulation", "32")
	p.choose("f-training-precision", "amp-bf16")
	p.choose("f-training-optimizer-name", "adamw")
	p.choose("f-training-optimizer-implementation", "fused")
	p.set("f-gpus", "4070")
	p.wait(`[...document.querySelectorAll("#f-gpus-list li")].some((row) => row.textContent.includes("GeForce RTX 4070"))`)
	p.do("choose the card", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.click(`[aria-label="Remove rtx-4090"]`)

	p.says("#sentence", "Does not fit on rtx-4070: it needs 18.6 GiB, and the card has 11.7 GiB.")
	p.says("#advice", "8 × 64 keeps the batch of 512 and fits.")
	p.settled()
	for _, own := range []string{"#heat .own", "#pairs .chosen"} { // as the sentence says, and not the least that it takes
		if got := p.text(own); !strings.Contains(got, "18.6 GiB") || strings.Contains(got, "at least") {
			t.Errorf("%s says %q", own, got)
		}
	}
	if rows := eval[int](p, `document.querySelectorAll("#pairs tbody tr").length`); rows < 5 {
		t.Errorf("%d pairs are shown", rows)
	}
	p.click(`#pairs [aria-label="Use 8 × 64"]`)
	p.says("#sentence", "Fits on rtx-4070: it needs 11.5 GiB of 11.7 GiB")
	p.settled()
	want := `{"model":{"preset":"nanogpt/train_gpt2"},"training":{"micro_batch":8,"sequence_length":1024,"gradient_accumulation":64,` +
		`"precision":"amp-bf16","optimizer":{"name":"adamw","implementation":"fused"}},"gpus":["rtx-4070"]}`
	if got := sortedJSON(t, p.job()); got != sortedJSON(t, want) {
		t.Errorf("the job is\n%s, want\n%s", got, want)
	}
	if got := eval[string](p, `document.getElementById("f-training-gradient_accumulation").value`); got != "64" {
		t.Errorf("the form has accumulation %q", got)
	}
	if hash := eval[string](p, `decodeURIComponent(location.hash)`); !strings.Contains(hash, `"micro_batch":8`) {
		t.Errorf("the link has another job: %s", hash)
	}
}

// TestFoundingStory30M: a small model by its numbers, eager and under torch.compile.
func TestFoundingStory30M(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.click(`label:has(#way-nanogpt)`)
	for id, value := range map[string]string{"n_layer": "6", "n_head": "6", "n_embd": "384", "block_size": "512",
		"vocab_size": "50304", "dropout": "0.2"} {
		p.set("f-model-nanogpt-"+id, value)
	}
	p.set("f-training-micro_batch", "16")
	p.set("f-training-gradient_accumulation", "4")
	p.choose("f-training-precision", "amp-fp16")
	p.choose("f-training-optimizer-name", "adamw")
	p.choose("f-training-optimizer-implementation", "fused")
	p.click(`[aria-label="Remove rtx-4090"]`)
	p.says("#sentence", "Needs 7.45 GiB on a card.")
	p.set("f-gpus", "4070")
	p.wait(`document.querySelectorAll("#f-gpus-list li").length > 0`)
	p.do("choose the card", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.says("#sentence", "Fits on rtx-4070: it needs 7.45 GiB of 11.7 GiB")

	p.click("#more-memory summary")
	p.click("#f-training-compile")
	p.says("#sentence", "Fits on rtx-4070: it needs 4.44 GiB of 11.7 GiB")
}
