package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/layouts"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// llama8B is Llama-3.1-8B in mixed precision, far too large for one card of 80 GB, at an effective batch of so many.
func llama8B(micro, accum int64) Request {
	g := samples.RTX4070()
	g.ID, g.Name, g.MemoryBytes, g.UsableBytes, g.ComputeCapability = "h100-sxm5", "H100", 81559*mib, 81082*mib, 90
	r := Request{Input: estimator.Input{GPUs: []estimator.GPU{g}}}
	r.Input.Job.Model.HFConfig = []byte(`{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
		"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096}`)
	r.Input.Job.Training = estimator.Training{MicroBatch: micro, GradientAccumulation: accum,
		Precision: estimator.PrecisionAMPBF16}
	return r
}

// What is said to fit on several cards fits by an estimate of its own, at the same effective batch, and on fewer cards
// not even one sequence does.
func TestFewestGPUs(t *testing.T) {
	r := llama8B(4, 12)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	f := p.FewestGPUs
	if f == nil {
		t.Fatal("no number of cards is given")
	}
	verdict := func(gpus, micro int64) estimator.Verdict {
		in := r.Input
		in.Job.Training.Distributed = &estimator.Distributed{WorldSize: gpus, Data: "fsdp", FSDPVersion: 2}
		in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = micro, p.EffectiveBatch/gpus/micro
		res, err := estimator.Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		return res.GPUs[0].Verdict
	}
	if f.MicroBatch*f.GradientAccumulation*f.GPUs != 48 || p.EffectiveBatch != 48 {
		t.Errorf("%d × %d on %d cards do not make 48", f.MicroBatch, f.GradientAccumulation, f.GPUs)
	}
	if got := verdict(f.GPUs, f.MicroBatch); got != estimator.Fits {
		t.Errorf("%d × %d on %d cards: %s", f.MicroBatch, f.GradientAccumulation, f.GPUs, got)
	}
	for gpus := int64(2); gpus < f.GPUs; gpus++ {
		if 48%gpus == 0 && verdict(gpus, 1) == estimator.Fits {
			t.Errorf("%d cards are enough, not %d", gpus, f.GPUs)
		}
	}
}

// Nobody needs several cards for a job that fits on one, or is told of another way to deal out one that is dealt out.
func TestFewestGPUsOnlyWhereNeeded(t *testing.T) {
	dealt := llama8B(1, 1)
	dealt.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, Data: "fsdp"}
	for name, r := range map[string]Request{"a job that fits in pairs": story(), "a job dealt out": dealt} {
		p, err := Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if p.FewestGPUs != nil {
			t.Errorf("%s: %+v", name, p.FewestGPUs)
		}
	}
}

// optionOn is the option that takes more GPUs than the job.
func optionOn(p *document.Plan) *document.Option {
	for i := range p.Options {
		if p.Options[i].DataParallelGPUs > p.DataParallelGPUs {
			return &p.Options[i]
		}
	}
	return nil
}

// A second card halves the accumulation; gradients are reduced in buckets, which take memory, so that the best pair of
// one card may not fit.
func TestSecondCard(t *testing.T) {
	p, err := Make(t.Context(), story())
	if err != nil {
		t.Fatal(err)
	}
	o := optionOn(p)
	if o == nil {
		t.Fatalf("no option takes more GPUs:\n%s", p.Text())
	}
	if o.DataParallelGPUs != 2 || o.MicroBatch*o.GradientAccumulation != 256 || o.EffectiveBatch != 512 ||
		o.ChangesTraining || o.Verdict != estimator.Fits {
		t.Errorf("the option is %+v", o)
	}
	if x := o.RelativeStepTime.Expected; x < 0.5 || x > 0.6 || o.RelativeGPUTime < 1 || o.RelativeGPUTime > 1.2 {
		t.Errorf("two cards take %.2f of the time and %.2f of the GPU time", x, o.RelativeGPUTime)
	}
	want := []string{"batch_size = 4", "gradient_accumulation_steps = 128",
		"torchrun --standalone --nproc_per_node=2 train.py"}
	if diff := cmp.Diff(want, o.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if noteOf(p, "ddp-no-sync") == "" || noteOf(p, "communication") == "" {
		t.Error("no notes on what the cards tell each other")
	}
}

// A job that no card holds is dealt out; that leaves training alone, and costs cards.
func TestDealtOutIsAnOption(t *testing.T) {
	r := llama8B(4, 12)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	o, f := optionOn(p), p.FewestGPUs
	if o == nil || f == nil {
		t.Fatalf("no option takes more GPUs:\n%s", p.Text())
	}
	if o.DataParallelGPUs != f.GPUs || o.MicroBatch != f.MicroBatch || o.DeviceBytes != f.DeviceBytes ||
		o.ChangesTraining {
		t.Errorf("the option is %+v, the fewest are %+v", o, f)
	}
	if want := "accelerate launch --num_processes=8 --use_fsdp --fsdp_version=2 " +
		"--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP"; o.Settings[len(o.Settings)-1] != want {
		t.Errorf("settings %q do not end in %q", o.Settings, want)
	}
	checkChanges(t, r, p, estimator.Estimate)
}

func TestNoSecondCard(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"a laptop":                func(r *Request) { r.Input.GPUs[0].Single = true },
		"a batch that is a prime": func(r *Request) { r.Input.Job.Training.MicroBatch, r.EffectiveBatch = 1, 509 },
		"a job split in another way": func(r *Request) {
			r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, Data: "fsdp", ContextParallel: 2}
		},
		"a job with tensor parallel 2": func(r *Request) {
			r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, TensorParallel: 2}
		},
	} {
		r := story()
		change(&r)
		if o := optionOn(mustMake(t, r, storyFake())); o != nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// A job on two GPUs is offered the next number that divides its batch, and one that is dealt out stays dealt out.
func TestMoreThanTwo(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 3, 2
	for data, title := range map[string]string{"ddp": "Train on 3 GPUs (data parallel)",
		"fsdp": "Train on 3 GPUs (dealt out by FSDP)", "zero2": "Train on 3 GPUs (ZeRO-2)"} {
		r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, Data: data, NoSync: new(bool)}
		o := optionOn(mustMake(t, r, storyFake()))
		if o == nil || o.Title != title {
			t.Fatalf("%s: the option is %+v", data, o)
		}
		if d := o.Changes["distributed"].(estimator.Distributed); d.WorldSize != 3 || d.NoSync == nil {
			t.Errorf("%s: changes to %+v", data, d)
		}
	}
}

