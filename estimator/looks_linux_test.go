package estimator

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vramplan/vramplan/estimator/model"
)

// lookTurn notes the processor time between each look at whether anybody waits for the answer still and the next.
type lookTurn struct {
	last time.Duration
	took []time.Duration
}

func (t *lookTurn) Pace() {
	now := threadTime()
	t.took = append(t.took, now-t.last)
	t.last = now
}
func (t *lookTurn) Rest()   {}
func (t *lookTurn) Resume() {}
func (t *lookTurn) End()    { t.Pace() }

// threadTime is the processor time of this thread, which does not depend on what else runs.
func threadTime() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostBetweenLooks is what a caller who has gone may have to wait for, of a core's time.
const mostBetweenLooks = 50 * time.Millisecond

// dearJobs ask for as much work as any.
func dearJobs() map[string]Job {
	adapters := mixtureJob(64, 1024, 64)
	adapters.Training.LoRA = &LoRA{Rank: 8, TargetModules: []string{"all-linear"}}
	flat := mixtureJob(64, 1024, 64)
	flat.Training.Distributed = &Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: 1}
	flatDeep := deepSeekJob()
	flatDeep.Training.Distributed = &Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: 1}
	sharded := mixtureJob(64, 1024, 64)
	sharded.Training.Distributed = &Distributed{WorldSize: 8, Data: "fsdp"}
	slices := Job{Model: Model{HFConfig: []byte(`{"model_type":"deepseek_v2","num_hidden_layers":60,"n_routed_experts":160,"num_experts_per_tok":6,"n_group":1,"topk_group":1,"topk_method":"greedy","vocab_size":1000}`)}, Training: Training{MicroBatch: 1, SequenceLength: 512}}
	deep := Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 1024, Heads: 4, Embedding: 64, BlockSize: 64,
		Vocabulary: 1000}},
		Training: Training{MicroBatch: 1, SequenceLength: 64, GradientAccumulation: 64}}
	return map[string]Job{"GPT-2": gpt2Job(), "Llama 80": llama70BJob(), "DeepSeek V3": deepSeekJob(),
		"small experts": mixtureJob(64, 1024, 64), "adapters": adapters,
		"FSDP1 of small experts": flat, "FSDP1 of DeepSeek V3": flatDeep, "FSDP2 of small experts": sharded,
		"DeepSeek V2": slices, "1,024 layers": deep}
}

// TestLooksOften: whatever is asked, an estimate looks often whether anybody waits for it still, and lets others have
// their turn. A job looks at the same places each time it is asked, and a thread's clock has what the machine took to
// find it memory, too: what counts is the least that each way from one look to the next took in a few runs.
func TestLooksOften(t *testing.T) {
	for name, job := range dearJobs() {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			least := waysBetweenLooks(t, job)
			for range 4 {
				if slices.Max(least) <= mostBetweenLooks {
					break
				}
				again := waysBetweenLooks(t, job)
				if len(again) != len(least) {
					t.Fatalf("%d looks, and %d when asked again", len(least), len(again))
				}
				for i := range least {
					least[i] = min(least[i], again[i])
				}
			}
			if most := slices.Max(least); most > mostBetweenLooks {
				t.Errorf("%v of processor time without a look", most)
			}
		})
	}
}

// waysBetweenLooks is the processor time of an estimate from each look to the next.
func waysBetweenLooks(t *testing.T, job Job) []time.Duration {
	turn := &lookTurn{last: threadTime()}
	began := turn.last
	in := Input{Job: job, Took: &Cost{}, Admit: func(Cost) (Turn, error) { turn.Pace(); return turn, nil }}
	bound, err := CostOf(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Estimate(in); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v at most between %d looks of %v; took %+v of %+v", slices.Max(turn.took), len(turn.took),
		threadTime()-began, *in.Took, bound)
	return turn.took
}
