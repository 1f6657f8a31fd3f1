package estimator

import (
	"bufio"
	order "cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
)

// tape is a heap that writes down what it is asked for: the bytes of an allocation, or minus those of a free.
type tape struct {
	sizes  []int64
	events []int64
	// aside are the numbers of the allocations on each other stream than the one that computes.
	aside map[uint8][]int
}

func (t *tape) AllocOn(stream uint8, bytes int64) int32 {
	if t.aside == nil {
		t.aside = map[uint8][]int{}
	}
	t.aside[stream] = append(t.aside[stream], len(t.sizes))
	return t.Alloc(bytes)
}

func (t *tape) Alloc(bytes int64) int32 {
	t.sizes = append(t.sizes, bytes)
	t.events = append(t.events, bytes)
	return int32(len(t.sizes) - 1)
}

func (t *tape) Free(handle int32) {
	if handle < 0 || t.sizes[handle] < 0 {
		panic("freed what is not allocated")
	}
	t.events = append(t.events, -t.sizes[handle])
	t.sizes[handle] = -1
}

// ordered brings every run of frees between two allocations into one order: the allocator merges neighbours, so
// that the order within such a run makes no difference to it.
func ordered(events []int64) []int64 {
	out := slices.Clone(events)
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && out[j] < 0 {
			j++
		}
		slices.Sort(out[i:j])
		i = max(j, i+1)
	}
	return out
}

// tracedGPUs are the cards of the traced cases: what of them decides allocations.
var tracedGPUs = map[string]GPU{
	"a100-sxm4-80gb": {ComputeCapability: 80, Multiprocessors: 108},
	"h100-sxm5":      {ComputeCapability: 90, Multiprocessors: 132},
	"rtx-4070":       {ComputeCapability: 89, Multiprocessors: 46},
	"rtx-4090":       {ComputeCapability: 89, Multiprocessors: 128},
	"rtx-3090":       {ComputeCapability: 86, Multiprocessors: 82},
	"v100-sxm2-16gb": {ComputeCapability: 70, Multiprocessors: 80},
	"t4":             {ComputeCapability: 75, Multiprocessors: 40},
}

// TestReplayEqualsTraces holds the replay against whole traces of PyTorch, 2.9.1 with transformers 4.57.6 or what they
// name (undisturbed runs over a stand-in driver): every allocation and every free of two or three optimizer steps, in
// order. Of the table of releases it holds each threshold between the traced releases beside it (thresholds).
func TestReplayEqualsTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	var c comparison
	h := readThresholds(t, files)
	for _, name := range files {
		short := strings.TrimSuffix(filepath.Base(name), ".jsonl.gz")
		t.Run(short, func(t *testing.T) { replayEquals(t, &c, h, name, short) })
	}
	c.end(t)
	h.end(t)
}

func replayEquals(t *testing.T, all *comparison, h *thresholds, name, short string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 8<<20)
	count := 0
	for lines.Scan() {
		var c traced
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		count++
		all.add(t, c.ID, func(t *testing.T) *difference {
			if d := c.replayEquals(t); d != nil {
				return d
			}
			return h.hold(short+"/"+c.ID, &c)
		})
	}
	h.read++
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		t.Fatal("the file has no traces")
	}
}

// traced is a whole trace, as oracle/trace.py --events writes it.
type traced struct {
	ID     string  `json:"id"`
	Job    Job     `json:"job"`
	Events []int64 `json:"events"`
	// Card is what of the card decides allocations: compute capability times ten, multiprocessors; older traces name a
	// card of tracedGPUs.
	Card [2]int `json:"card"`
	// Names are phase, operation and module, and What has one of them for every event; older traces have none.
	Names []string `json:"names"`
	What  []int    `json:"what"`
	// Aside are the numbers of the allocations on each other stream than the one that computes.
	Aside map[uint8][]int `json:"aside"`
}