// A job of DeepSpeed stays one: the fewest cards hold it dealt out by ZeRO-3, whose configuration is the job's own but
// for the stage.
func TestFewestGPUsUnderZeRO(t *testing.T) {
	r := llama8B(1, 48)
	r.Input.Job.Training.Framework, r.Input.Job.Training.Precision = "hf-trainer", estimator.PrecisionBF16
	r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, Data: "zero2",
		DeepSpeed: []byte(`{"stage": 2, "reduce_bucket_size": "auto"}`)}
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	f := p.FewestGPUs
	if f == nil {
		t.Fatal("no number of cards is given")
	}
	d := f.Changes["distributed"].(estimator.Distributed)
	if d.Data != "zero3" || d.WorldSize != f.GPUs ||
		!strings.Contains(p.WideText(), "dealt out by ZeRO-3") {
		t.Errorf("%s on %d cards: %s", d.Data, d.WorldSize, p.WideText())
	}
	in := r.Input
	in.Job.Training.Distributed, in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = &d, f.MicroBatch,
		f.GradientAccumulation
	res, err := estimator.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.GPUs[0].Verdict; got != estimator.Fits {
		t.Errorf("on %d cards it is said to fit and %s", f.GPUs, got)
	}
	setting := lever.Spread(in, "hf-trainer", d.Data, d.WorldSize).Settings[0]
	_, config, found := strings.Cut(setting, "configuration of ")
	var read struct {
		Zero struct {
			Stage  int    `json:"stage"`
			Bucket string `json:"reduce_bucket_size"`
		} `json:"zero_optimization"`
	}
	if err := json.Unmarshal([]byte(config), &read); !found || err != nil || read.Zero.Stage != 3 ||
		read.Zero.Bucket != "auto" {
		t.Errorf("%q is read as %+v (%v)", setting, read, err)
	}
}

// On several cards reentrant checkpoints end the run of the Trainer with adapters: the second card comes with others,
// and so does a layout that copies the model.
func TestSecondCardRuns(t *testing.T) {
	r := story()
	r.Input.Preset, r.Input.Job.Model = nil, estimator.Model{HFConfig: []byte(samples.TinyLlama)}
	u := &r.Input.Job.Training
	*u = estimator.Training{Framework: "hf-trainer", MicroBatch: 2, GradientAccumulation: 8, SequenceLength: 64,
		Versions: map[string]string{"torch": "2.9.1", "transformers": "4.57.6", "peft": "0.18.0", "accelerate": "1.12.0"},
		LoRA:     &estimator.LoRA{Rank: 8}, GradientCheckpointing: &estimator.Checkpointing{Mode: "full"}}
	runs := func(name string, changes map[string]any) {
		t.Helper()
		d, copied := changes["distributed"].(estimator.Distributed)
		c, kind := changes["gradient_checkpointing"].(estimator.Checkpointing)
		if copied && d.Data == "ddp" && (!kind || c.Mode == "full" && (c.Reentrant == nil || *c.Reentrant)) {
			t.Errorf("%s does not get through its first backward: %v", name, changes)
		}
	}
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	o := optionOn(p)
	if o == nil {
		t.Fatalf("no option takes more GPUs:\n%s", p.Text())
	}
	runs(o.Title, o.Changes)
	if !slices.Contains(o.Settings, `gradient_checkpointing_kwargs={"use_reentrant": False}`) {
		t.Errorf("settings %q", o.Settings)
	}
	card := samples.H100()
	card.MemoryBytes, card.UsableBytes = 24<<30, 23<<30 // too little to keep what an 8B leaves for backward
	r.Cluster, r.Input.GPUs = &layouts.Cluster{GPUs: 4}, []estimator.GPU{card}
	r.Input.Job.Model = llama8B(1, 1).Input.Job.Model
	u.SequenceLength, u.LoRA = 1024, &estimator.LoRA{Rank: 8, BasePrecision: "bf16"}
	if p, err = Make(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	recomputing := 0
	for _, x := range p.Layouts.Ranked {
		runs(x.Name, x.Changes)
		if d, copied := x.Changes["distributed"].(estimator.Distributed); copied && d.Data == "ddp" &&
			x.GradientCheckpointing == "full" {
			recomputing++
			if !strings.Contains(x.Launch.Command, `"use_reentrant": false`) {
				t.Errorf("%s is started with %s", x.Name, x.Launch.Command)
			}
		}
	}
	if recomputing == 0 {
		t.Errorf("no layout copies the model and recomputes:\n%s", p.Text())
	}
}
