package webtest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// staged is a pipeline of two stages, each of whose GPUs share layers and state.
const staged = `{"model":{"preset":"meta-llama/Llama-3.1-8B"},"gpus":["h100-sxm5"],"training":{"micro_batch":1,
	"sequence_length":512,"gradient_accumulation":4,"framework":"torchtitan","precision":"bf16",
	"distributed":{"world_size":8,"data":"fsdp","tensor_parallel":2,"pipeline_parallel":2}}}`

// TestLayouts: GPUs that do not hold the same are listed with the fullest marked, and each can be looked at alone.
func TestLayouts(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"meta-llama/Llama-3.1-8B"},"gpus":["h100-sxm5"],"training":{"micro_batch":1,
		"sequence_length":512,"gradient_accumulation":4,"framework":"torchtitan","precision":"bf16"}}`))
	if hidden := eval[bool](p, `document.getElementById("section-ranks").hidden`); !hidden {
		t.Error("one GPU is listed")
	}
	eval[chromedp.Void](p, `document.getElementById("more-spread").open = true`)
	p.set("f-training-distributed-world_size", "8")
	p.choose("f-training-distributed-data", "fsdp")
	p.set("f-training-distributed-tensor_parallel", "2")
	p.set("f-training-distributed-pipeline_parallel", "2")
	p.says("#ranks", "stage 1 of 2")
	p.settled()
	if got, want := sortedJSON(t, p.job()), sortedJSON(t, staged); got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
	if got := p.text("#effective"); !strings.HasPrefix(got, "8 sequences") {
		t.Errorf("a step has %q: two copies of 1 × 4", got)
	}
	if rows := eval[int](p, `document.querySelectorAll("#ranks tbody tr").length`); rows != 2 {
		t.Errorf("%d GPUs are listed", rows)
	}
	if fullest := eval[int](p, `document.querySelectorAll("#ranks .tag").length`); fullest != 1 {
		t.Errorf("%d of them are the fullest", fullest)
	}
	p.click(`#ranks [aria-label="Show rank 4 alone"]`)
	p.wait(`document.getElementById("f-training-distributed-rank").value === "4" && document.getElementById("section-ranks").hidden`)
	p.settled()
	eval[chromedp.Void](p, `[...document.querySelectorAll("#ways button")].find((b) => b.textContent === "CLI").click()`)
	p.says("#elsewhere", "--set distributed.pipeline_parallel=2")
}

// TestZeROEvaluationAndReleases: what a file of DeepSpeed says, an evaluation and releases, by their fields.
func TestZeROEvaluationAndReleases(t *testing.T) {
	p := open(t, desktop, hashOf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":2,"sequence_length":256},"gpus":["rtx-4090"]}`))
	eval[chromedp.Void](p, `for (const d of document.querySelectorAll("#more details")) d.open = true`)
	p.set("f-training-distributed-world_size", "4")
	p.choose("f-training-distributed-data", "zero2")
	p.paste("f-training-distributed-deepspeed", `{"reduce_bucket_size": `)
	p.says("#f-training-distributed-deepspeed-error", "an object")
	p.paste("f-training-distributed-deepspeed", `{"stage": 2, "overlap_comm": true}`)
	p.set("f-training-evaluation-micro_batch", "8")
	p.set("f-training-versions-torch", "2.9.1")
	p.says("#versions", "torch-2.9.1")
	p.says("#sentence", "Fits on rtx-4090")
	p.settled()
	want := sortedJSON(t, `{"model":{"preset":"gpt2"},"gpus":["rtx-4090"],"training":{"micro_batch":2,"sequence_length":256,
		"distributed":{"world_size":4,"data":"zero2","deepspeed":{"stage":2,"overlap_comm":true}},
		"evaluation":{"micro_batch":8},"versions":{"torch":"2.9.1"}}}`)
	if got := sortedJSON(t, p.job()); got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
}
