package planner

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/layouts"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

func onCluster(m estimator.Model, gpus int64) Request {
	return Request{Input: estimator.Input{Job: estimator.Job{Model: m,
		Training: estimator.Training{SequenceLength: 4096}}, GPUs: []estimator.GPU{samples.H100()}},
		Cluster: &layouts.Cluster{GPUs: gpus}}
}

// changed is the job with the changes of a layout, as somebody makes it who has only the answer's JSON.
func changed(t interface{ Fatal(...any) }, job estimator.Job, l document.Layout) estimator.Job {
	training, err := json.Marshal(job.Training)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := json.Marshal(l.Changes)
	if err != nil {
		t.Fatal(err)
	}
	var fields, more map[string]json.RawMessage
	if json.Unmarshal(training, &fields) != nil || json.Unmarshal(changes, &more) != nil {
		t.Fatal("the training of a job and changes are objects")
	}
	maps.Copy(fields, more)
	whole, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	job.Training = estimator.Training{}
	if err := json.Unmarshal(whole, &job.Training); err != nil {
		t.Fatal(err)
	}
	return job
}

// holds checks what every plan for a cluster promises.
func holds(t interface {
	Fatal(...any)
	Errorf(string, ...any)
}, r Request, p *document.Plan) {
	for i, x := range p.Layouts.Ranked {
		if n := x.DataParallelGPUs * x.TensorParallel * x.PipelineParallel * x.ContextParallel; n != r.Cluster.GPUs {
			t.Errorf("%s: %d GPUs of %d", x.Name, n, r.Cluster.GPUs)
		}
		if n := x.MicroBatch * x.GradientAccumulation * x.DataParallelGPUs; n != p.EffectiveBatch {
			t.Errorf("%s: an effective batch of %d, not %d", x.Name, n, p.EffectiveBatch)
		}
		if x.Verdict != estimator.Fits || x.HighBytes > p.UsableBytes {
			t.Errorf("%s %s with up to %d of %d bytes", x.Name, x.Verdict, x.HighBytes, p.UsableBytes)
		}
		s := x.StepTime
		if x.Rank != i+1 || i > 0 && s.ExpectedSeconds < p.Layouts.Ranked[i-1].StepTime.ExpectedSeconds ||
			s.LowSeconds > s.ExpectedSeconds || s.HighSeconds < s.ExpectedSeconds {
			t.Errorf("%d: %s has rank %d and takes %v", i+1, x.Name, x.Rank, s)
		}
		if x.Launch.Command == "" {
			t.Errorf("%s has no command", x.Name)
		}
		in := r.Input
		in.Job = changed(t, in.Job, x)
		got, err := estimator.Estimate(in)
		if err != nil {
			t.Fatal(x.Name, err)
		}
		if got.Peak.DeviceBytes != x.DeviceBytes || got.Peak.HighBytes != x.HighBytes ||
			got.GPUs[0].Verdict != x.Verdict {
			t.Errorf("%s: estimated %d to %d bytes (%s), planned %d to %d", x.Name, got.Peak.DeviceBytes,
				got.Peak.HighBytes, got.GPUs[0].Verdict, x.DeviceBytes, x.HighBytes)
		}
	}
	for _, x := range p.Layouts.LeftOut {
		if x.Reason == "" || x.Count < 1 || !slices.Contains([]string{"beaten", "tight", "slower", "not_asked", "does_not_fit",
			"batch", "refused"}, x.Code) {
			t.Errorf("left out: %+v", x)
		}
	}
	for line := range strings.SplitSeq(p.Text(), "\n") {
		if utf8.RuneCountInString(line) > document.LineWidth {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}

// A 70B on eight hosts of eight: FSDP on the Trainer, ZeRO-3 and the meshes of torchtitan are ranked, and what cannot
// be is named.
func TestLayoutsOf70B(t *testing.T) {
	r := onCluster(samples.Llama(80), 64)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	golden(t, "layouts-70b.txt", p.Text())
	golden(t, "layouts-70b.md", p.Markdown())
	has := func(framework, name string) bool {
		return slices.ContainsFunc(p.Layouts.Ranked, func(x document.Layout) bool {
			return x.Framework == framework && strings.Contains(x.Name, name)
		})
	}
	for _, want := range [][2]string{{"hf-trainer", "FSDP2 over 64"}, {"hf-trainer", "ZeRO-3 over 64"},
		{"torchtitan", "tensor"}} {
		if !has(want[0], want[1]) {
			t.Errorf("%v is not ranked", want)
		}
	}
	if has("hf-trainer", "DDP") || has("hf-trainer", "ZeRO-1") {
		t.Error("a whole copy of 70B parameters on each GPU is ranked")
	}
	if p.Recommended == nil || p.Recommended.MicroBatch != p.Layouts.Ranked[0].MicroBatch {
		t.Errorf("recommended %v, and the first is %d × %d", p.Recommended, p.Layouts.Ranked[0].MicroBatch,
			p.Layouts.Ranked[0].GradientAccumulation)
	}
	f := p.FewestGPUs
	if f == nil || f.GPUs > 64 || f.GPUs < 16 || f.HighBytes > p.UsableBytes {
		t.Errorf("fewest: %+v", f)
	}
}

// A mixture of 235B on 256 GPUs: those that share its experts are ranked, by what they send each other, too, and they
// are faster than those that gather all experts of a layer.
func TestLayoutsOfMixture(t *testing.T) {
	r := onCluster(samples.Mixture(94), 256)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	golden(t, "layouts-mixture.txt", p.Text())
	first := p.Layouts.Ranked[0]
	if first.ExpertParallel < 2 || !strings.Contains(first.Launch.Files[0].Text, "expert_parallel_degree = ") {
		t.Errorf("the first is %s, with %+v", first.Name, first.Launch)
	}
	if slices.ContainsFunc(p.Notes, func(n estimator.Note) bool { return n.Code == document.ExpertsNotShared }) {
		t.Error("experts are said not to be shared")
	}
	if f := p.FewestGPUs; f == nil || f.GPUs >= 256 {
		t.Errorf("fewest: %+v", f)
	}
}

// Megatron-LM has no autocast: what --bf16 stores is what its layouts are estimated with, and the distributed
// optimizer, which stores nothing else, is among them.
func TestLayoutsOfMegatron(t *testing.T) {
	r := onCluster(samples.Llama(80), 64)
	r.Input.Job.Training.Framework = "megatron"
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	dealt := false
	for _, x := range p.Layouts.Ranked {
		dealt = dealt || strings.HasPrefix(x.Name, "ZeRO-1")
		if (x.TensorParallel > 1) != strings.Contains(x.Launch.Command, "--sequence-parallel") ||
			!strings.Contains(x.Launch.Command, "--num-layers 80 --hidden-size 8192") {
			t.Errorf("%s is started by %s", x.Name, x.Launch.Command)
		}
		states, ok := x.Changes["states"].(estimator.States)
		if !ok || states.MasterWeights != "fp32" || x.Changes["precision"] != estimator.PrecisionBF16 ||
			!strings.Contains(x.Launch.Command, "--bf16") {
			t.Errorf("%s: %v, %s", x.Name, x.Changes, x.Launch.Command)
		}
	}
	if !dealt {
		t.Errorf("no layout deals the optimizer's states out: %+v", p.Layouts.LeftOut)
	}
}

// A cluster that is too small says how many GPUs are enough, and on so many the job has a layout.
func TestFewestBeyondTheCluster(t *testing.T) {
	r := onCluster(samples.Llama(80), 8)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Layouts.Ranked) > 0 || p.FewestGPUs == nil || p.FewestGPUs.GPUs <= 8 {
		t.Fatalf("%d layouts on eight GPUs, and the fewest are %+v", len(p.Layouts.Ranked), p.FewestGPUs)
	}
	r.Cluster = &layouts.Cluster{GPUs: p.FewestGPUs.GPUs}
	r.EffectiveBatch = p.FewestGPUs.EffectiveBatch
	q, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Layouts.Ranked) == 0 {
		t.Errorf("nothing fits on the fewest GPUs: %+v", p.FewestGPUs)
	}
}