// replayEquals is the first event of a trace from which its replay differs; nil where none does.
func (c *traced) replayEquals(t *testing.T) *difference {
	if len(c.Events) == 0 {
		t.Fatal("the trace has no events")
	}
	if len(c.Names) > 0 && len(c.What) != len(c.Events) {
		t.Fatalf("%d of %d events have names", len(c.What), len(c.Events))
	}
	c.nameVersions()
	in, steps := c.asked()
	var got tape
	if err := Replay(in, &got, steps, false); err != nil {
		return &difference{"what is refused", err.Error()}
	}
	want, have := ordered(c.Events), ordered(got.events)
	for i := range want {
		if i >= len(have) || want[i] != have[i] {
			what, sides := c.bothSides(t, in, steps, i)
			return &difference{what, fmt.Sprintf("event %d of %d differs\n%s", i, len(want), sides)}
		}
	}
	if len(have) != len(want) {
		what, sides := c.bothSides(t, in, steps, len(want))
		return &difference{what, fmt.Sprintf("replayed %d events, traced %d\n%s", len(have), len(want), sides)}
	}
	if diff := cmp.Diff(c.Aside, got.aside); diff != "" {
		return &difference{"allocations on other streams",
			fmt.Sprintf("allocations on other streams (-traced +replayed):\n%.2000s", diff)}
	}
	return nil
}

// asked is what the trace is the truth of, and of how many steps.
func (c *traced) asked() (in Input, steps int) {
	steps = 2
	if c.Job.Training.GradientAccumulation <= 1 {
		steps = 3
	}
	card := GPU{ComputeCapability: c.Card[0], Multiprocessors: c.Card[1]}
	if c.Card[0] == 0 {
		card = tracedGPUs[c.Job.GPUs[0].Name]
	}
	return Input{Job: c.Job, GPUs: []GPU{card}, OwnLoop: true}, steps
}

// nameVersions says what made a trace from before traces named it.
func (c *traced) nameVersions() {
	c.Job.Training.Versions = onFormerStack(c.Job.Training.Versions)
}

// formerStack is what most of the traces were made with. Those of sharded jobs are of loops that wrap layers and model
// alone, as accelerate did before 1.14.
var formerStack = map[string]string{"torch": "2.9.1", "transformers": "4.57.6", "accelerate": "1.13.0"}

// onFormerStack is formerStack with what else is given.
func onFormerStack(given map[string]string) map[string]string {
	all := maps.Clone(formerStack)
	maps.Copy(all, given)
	return all
}

// bothSides says what the i-th event is about, and prints the traced and the replayed events around it.
func (c *traced) bothSides(t *testing.T, in Input, steps, i int) (what, sides string) {
	t.Helper()
	replayed, err := Events(in, steps)
	if err != nil {
		t.Fatal(err)
	}
	recorded := make([]Event, len(c.Events))
	for n, bytes := range c.Events {
		recorded[n] = Event{Bytes: bytes, What: "not recorded"}
		if n < len(c.What) {
			recorded[n].What = c.Names[c.What[n]]
		}
	}
	var out strings.Builder
	for _, side := range []struct {
		name   string
		events []Event
	}{{"traced", recorded}, {"replayed", replayed}} {
		inOrder(side.events)
		if i < len(side.events) { // the replay's, which has names for all
			what = shared(side.events[i].What)
		}
		fmt.Fprintf(&out, "%s:\n", side.name)
		for n := max(i-4, 0); n < min(i+8, len(side.events)); n++ {
			fmt.Fprintf(&out, "  %6d %+14d  %s\n", n, side.events[n].Bytes, side.events[n].What)
		}
	}
	return what, out.String()
}

// inOrder brings the frees of events into the order of ordered.
func inOrder(events []Event) {
	for i := 0; i < len(events); {
		j := i
		for j < len(events) && events[j].Bytes < 0 {
			j++
		}
		slices.SortStableFunc(events[i:j], func(a, b Event) int { return order.Compare(a.Bytes, b.Bytes) })
		i = max(j, i+1)
	}
}

