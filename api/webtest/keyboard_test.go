package webtest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboard goes through the page without a mouse.
func TestKeyboard(t *testing.T) {
	p := open(t, desktop, "")
	press := func(keys ...string) {
		for _, key := range keys {
			p.do("press a key", chromedp.KeyEvent(key))
		}
	}
	focused := func() string {
		return eval[string](p,
			`document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.trim()`)
	}
	// Tab reaches every part; each stop is seen.
	stops := map[string]bool{}
	for range 120 {
		press(kb.Tab)
		stops[focused()] = true
		if eval[bool](p, `document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === "none" && !document.activeElement.closest(".ways, .file")`) {
			t.Errorf("%q has the focus and no outline", focused())
		}
		if stops["copy"] {
			break
		}
	}
	for _, want := range []string{"To the answer", "way-preset", "f-model-preset", "f-training-micro_batch", "f-gpus",
		"Remove rtx-4070", "use-best", "keep", "Use 8 × 64", "Moment of the step", "copy"} {
		if !stops[want] {
			t.Errorf("Tab never reaches %q", want)
		}
	}

	// The heat-map is one stop: arrows move in it and Enter takes a cell's values.
	eval[chromedp.Void](p, `document.querySelector('#heat [tabindex="0"]').focus()`)
	if got := eval[string](p, `document.activeElement.title.replaceAll("\u00a0", " ")`); !strings.HasPrefix(got, "16 × 1,024: 18.6 GiB") {
		t.Errorf("the heat-map begins at %q", got)
	}
	press(kb.ArrowLeft, kb.ArrowLeft)
	if got := eval[string](p, `document.activeElement.title.replaceAll("\u00a0", " ")`); !strings.HasPrefix(got, "8 × 1,024: 11.5 GiB, fits") {
		t.Errorf("two cells to the left is %q", got)
	}
	press(kb.Enter)
	p.says("#sentence", "Fits on rtx-4070")
	p.settled()

	// A link and a section open with Enter; a moment of the step is an arrow away.
	eval[chromedp.Void](p, `document.querySelector("#time input").focus()`)
	before := p.text("#time .moment")
	press(kb.ArrowLeft)
	if after := p.text("#time .moment"); after == before ||
		!strings.Contains(eval[string](p, `document.activeElement.getAttribute("aria-valuetext")`), "live: ") {
		t.Errorf("the moment stays at %q", after)
	}
	// A name is found, chosen and left with keys alone.
	p.set("f-model-preset", "llama-3-8b")
	p.wait(`document.getElementById("f-model-preset").getAttribute("aria-expanded") === "true"`)
	press(kb.ArrowDown)
	if active := eval[string](p,
		`document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).textContent`); !strings.Contains(active, "Llama-3-8B") {
		t.Errorf("the first choice is %q", active)
	}
	press(kb.Escape)
	if eval[string](p, `document.getElementById("f-model-preset").getAttribute("aria-expanded")`) != "false" {
		t.Error("Escape leaves the list open")
	}
}
