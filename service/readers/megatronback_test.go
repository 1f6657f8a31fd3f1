package readers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/launch"
	"github.com/vramplan/vramplan/service/readers"
)

// TestMegatronsModelComesBack reads the model out of the command that a layout of Megatron-LM is started with, and
// holds the estimate of what was read against that of the job that it was printed for.
func TestMegatronsModelComesBack(t *testing.T) {
	gpu := estimator.GPU{Name: "h100", MemoryBytes: 80 << 30}
	for name, config := range map[string]string{
		"gpt2": `{"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8, "n_positions": 1024}`,
		"llama": `{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 2816,
			"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000}`,
		"tied llama": `{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 2816,
			"num_attention_heads": 16, "vocab_size": 32000, "tie_word_embeddings": true, "attention_dropout": 0.1}`,
		"qwen2": `{"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 896, "intermediate_size": 2432,
			"num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 32000}`,
		"qwen3": `{"model_type": "qwen3", "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 3072,
			"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000}`,
	} {
		t.Run(name, func(t *testing.T) {
			var wrong invalid.List
			a := model.FromHF(json.RawMessage(config), "", &wrong)
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			job := estimator.Job{Model: estimator.Model{HFConfig: json.RawMessage(config)}}
			job.Training = estimator.Training{MicroBatch: 2, SequenceLength: 1024, GradientAccumulation: 4,
				Framework: "megatron", Precision: estimator.PrecisionBF16, Optimizer: &estimator.Optimizer{Name: "adam"},
				States: &estimator.States{MasterWeights: "fp32", Gradients: "fp32", Optimizer: "fp32"},
				Distributed: &estimator.Distributed{WorldSize: 8, Data: "zero1", TensorParallel: 2,
					SequenceParallel: true}}
			w := launch.Of(launch.Job{Framework: "megatron", Training: job.Training, Nodes: 1, PerNode: 8, Data: 4,
				SequenceLength: 1024, Architecture: &a})
			answer, err := readers.Read(t.Context(), readers.Source{Line: w.Command, Dir: "."})
			if err != nil {
				t.Fatal(err)
			}
			if len(answer.Jobs) != 1 || len(answer.Refusals) > 0 {
				t.Fatalf("%d jobs, refused: %+v\n%s", len(answer.Jobs), answer.Refusals, w.Command)
			}
			for _, q := range answer.Jobs[0].Questions {
				if strings.HasPrefix(q.Pointer, "/model") {
					t.Errorf("asks %s: %s (%s)", q.Pointer, q.Ask, q.Why)
				}
			}
			var read estimator.Job
			if err := json.Unmarshal(answer.Jobs[0].Document, &read); err != nil {
				t.Fatal(err)
			}
			read.Training.Optimizer = job.Training.Optimizer
			peak := func(j estimator.Job) int64 { // parameters differ where what is read has its vocabulary padded
				r, err := estimator.Estimate(estimator.Input{Job: j, GPUs: []estimator.GPU{gpu}})
				if err != nil {
					t.Fatal(err)
				}
				return r.Peak.AllocatedBytes
			}
			if printed, back := peak(job), peak(read); printed != back {
				t.Errorf("%d bytes read, %d printed\n%s\n%s", back, printed, w.Command, answer.Jobs[0].Document)
			}
		})
	}
}