// TestEventsAreTheReplay: the events that are printed are those that are played, and say what they are about.
func TestEventsAreTheReplay(t *testing.T) {
	in := Input{Job: Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 7, Heads: 2, Embedding: 64, BlockSize: 64,
		Vocabulary: 100}},
		Training: Training{MicroBatch: 2, GradientAccumulation: 2}}}
	named, err := Events(in, 2)
	if err != nil {
		t.Fatal(err)
	}
	var plain tape
	if err := Replay(in, &plain, 2, true); err != nil {
		t.Fatal(err)
	}
	bytes, said := make([]int64, len(named)), map[string]int{}
	for i, e := range named {
		bytes[i] = e.Bytes
		said[e.What]++
	}
	if diff := cmp.Diff(plain.events, bytes); diff != "" {
		t.Errorf("(-played +printed):\n%.2000s", diff)
	}
	for _, what := range []string{"load", "optimizer", "micro-step layer 3 attention: output of attention",
		"micro-step layer 6 norms_and_residuals: residual stream"} {
		if said[what] == 0 {
			t.Errorf("no event says %q; they say %v", what, slices.Sorted(maps.Keys(said)))
		}
	}
}

// familyJob draws a job over all families and switches, small enough to be replayed in a moment.
func familyJob(t *rapid.T) Job {
	heads := rapid.SampledFrom([]int64{1, 2, 3, 4, 8, 12}).Draw(t, "heads")
	dim := rapid.SampledFrom([]int64{8, 16, 20, 64, 80, 96, 128}).Draw(t, "head_dim")
	layers := rapid.Int64Range(1, 14).Draw(t, "layers")
	vocab := rapid.Int64Range(3, 60000).Draw(t, "vocab")
	tokens := rapid.Int64Range(1, 1500).Draw(t, "tokens")
	dropout := rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "dropout")
	job := Job{Training: Training{
		MicroBatch: rapid.Int64Range(1, 17).Draw(t, "micro_batch"), SequenceLength: tokens,
		GradientAccumulation: rapid.Int64Range(1, 5).Draw(t, "accumulation"),
		Precision: rapid.SampledFrom([]Precision{PrecisionAMPBF16, PrecisionAMPFP16, PrecisionFP32,
			PrecisionBF16, PrecisionFP16}).Draw(t, "precision"),
		Attention: rapid.SampledFrom([]string{"sdpa", "eager"}).Draw(t, "attention"),
		Framework: rapid.SampledFrom(
			[]string{"", "pytorch", "accelerate", "hf-trainer", "unsloth", "torchtune"},
		).Draw(
			t,
			"framework",
		),
		Kernels: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"rmsnorm", "layernorm", "rope", "swiglu",
			"bias-gelu", "bias-dropout-add", "softmax", "lora", "gated-delta-rule"}),
			0, 3, rapid.ID).Draw(t, "kernels"),
	}}
	if rapid.Bool().Draw(t, "checkpointing") {
		every := rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 3}).Draw(t, "every")
		job.Training.GradientCheckpointing = &Checkpointing{Mode: "full", Every: every,
			Offload: rapid.IntRange(0, 3).Draw(t, "offload") == 0}
	}
	name := rapid.SampledFrom([]string{"adamw", "sgd", "sgd-momentum", "adamw-8bit", "adafactor"}).Draw(t, "optimizer")
	implementation := ""
	switch name {
	case "adamw":
		implementation = rapid.SampledFrom([]string{"foreach", "fused", "for-loop"}).Draw(t, "implementation")
	case "adafactor":
		implementation = rapid.SampledFrom([]string{"transformers", "torch"}).Draw(t, "implementation")
	}
	job.Training.Optimizer = &Optimizer{Name: name, Implementation: implementation}
	clip := rapid.Bool().Draw(t, "clip")
	job.Training.ClipGradNorm = &clip
	family := rapid.SampledFrom(append(slices.Concat(slices.Sorted(maps.Keys(rotaryDecoders)),
		slices.Sorted(maps.Keys(encoderHeads)), slices.Sorted(maps.Keys(olderDecoders))), "nanogpt", "gpt2", "llama",
		"mistral", "qwen2", "qwen3", "smollm3", "gemma", "mixtral", "t5", "gemma2", "gemma3_text", "olmo", "olmo2",
		"olmo3", "arcee", "seed_oss", "granite", "cohere", "cohere2", "internlm2", "qwen2_moe", "qwen3_moe",
		"deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "olmoe", "ministral", "ministral3", "ernie4_5",
		"qwen3_5_moe_text", "qwen3_next", "glm4_moe_lite", "dots1", "exaone4",
		"ernie4_5_moe", "hunyuan_v1_moe", "granitemoe", "granitemoeshared", "minimax_m2", "lfm2_moe",
		"apertus")).Draw(t, "family")
	if draw, ok := olderDecoders[family]; ok {
		job.Model.HFConfig = draw(t, dimensions{layers, heads, dim, vocab, dropout})
		return job
	}
	switch family {
	case "nanogpt":
		job.Model.NanoGPT = &model.NanoGPT{Layers: layers, Heads: heads, Embedding: heads * dim, BlockSize: 1500,
			Vocabulary: vocab, Bias: rapid.Bool().Draw(t, "bias"), Dropout: dropout}
		return job
	case "gpt2":
		job.Model.HFConfig = marshal(t, map[string]any{"model_type": family, "n_layer": layers, "n_head": heads,
			"n_embd": heads * dim, "n_positions": 1500, "vocab_size": vocab,
			"resid_pdrop": dropout, "attn_pdrop": dropout, "embd_pdrop": dropout,
			"use_cache":           rapid.Bool().Draw(t, "use_cache"),
			"activation_function": rapid.SampledFrom([]string{"gelu_new", "gelu", "relu"}).Draw(t, "activation")})
		job.Training.LoRA = randomLoRA(t, "c_attn", "c_proj", "c_fc", "lm_head")
		return job
	}
	if encoder, ok := randomEncoder(t, &job, family, layers, heads, dim, vocab, dropout); ok {
		job.Model.HFConfig = marshal(t, encoder)
		return job
	}
	if _, ok := twoStacks[family]; ok {
		family = rapid.SampledFrom(slices.Sorted(maps.Keys(twoStacks))).Draw(t, "inputs")
		draw := twoStacks[family]
		job.Model.HFConfig = marshal(t, draw(t, &job, map[string]any{"model_type": family, "vocab_size": vocab},
			min(layers, 5), heads, dim, dropout))
		return job
	}
	groups := rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "groups")
	config := map[string]any{"model_type": family, "num_hidden_layers": layers, "num_attention_heads": heads * groups,
		"num_key_value_heads": heads,
		"hidden_size":         heads * groups * dim, "head_dim": dim,
		"intermediate_size": rapid.Int64Range(8, 900).Draw(t,
			"ffn"), "vocab_size": vocab,
		"tie_word_embeddings": rapid.Bool().Draw(t, "tied"), "use_cache": rapid.Bool().Draw(t, "use_cache"),
		"attention_dropout": dropout}
	switch family {
	case "mistral", "gemma2", "gemma3_text", "cohere2", "olmo3", "ministral", "ministral3", "exaone4":
		config["sliding_window"] = rapid.Int64Range(1, 1500).Draw(t, "window")
		config["sliding_window_pattern"] = rapid.Int64Range(1, 6).Draw(t, "pattern")
	case "cohere":
		config["use_qk_norm"] = rapid.Bool().Draw(t, "qk_norm")
	case "qwen2", "qwen3", "smollm3":
		config["use_sliding_window"] = rapid.Bool().Draw(t, "use_sliding_window")
		config["sliding_window"] = rapid.Int64Range(1, 1500).Draw(t, "window")
		config["max_window_layers"] = rapid.Int64Range(0, 14).Draw(t, "full_layers")
	case "olmo":
		config["clip_qkv"] = rapid.SampledFrom([]any{nil, 8.0}).Draw(t, "clip_qkv")
	}
	job.Model.HFConfig = marshal(t, config)
	modules := []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}
	if family == "arcee" || family == "apertus" {
		modules = slices.DeleteFunc(modules, func(m string) bool { return m == "gate_proj" })
	}
	if family == "internlm2" {
		modules = []string{"attention.wqkv", "attention.wo", "feed_forward.w1", "feed_forward.w2", "feed_forward.w3"}
	}
	if draw, ok := rotaryDecoders[family]; ok {
		modules = draw(t, config, dropout)
		job.Model.HFConfig = marshal(t, config)
	}
	if draw, ok := mixtures[family]; ok {
		modules = draw(t, config)
		job.Model.HFConfig = marshal(t, config)
	}
	job.Training.LoRA = randomLoRA(t, modules...)
	if mixtures[family] != nil {
		job.Training.LoRA = onExperts(job.Training.LoRA)
		attendedAlone(&job, modules)
	}
	saves := frameworks.Frameworks[order.Or(job.Training.Framework, "hf-trainer")].SavesModules == frameworks.Yes
	if l := job.Training.LoRA; l != nil && family == "llama" && saves && !slices.Contains(l.TargetModules, "lm_head") &&
		rapid.Bool().Draw(t, "modules_to_save") {
		l.ModulesToSave = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"norm", "embed_tokens", "lm_head"}), 1, 3,
			rapid.ID).Draw(t, "saved")
		l.TargetModules = append(l.TargetModules, "q_proj") // what is saved has no adapter
	}
	return job
}

