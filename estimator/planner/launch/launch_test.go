package launch

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/estimator"
)

var update = flag.Bool("update", false, "write down what is said")

// The words of each launcher are kept as documents, and its files are what they claim to be: JSON, YAML, TOML.
func TestWords(t *testing.T) {
	full := &estimator.Checkpointing{Mode: "full"}
	once := false
	for _, tt := range []struct {
		name string
		job  Job
	}{
		{"deepspeed", Job{Framework: "hf-trainer", Nodes: 8, PerNode: 8, Data: 64, Training: estimator.Training{
			MicroBatch: 2, GradientAccumulation: 4, GradientCheckpointing: full,
			Distributed: &estimator.Distributed{WorldSize: 64, Data: "zero3",
				DeepSpeed: json.RawMessage(`{"stage": 1, "reduce_bucket_size": "auto"}`)}}}},
		{"deepspeed-offload", Job{Framework: "deepspeed", Nodes: 1, PerNode: 8, Data: 8, Training: estimator.Training{
			MicroBatch: 1, Precision: estimator.PrecisionFP16, GradientCheckpointing: full,
			Distributed: &estimator.Distributed{WorldSize: 8, Data: "zero2", OffloadOptimizer: true}}}},
		{"fsdp2", Job{Framework: "hf-trainer", Nodes: 2, PerNode: 8, Data: 16, Training: estimator.Training{
			MicroBatch: 1, GradientAccumulation: 2, GradientCheckpointing: full,
			Distributed: &estimator.Distributed{WorldSize: 16, Data: "fsdp", FSDPVersion: 2, ShardGroup: 8}}}},
		{"fsdp1", Job{Framework: "accelerate", Nodes: 1, PerNode: 4, Data: 4, Training: estimator.Training{
			MicroBatch: 1, Distributed: &estimator.Distributed{WorldSize: 4, Data: "fsdp", FSDPVersion: 1,
				ReshardAfterForward: &once}}}},
		{"pytorch", Job{Framework: "pytorch", Nodes: 1, PerNode: 8, Data: 8, Training: estimator.Training{
			MicroBatch: 1, GradientCheckpointing: full,
			Distributed: &estimator.Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: 2, ShardGroup: 4}}}},
		{"ddp", Job{Framework: "hf-trainer", Nodes: 1, PerNode: 8, Data: 8, Training: estimator.Training{MicroBatch: 4,
			Distributed: &estimator.Distributed{WorldSize: 8, Data: "ddp"}}}},
		{"ddp-8bit", Job{Framework: "hf-trainer", Nodes: 1, PerNode: 8, Data: 8, Training: estimator.Training{
			MicroBatch: 1, Optimizer: &estimator.Optimizer{Name: "adamw-8bit"},
			Distributed: &estimator.Distributed{WorldSize: 8, Data: "ddp"}}}},
		{"torchtitan-8bit", Job{Framework: "torchtitan", Nodes: 1, PerNode: 8, Data: 8, Training: estimator.Training{
			MicroBatch: 1, Optimizer: &estimator.Optimizer{Name: "adamw-8bit"},
			Distributed: &estimator.Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: 2}}}},
		{"torchtitan", Job{Framework: "torchtitan", Model: "meta-llama/Llama-3.1-70B", Nodes: 32, PerNode: 8, Data: 8,
			SequenceLength: 8192, Training: estimator.Training{MicroBatch: 1, GradientAccumulation: 16,
				Precision: estimator.PrecisionBF16, States: &estimator.States{Weights: "fp32", Gradients: "fp32"},
				GradientCheckpointing: &estimator.Checkpointing{Mode: "selective-op"},
				Distributed: &estimator.Distributed{WorldSize: 256, Data: "fsdp", FSDPVersion: 2, TensorParallel: 8,
					PipelineParallel: 4, ShardGroup: 4}}}},
		{"torchtitan-experts", Job{Framework: "torchtitan", Model: "deepseek-ai/DeepSeek-V3", Nodes: 32, PerNode: 8,
			Data: 32, SequenceLength: 32768, Training: estimator.Training{MicroBatch: 1, GradientCheckpointing: full,
				Distributed: &estimator.Distributed{WorldSize: 256, Data: "fsdp", FSDPVersion: 2, TensorParallel: 4,
					ContextParallel: 2, ExpertParallel: 64}}}},
		{"torchtitan-python", Job{Framework: "torchtitan", Model: "Qwen/Qwen3-235B-A22B", Nodes: 8, PerNode: 8, Data: 16,
			SequenceLength: 4096, Training: estimator.Training{MicroBatch: 1, GradientAccumulation: 8,
				GradientCheckpointing: full, Versions: map[string]string{"torchtitan": "0.3.0"},
				Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, PipelineParallel: 4,
					ExpertParallel: 16}}}},
		{"torchtitan-python-other", Job{Framework: "torchtitan", Model: "mine", Family: "qwen3", Nodes: 1, PerNode: 8,
			Data: 8, Training: estimator.Training{MicroBatch: 2, Precision: estimator.PrecisionFP32,
				Optimizer: &estimator.Optimizer{Name: "adam"}, Versions: map[string]string{"torchtitan": "0.4"},
				Distributed: &estimator.Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: 2}}}},
		{"megatron", Job{Framework: "megatron", Nodes: 16, PerNode: 8, Data: 4, SequenceLength: 4096,
			Training: estimator.Training{MicroBatch: 1, GradientAccumulation: 8, GradientCheckpointing: full,
				Distributed: &estimator.Distributed{WorldSize: 128, Data: "zero1", TensorParallel: 8,
					SequenceParallel: true, PipelineParallel: 4, VirtualPipeline: 2, ExpertParallel: 2}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := Of(tt.job)
			var b strings.Builder
			b.WriteString(w.Command + "\n")
			for _, f := range w.Files {
				b.WriteString("-- " + f.Name + " --\n" + f.Text)
				var err error
				var into map[string]any
				switch filepath.Ext(f.Name) {
				case ".json":
					err = json.Unmarshal([]byte(f.Text), &into)
				case ".yaml":
					err = yaml.Unmarshal([]byte(f.Text), &into)
				case ".toml":
					err = toml.Unmarshal([]byte(f.Text), &into)
				}
				if filepath.Ext(f.Name) == ".py" { // which the round trip of service/readers reads
					continue
				}
				if err != nil || len(into) == 0 {
					t.Errorf("%s: %v", f.Name, err)
				}
				if !strings.Contains(w.Command, f.Name) {
					t.Errorf("the command does not name %s", f.Name)
				}
			}
			if w.Code != "" {
				b.WriteString("-- code --\n" + w.Code + "\n")
			}
			name := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