func TestClusterRefused(t *testing.T) {
	for _, tt := range []struct {
		name, pointer string
		change        func(*Request)
	}{
		{"no GPUs", "/cluster/gpus", func(r *Request) { r.Cluster.GPUs = 0 }},
		{"too many", "/cluster/gpus", func(r *Request) { r.Cluster.GPUs = 1 << 40 }},
		{"hosts cut in two", "/cluster/gpus_per_node", func(r *Request) { r.Cluster.PerNode = 6 }},
		{"no card", "/gpus", func(r *Request) { r.Input.GPUs = nil }},
		{"a laptop", "/cluster/gpus", func(r *Request) { r.Input.GPUs[0].Single = true }},
		{"a card of no known size", "/gpus", func(r *Request) { r.Input.GPUs[0].UsableBytes = 0 }},
		{"too many sequences", "/training/gradient_accumulation", func(r *Request) {
			r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 1<<30, 1<<30
		}},
		{"no such precision", "/training/precision", func(r *Request) { r.Input.Job.Training.Precision = "int1" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := onCluster(samples.Llama(4), 16)
			tt.change(&r)
			_, err := Make(t.Context(), r)
			e, ok := err.(*invalid.Error)
			if !ok || !slices.ContainsFunc(e.Fields, func(f invalid.Field) bool { return f.Pointer == tt.pointer }) {
				t.Errorf("%v, want a refusal of %s", err, tt.pointer)
			}
		})
	}
}