// randomLoRA draws adapters on some of the given modules, or none.
func randomLoRA(t *rapid.T, modules ...string) *LoRA {
	if !rapid.Bool().Draw(t, "lora") {
		return nil
	}
	dtype := rapid.SampledFrom([]string{"", "fp32", "bf16", "fp16"})
	base := rapid.SampledFrom([]string{"", "fp32", "bf16", "fp16", "nf4", "int8", "gptq-int4", "gptq-int8"}).Draw(t,
		"base_precision")
	upcast := rapid.SampledFrom([]*bool{nil, new(false), new(true)}).Draw(t, "upcast_base")
	return &LoRA{
		Rank:    rapid.Int64Range(1, 70).Draw(t, "rank"),
		Dropout: new(rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "lora_dropout")),
		TargetModules: rapid.SliceOfNDistinct(rapid.SampledFrom(append(modules, "all-linear")), 1, 4, rapid.ID).Draw(t,
			"target_modules"),
		AdapterDtype: dtype.Draw(t, "adapter_dtype"), BasePrecision: base,
		DoubleQuantization: new(base == "nf4" && rapid.Bool().Draw(t, "double")), UpcastBase: upcast,
		DoRA: !slices.Contains([]string{"int8", "gptq-int4", "gptq-int8"}, base) && rapid.Bool().Draw(t, "dora"),
	}
}

