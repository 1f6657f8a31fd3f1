package webtest

import (
	"strings"
	"testing"
)

// TestPastedCards: lines of nvidia-smi are cards with what is free of them, however they are broken.
func TestPastedCards(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	p.says("#sentence", "Fits on rtx-4090")
	p.set("f-gpus", "name, memory.total [MiB], memory.free [MiB]NVIDIA GeForce RTX 4070, 12282 MiB, 1000 MiB"+
		"NVIDIA L4, 23034 MiB, 22000 MiB")
	p.wait(`document.querySelectorAll("#chosen-cards li").length === 3`)
	if got, want := sortedJSON(t, p.job()), `{"free_bytes":1048576000,"memory_bytes":12878610432,"name":"NVIDIA GeForce RTX `+
		`4070"},{"free_bytes":23068672000,"memory_bytes":24152899584,"name":"NVIDIA L4"}]`; !strings.Contains(got, want) {
		t.Errorf("the job is %s, want %s in it", got, want)
	}
	if got := p.text("#chosen-cards"); !strings.Contains(got, "NVIDIA GeForce RTX 4070, 1000 MiB free") {
		t.Errorf("the cards are %q", got)
	}
	p.click(`[aria-label="Remove rtx-4090"]`)
	p.click(`[aria-label="Remove NVIDIA L4"]`)
	p.says("#sentence", "Does not fit on rtx-4070: ")
	if got := eval[string](p, `document.getElementById("f-gpus").value`); got != "" {
		t.Errorf("the field keeps %q", got)
	}
}