// Whatever the cluster, a plan keeps its promises, and does not look at more than it may.
func TestLayoutsOfAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom([]func(int64) estimator.Model{samples.Llama, samples.Mixture}).Draw(t, "model")
		r := onCluster(model(rapid.Int64Range(1, 3).Draw(t, "layers")), 1<<rapid.IntRange(0, 6).Draw(t, "gpus"))
		r.Input.GPUs[0].UsableBytes = rapid.Int64Range(8, 140).Draw(t, "GiB") << 30
		r.Cluster.PerNode = min(r.Cluster.GPUs, 1<<rapid.IntRange(0, 3).Draw(t, "per node"))
		r.EffectiveBatch = r.Cluster.GPUs * rapid.Int64Range(1, 6).Draw(t, "each")
		r.Input.Job.Training.SequenceLength = 512 << rapid.IntRange(0, 2).Draw(t, "length")
		r.Input.Job.Training.Framework = rapid.SampledFrom([]string{"", "torchtitan", "pytorch", "deepspeed",
			"accelerate"}).Draw(t, "framework")
		p, err := MakeWith(t.Context(), r, estimator.NewReplays().Judge)
		if err != nil {
			t.Fatal(err)
		}
		holds(t, r, p)
		// 28 of each of three launchers, 14 for the fewest GPUs, and four times the 16 stages of a longest pipeline.
		if p.Layouts.Asked > 3*28+14+4*16 {
			t.Errorf("%d candidates estimated", p.Layouts.Asked)
		}
	})
}

// Where what keeps most does not fit, the work is not spent on it: plain FSDP2 over 256 GPUs is found.
func TestPlainLayoutsAreLookedAt(t *testing.T) {
	r := onCluster(samples.Llama(80), 256)
	r.Input.Job.Training.Framework, r.Input.Job.Training.SequenceLength = "torchtitan", 8192
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	if !slices.ContainsFunc(p.Layouts.Ranked, func(x document.Layout) bool { return x.Name == "FSDP2 over 256" }) {
		t.Errorf("FSDP2 over 256 is not ranked: %s", p.Text())
	}
	if f := p.FewestGPUs; f == nil || f.GPUs > 64 {
		t.Errorf("fewest: %+v", f)
	}
}

// A batch that the GPUs of no layout divide is said to be one, and the nearest takes its place.
func TestNearestBatchOfACluster(t *testing.T) {
	r := onCluster(samples.Llama(1), 8)
	r.EffectiveBatch, r.Input.Job.Training.Framework = 101, "deepspeed"
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	if p.EffectiveBatch != 104 || len(p.Layouts.Ranked) == 0 || !strings.Contains(p.Text(), "batch of 101 cannot") {
		t.Errorf("%d layouts at an effective batch of %d:\n%s", len(p.Layouts.Ranked), p.EffectiveBatch, p.Text())
	}
}

// That nothing fits is said with what was not looked at: layouts that share experts.
func TestNoLayoutSaysWhy(t *testing.T) {
	mixtral := estimator.Model{HFConfig: json.RawMessage(`{"model_type": "mixtral",
		"architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 4,
		"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
		"num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768}`)}
	r := onCluster(mixtral, 2)
	r.Input.GPUs[0].UsableBytes = 8 << 30
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if text := p.WideText(); !strings.Contains(text, "Expert parallelism of such a model, which takes less") {
		t.Errorf("a mixture: %s", text)
	}
}

// A job of tensor and pipeline parallelism has fewer groups than GPUs, and none of them is a slice of a card.
func TestGroupsOfSeveralGPUs(t *testing.T) {
	r := onCluster(samples.Llama(8), 64)
	r.Cluster, r.Slices = nil, []estimator.GPU{samples.H100()}
	training := &r.Input.Job.Training
	training.Framework, training.MicroBatch, training.GradientAccumulation = "torchtitan", 8, 1
	training.Distributed = &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, TensorParallel: 8,
		PipelineParallel: 4}
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if text := p.Text(); !strings.Contains(text, "effective batch 16 over 2 data-parallel groups of 32 GPUs") ||
		strings.Contains(text, "MIG") {
		t.Errorf("%s", text)
	}
}

// A job that DeepSpeed trains is spread with its own section, whichever ways its launcher takes besides.
func TestLayoutsOfZeRO(t *testing.T) {
	r := onCluster(samples.Llama(4), 8)
	own := &estimator.Distributed{WorldSize: 8, Data: "zero2", DeepSpeed: json.RawMessage(`{"stage":2}`)}
	r.Input.Job.Training.Distributed, r.EffectiveBatch = own, 64
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, p)
	stages := map[string]string{}
	for _, x := range p.Layouts.Ranked {
		if d, ok := x.Changes["distributed"].(estimator.Distributed); ok {
			stages[d.Data] = string(d.DeepSpeed)
		}
	}
	if got := stages[traits.ZeRO3]; got != `{"stage":3}` {
		t.Errorf("ZeRO-3 is asked for with %q; of all layouts %v", got, stages)
	}
}