func marshal(t *rapid.T, v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFoldedEqualsPlain compares the two engines: the fast one, which records five layers and repeats the middle
// one, and the plain one, which records and plays every layer. Both must ask a heap for the same bytes in
// the same order.
func TestFoldedEqualsPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { foldedEqualsPlain(t, onDrawnGPU(t, randomJob(t))) })
}

// TestFoldedEqualsPlainSharded does so for jobs all of which are sharded.
func TestFoldedEqualsPlainSharded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { foldedEqualsPlain(t, onDrawnGPU(t, shardedJob(t))) })
}

// onDrawnGPU is a job on one of several kinds of GPUs.
func onDrawnGPU(t *rapid.T, job Job) Input {
	return Input{Job: job, GPUs: []GPU{tracedGPUs[rapid.SampledFrom([]string{"a100-sxm4-80gb", "h100-sxm5", "rtx-4070",
		"v100-sxm2-16gb", "t4"}).Draw(t, "gpu")]}}
}

func foldedEqualsPlain(t rapid.TB, in Input) {
	t.Helper()
	var fast, plain tape
	if err := Replay(in, &fast, 2, false); err != nil {
		t.Fatal(err)
	}
	if err := Replay(in, &plain, 2, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ordered(plain.events), ordered(fast.events)); diff != "" {
		t.Fatalf("the short cut differs (-plain +fast):\n%.2000s", diff)
	}
}

