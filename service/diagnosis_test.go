package service_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/diagnose"
)

// TestFailuresByTheirForms: what releases of PyTorch, the libraries around it, schedulers and nvidia-smi print gets the
// class that its text says, without a job, and "unknown" where it says none.
func TestFailuresByTheirForms(t *testing.T) {
	data, err := os.ReadFile("testdata/failures.json")
	if err != nil {
		t.Fatal(err)
	}
	var forms []struct {
		Name, Text string
		Class      diagnose.Class
	}
	if err := json.Unmarshal(data, &forms); err != nil {
		t.Fatal(err)
	}
	if len(forms) < 40 {
		t.Fatalf("%d forms", len(forms))
	}
	s := service.New(service.EmbeddedCatalog())
	for _, f := range forms {
		t.Run(f.Name, func(t *testing.T) {
			d, err := s.Diagnose(t.Context(), service.DiagnosisRequest{Text: f.Text})
			if err != nil {
				t.Fatal(err)
			}
			if d.Class != f.Class {
				t.Errorf("class %s, want %s: %v", d.Class, f.Class, d.Causes[0].Evidence)
			}
		})
	}
}

// TestLogitsByTheirSizeAlone holds what a bare message is put down to against jobs that are played within less than
// they need: whatever the message alone is called logits for has to be so, nearly always, and of models whose
// vocabulary no other number is like, most that are logits have to be called so. The models are not of the catalog by
// name; the draws have a fixed seed.
func TestLogitsByTheirSizeAlone(t *testing.T) {
	t.Run("vocabularies like no other number", func(t *testing.T) {
		logitsBySize(t, 0.8, []string{
			`{"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"vocab_size":50257,"n_positions":1024}`,
			`{"model_type":"gpt2","n_layer":24,"n_embd":1024,"n_head":16,"vocab_size":50257,"n_positions":1024}`,
			`{"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,"intermediate_size":8192,
			"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":true}`,
			`{"model_type":"qwen2","num_hidden_layers":28,"hidden_size":1536,"intermediate_size":8960,
			"num_attention_heads":12,"num_key_value_heads":2,"vocab_size":151936,"tie_word_embeddings":true}`,
		})
	})
	// Sizes of these are those of many weights and activations, too, so that fewer are called anything.
	t.Run("round vocabularies", func(t *testing.T) {
		logitsBySize(t, 0.4, []string{
			`{"model_type":"llama","num_hidden_layers":22,"hidden_size":2048,"intermediate_size":5632,
			"num_attention_heads":32,"num_key_value_heads":4,"vocab_size":32000}`,
			`{"model_type":"gpt_neox","num_hidden_layers":16,"hidden_size":2048,"intermediate_size":8192,
			"num_attention_heads":8,"vocab_size":50304}`,
			`{"model_type":"gemma3_text","num_hidden_layers":26,"hidden_size":1152,"intermediate_size":6912,
			"num_attention_heads":4,"num_key_value_heads":1,"head_dim":256,"vocab_size":262144,"sliding_window":512}`,
			`{"model_type":"olmo2","num_hidden_layers":16,"hidden_size":2048,"intermediate_size":8192,
			"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":100352}`,
			`{"model_type":"smollm3","num_hidden_layers":36,"hidden_size":2048,"intermediate_size":11008,
			"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":128256,"tie_word_embeddings":true}`,
			`{"model_type":"gemma","num_hidden_layers":18,"hidden_size":2048,"intermediate_size":16384,
			"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"vocab_size":256000}`,
			`{"model_type":"mistral","num_hidden_layers":26,"hidden_size":3072,"intermediate_size":9216,
			"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"vocab_size":131072,"sliding_window":null}`,
		})
	})
}

// logitsBySize draws failures of models and holds what is called logits against what is: nine in ten of what is called
// so are, and of those that are, at least a share is called so.
func logitsBySize(t *testing.T, share float64, configs []string) {
	s := service.New(service.EmbeddedCatalog())
	r := rand.New(rand.NewPCG(1, 2))
	called := map[int64]diagnose.Class{}
	var said, right, logits int
	for range 48 {
		var in estimator.Input
		in.Job.Model.HFConfig = json.RawMessage(configs[r.IntN(len(configs))])
		in.Job.Training = estimator.Training{MicroBatch: int64(1) << r.IntN(5), SequenceLength: int64(512) << r.IntN(2),
			GradientAccumulation: 1,
			Precision:            []estimator.Precision{"fp32", "amp-bf16", "bf16"}[r.IntN(3)]}
		whole, err := estimator.Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		requests, err := estimator.Requests(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, room := range []float64{0.5, 0.7, 0.85, 0.95, 0.99} {
			failed, err := estimator.FirstFailure(in, int64(room*float64(whole.Peak.AllocatedBytes)))
			if err != nil {
				t.Fatal(err)
			}
			if failed < 16<<20 {
				continue
			}
			isLogits := false
			for _, q := range requests {
				isLogits = isLogits || q.Bytes == failed && q.Component == "logits_and_loss"
			}
			class, known := called[failed]
			if !known {
				d, err := s.Diagnose(t.Context(), service.DiagnosisRequest{Text: bareMessage(failed)})
				if err != nil {
					t.Fatal(err)
				}
				class = d.Class
				called[failed] = class
			}
			if isLogits {
				logits++
			}
			if class == diagnose.ClassLogits {
				said++
				if isLogits {
					right++
				}
			}
		}
	}
	t.Logf("%d failures are of logits, %d are called so, %d of these rightly", logits, said, right)
	if said == 0 || 10*right < 9*said || float64(right) < share*float64(logits) {
		t.Errorf("of %d failures at logits %d are called so, and %d that are called so are others'", logits, right,
			said-right)
	}
}

// bareMessage is what PyTorch prints of a request of so many bytes on a full card.
func bareMessage(requested int64) string {
	const mib = 1 << 20
	segment := (requested + 2*mib - 1) / (2 * mib) * (2 * mib)
	if requested < 10*mib {
		segment = 20 * mib
	}
	size := fmt.Sprintf("%.2f MiB", float64(segment)/mib)
	if segment > 1<<30 {
		size = fmt.Sprintf("%.2f GiB", float64(segment)/(1<<30))
	}
	return "RuntimeError: CUDA out of memory. Tried to allocate " + size + " (GPU 0; 79.32 GiB total capacity; " +
		"77.90 GiB already allocated; 10.00 MiB free; 78.21 GiB reserved in total by PyTorch)"
}
