package estimator

import (
	"strings"
	"testing"
)

// TestTensorsExplainThePeak opens the peak of GPT-2 124M: every tensor says what it is, in the sizes of the job, and
// together they are what is alive.
func TestTensorsExplainThePeak(t *testing.T) {
	res := mustEstimate(t, Input{Job: gpt2Job(), Tensors: true})
	texts := addsUp(t, res)
	for _, want := range []string{
		"logits, 16 × 1024 × 50304 × 2 B = 1.54 GiB",
		"mlp: output of a linear layer, 16 × 1024 × 3072 × 2 B = 96.0 MiB, 12 of them, 1.12 GiB together, " +
			"saved for backward",
		"parameter attn.c_attn, 1,769,472 × 4 B = 6.8 MiB, 12 of them, 81.0 MiB together",
	} {
		if !texts[want] {
			t.Errorf("%q is missing from\n%s", want, strings.Join(keys(texts), "\n"))
		}
	}
}

// TestTensorsOfEveryPhase: also where the peak is not in a micro-step, the tensors are what is alive, and the timeline
// has a point as high as the phase that holds the peak.
func TestTensorsOfEveryPhase(t *testing.T) {
	for phaseName, training := range map[string]string{
		"optimizer":  `"micro_batch": 1, "sequence_length": 1, "versions": {"torch": "2.9.1"}`,
		"evaluation": `"micro_batch": 1, "sequence_length": 64, "evaluation": {"micro_batch": 64}`,
	} {
		t.Run(phaseName, func(t *testing.T) {
			res := mustEstimate(t, Input{Job: jobOf(t, smallLlama, training), Tensors: true, Timeline: true})
			if res.Peak.Phase != phaseName {
				t.Fatalf("the peak is in %s", res.Peak.Phase)
			}
			addsUp(t, res)
			most := int64(0)
			for _, e := range res.Timeline {
				most = max(most, e.AllocatedBytes)
			}
			if want := phase(res, phaseName); most != want {
				t.Errorf("the timeline reaches %d bytes, %s %d", most, phaseName, want)
			}
		})
	}
}

// addsUp holds the tensors of an answer against its components, and returns their texts.
func addsUp(t *testing.T, res *Result) map[string]bool {
	t.Helper()
	total := int64(0)
	texts := map[string]bool{}
	for _, x := range res.Tensors {
		total += (x.Bytes + 511) / 512 * 512 * x.Count
		texts[x.Text] = true
		if x.Bytes <= 0 || x.Count <= 0 || x.Name == "" {
			t.Errorf("%+v", x)
		}
	}
	alive := int64(0)
	for _, c := range res.Components {
		if c.Name != "allocator" && c.Name != "cuda_context" {
			alive += c.Bytes
		}
	}
	if total != alive {
		t.Errorf("the tensors take %d bytes, the components %d", total, alive)
	}
	return texts
}

func keys(m map[string]bool) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