// TestLedgerEqualsReplay holds the ledger, which never plays a repeated layer, against the largest sum of live
// blocks that the plain replay reaches in its second optimizer step.
func TestLedgerEqualsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { ledgerEqualsReplay(t, Input{Job: randomJob(t)}, true) })
}

// TestLedgerEqualsReplaySharded does so for jobs all of which are sharded.
func TestLedgerEqualsReplaySharded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { ledgerEqualsReplay(t, Input{Job: shardedJob(t)}, true) })
}

// ledgerEqualsReplay does so for one job, with the plain replay or the folded one.
func ledgerEqualsReplay(t rapid.TB, in Input, plain bool) {
	t.Helper()
	r, err := resolve.Resolve(&in)
	if err != nil {
		t.Fatal(err)
	}
	ledger := session.PlayerOf(
		r,
		&in,
		nil,
	).Session(
		&replay.Workspace{},
		session.Hardware(r.Recipe, nil),
		false,
	).Account(
		false,
		true,
	)
	var played tape
	if err := Replay(in, &played, 2, plain); err != nil {
		t.Fatal(err)
	}
	live, most := int64(0), int64(0)
	for _, e := range played.events {
		if e > 0 {
			live += (e + 511) &^ 511
		} else {
			live -= (-e + 511) &^ 511
		}
		if live < 0 {
			t.Fatal("more is freed than was allocated")
		}
		most = max(most, live)
	}
	if ledger.Peak.Bytes != most {
		t.Fatalf("the ledger's peak is %d, the replay's %d", ledger.Peak.Bytes, most)
	}
	sum, tensors := int64(0), int64(0)
	for _, b := range ledger.Peak.Components {
		if b < 0 {
			t.Fatalf("a negative component: %v", ledger.Peak.Components)
		}
		sum += b
	}
	if sum != ledger.Peak.Bytes {
		t.Fatalf("the components add up to %d, the peak is %d", sum, ledger.Peak.Bytes)
	}
	for _, x := range ledger.Peak.Tensors {
		tensors += x.Count * ((x.Bytes + 511) &^ 511)
	}
	// The optimizer's temporaries and its step counters are in no list of tensors.
	if ledger.Peak.MicroStep >= 0 && tensors > sum {
		t.Fatalf("the tensors add up to %d, more than the peak of %d", tensors, sum)
	}
}

// TestCircleEqualsPlaying compares an allocator that may stop when it goes round in a circle with one that plays every
// micro-step.
func TestCircleEqualsPlaying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: randomJob(t)}
		in.Job.Training.GradientAccumulation = rapid.Int64Range(2, 60).Draw(t, "more accumulation")
		in.Job.Training.Optimizer.InBackward = false // which leaves nothing to accumulate
		short, long := memory.NewAllocator(memory.Settings{}), memory.NewAllocator(memory.Settings{})
		if err := Replay(in, short, 3, false); err != nil {
			t.Fatal(err)
		}
		if err := Replay(in, struct{ allocating }{long}, 3, false); err != nil {
			t.Fatal(err)
		}
		if short.PeakReserved() != long.PeakReserved() || short.PeakAllocated() != long.PeakAllocated() {
			t.Fatalf("with the short cut %d reserved and %d allocated, without %d and %d",
				short.PeakReserved(), short.PeakAllocated(), long.PeakReserved(), long.PeakAllocated())
		}
	})
}

// allocating hides an allocator's state.
type allocating interface {
	Alloc(bytes int64) int32
	AllocOn(stream uint8, bytes int64) int32
	Free(handle int32)
	ReleaseCached()
}
