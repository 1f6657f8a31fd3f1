package webtest

import (
	"strings"
	"testing"
)

// TestPricesOfCards: a card takes its price beside its name, and the table says what the run costs on each.
func TestPricesOfCards(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.says("#sentence", "Fits on rtx-4090")
	p.set("f-gpus", "name, memory.total [MiB], memory.free [MiB]NVIDIA L4, 23034 MiB, 22000 MiB")
	p.wait(`document.querySelectorAll("#chosen-cards .price").length === 2`)
	price := func(card, text string) {
		t.Helper()
		eval[bool](p, `(() => { const e = document.querySelector('[aria-label="Price of an hour of `+card+`"]'); e.value = "`+text+
			`"; e.dispatchEvent(new Event("change")); return true; })()`)
	}
	price("rtx-4090", "0.5")
	p.wait(`document.querySelector("#fits thead").textContent.includes("Cost")`)
	price("NVIDIA L4", "0.4")
	p.says("#fits", "The run costs least on rtx-4090. Costs are relative")
	if got := sortedJSON(t, p.job()); !strings.Contains(got, `{"name":"rtx-4090","price_per_hour":0.5}`) ||
		!strings.Contains(got, `"name":"NVIDIA L4","price_per_hour":0.4}`) {
		t.Errorf("the job is %s", got)
	}
	price("NVIDIA L4", "-1")
	p.wait(`document.body.textContent.includes("-1 was given")`)
	price("NVIDIA L4", "")
	price("rtx-4090", "")
	p.wait(`!document.querySelector("#fits thead").textContent.includes("Cost")`)
	if got := sortedJSON(t, p.job()); strings.Contains(got, "price") || !strings.Contains(got, `["rtx-4090",`) {
		t.Errorf("the job keeps %s", got)
	}
}
