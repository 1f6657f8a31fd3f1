package estimator

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/memory"
)

// mixtureJob is a mixture of the given numbers of layers and experts, of which every token takes eight, as transformers
// ran them one after the other.
func mixtureJob(layers, experts, hidden int64) Job {
	config := fmt.Sprintf(`{"model_type":"qwen3_moe","num_hidden_layers":%d,"num_experts":%d,"num_experts_per_tok":8,"hidden_size":%d,"moe_intermediate_size":%d,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"vocab_size":1000}`, layers, experts, hidden, hidden)
	return Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 1, SequenceLength: 512,
		Versions: formerStack}}
}

// deepSeekJob is DeepSeek V3 by its config.json, with releases that run one expert after the other.
func deepSeekJob() Job {
	return Job{Model: Model{HFConfig: []byte(`{"model_type":"deepseek_v3"}`)},
		Training: Training{MicroBatch: 1, SequenceLength: 2048, Versions: formerStack}}
}

// TestContinuedIsNear holds what was continued from some layers against a play of all of them.
func TestContinuedIsNear(t *testing.T) {
	lora := mixtureJob(24, 512, 64)
	lora.Training.LoRA = &LoRA{Rank: 8, TargetModules: []string{"all-linear"}}
	for name, job := range map[string]Job{
		"small experts": mixtureJob(40, 512, 64), "adapters": lora, "large experts": mixtureJob(48, 128, 2048),
		"DeepSeek V3": deepSeekJob(),
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Job: job}
			got, err := Estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			whole := memory.NewAllocator(memory.Settings{})
			if err := Replay(in, whole, 3, false); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name      string
				got, want int64
			}{{"reserved", got.Peak.ReservedBytes, whole.PeakReserved()},
				{"allocated", got.Peak.AllocatedBytes, whole.PeakAllocated()}} {
				if off := float64(c.got)/float64(c.want) - 1; math.Abs(off) > doubt.Continued.Above {
					t.Errorf("%s %d, played whole %d: %.2f %% off", c.name, c.got, c.want, 100*off)
				}
			}
			if !hasDoubt(got, "continued") || got.Peak.MinimumLimitBytes > whole.PeakReserved() {
				t.Errorf("doubts %+v, smallest limit %d", got.Doubts, got.Peak.MinimumLimitBytes)
			}
		})
	}
}

func hasDoubt(r *Result, source string) bool {
	for _, d := range r.Doubts {
		if d.Source == source {
			return true
		}
	}
	return false
}

// TestOrdinaryJobsAreNotContinued: jobs of a few thousand requests are played whole.
func TestOrdinaryJobsAreNotContinued(t *testing.T) {
	for _, job := range []Job{gpt2Job(), llama70BJob(), mixtureJob(8, 64, 256)} {
		if got, err := Estimate(Input{Job: job}); err != nil || hasDoubt(got, "continued") {
			t.Errorf("%v, %+v", err, got)
		}
	}
}

// TestStopped: an estimate whose caller has gone ends soon, and what it used serves the next one.
func TestStopped(t *testing.T) {
	done := make(chan struct{})
	in := Input{Job: mixtureJob(48, 128, 2048), Done: done}
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = Estimate(in)
		}
		ended <- err
	}()
	time.AfterFunc(20*time.Millisecond, func() { close(done) })
	select {
	case err := <-ended:
		if !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	in.Done = nil
	if _, err := Estimate(in); err != nil {
		t.Fatal(err)
	}
}
