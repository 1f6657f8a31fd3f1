package webtest

import (
	"fmt"
	"testing"
)

// quick are models of the catalog as people ask for them first: each benchmark asks for one after the other, and none
// twice.
var quick = []string{"nanogpt/train_gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "meta-llama/Llama-3.2-1B",
	"meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B",
	"Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1",
	"google/gemma-2-2b", "microsoft/phi-2",
	"bert-base-uncased", "EleutherAI/pythia-410m"}

// BenchmarkThePage opens the page with a model that the service was not asked for before, and then again. Milliseconds
// of the browser's own clock: from the address being entered to the first answer and to its plan, how long an answer
// took, and the heat-map's request, in the mean and of the model that took longest.
func BenchmarkThePage(b *testing.B) {
	first := open(b, desktop, hashOf(gpt4090)) // so that no figure has the browser's own start in it
	first.settled()
	for _, memory := range []string{"new", "asked before"} {
		b.Run(memory, func(b *testing.B) {
			var answer, estimate, plan, heat, dearest float64
			for i := range b.N {
				p := open(b, desktop,
					hashOf(fmt.Sprintf(`{"model":{"preset":%q},"training":{"micro_batch":2,"sequence_length":512},"gpus":["rtx-4090"]}`, quick[i%len(quick)])))
				p.wait(`performance.getEntriesByType("resource").some((r) => r.name.endsWith("/v1/estimate/batch?verdicts=true&at_least=true") && r.responseEnd > 0)`)
				of := func(path, value string) float64 {
					return eval[float64](p,
						fmt.Sprintf(`performance.getEntriesByType("resource").filter((r) => r.name.endsWith(%q)).map((r) => %s)[0] ?? NaN`, path, value))
				}
				answer += of("/v1/estimate?timeline=true&tensors=true", "r.responseEnd")
				estimate += of("/v1/estimate?timeline=true&tensors=true", "r.duration")
				plan += of("/v1/plan?brief=true", "r.duration")
				drawn := of("/v1/estimate/batch?verdicts=true&at_least=true", "r.duration")
				heat, dearest = heat+drawn, max(dearest, drawn)
			}
			b.ReportMetric(dearest, "ms-dearest-heat-map")
			for name, sum := range map[string]float64{"ms-to-answer": answer, "ms-answer": estimate, "ms-plan": plan,
				"ms-heat-map": heat} {
				b.ReportMetric(sum/float64(b.N), name)
			}
		})
	}
}
