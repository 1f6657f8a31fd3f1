package estimator

import (
	"encoding/json"
	"errors"
	"go/build"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

var rtx4070 = GPU{ID: "rtx-4070", MemoryBytes: 12282 << 20, UsableBytes: 11994 << 20, ComputeCapability: 89,
	Multiprocessors: 46}

func mustEstimate(t testing.TB, in Input) *Result {
	t.Helper()
	res, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestParameterCounts checks every preset of the described families against its published count.
func TestParameterCounts(t *testing.T) {
	data, err := os.ReadFile("../migrations/data/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets []model.Preset
	if err := json.Unmarshal(data, &presets); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i := range presets {
		p := &presets[i]
		var errs invalid.List
		a := model.FromPreset(p, "/model/preset", &errs)
		if errs.Err() != nil {
			continue
		}
		checked++
		if p.Kind == "encoder" { // the catalog counts encoders without a head
			a.SetHead(&model.Head{Kind: "none"}, "/model/head", &errs)
		}
		if got := a.ParameterCount(); got != p.ParametersTotal {
			t.Errorf("%s: %d parameters, published %d", p.ID, got, p.ParametersTotal)
		}
		if p.MaskedHeadParams > 0 {
			without := false
			a.SetHead(&model.Head{Kind: "none", Pooler: &without}, "/model/head", &errs)
			base := a.ParameterCount()
			a.SetHead(&model.Head{Kind: "masked-lm"}, "/model/head", &errs)
			nextSentence := int64(0)
			if p.Family == "bert" {
				nextSentence = 2*p.Hidden + 2 // in the published files, not in the class
			}
			if got := a.ParameterCount() - base; got != p.MaskedHeadParams-nextSentence {
				t.Errorf("%s: the head for masked words has %d parameters, published %d", p.ID, got, p.MaskedHeadParams)
			}
		}
	}
	if checked < 84 {
		t.Errorf("only %d presets are understood, want at least 84", checked)
	}
}

// TestEncoderHeads checks the heads of BERT against the counts that the library gives for its classes.
func TestEncoderHeads(t *testing.T) {
	pooler := false
	for _, c := range []struct {
		head       model.Head
		parameters int64
	}{
		{model.Head{}, 109_514_298}, // for masked words
		{model.Head{Kind: "masked-lm"}, 109_514_298},
		{model.Head{Kind: "language-model"}, 109_514_298},
		{model.Head{Kind: "classification"}, 109_483_778},
		{model.Head{Kind: "classification", Labels: 5}, 109_486_085},
		{model.Head{Kind: "token-classification", Labels: 9}, 108_898_569},
		{model.Head{Kind: "question-answering"}, 108_893_186},
		{model.Head{Kind: "none"}, 109_482_240},
		{model.Head{Kind: "none", Pooler: &pooler}, 108_891_648},
	} {
		p := model.Preset{ID: "google-bert/bert-base-uncased", Family: "bert", Kind: "encoder", Layers: 12, Hidden: 768,
			Heads: 12, KVHeads: 12, HeadDim: 64,
			FFN: 3072, Vocabulary: 30522, MaxPositions: 512, TypeVocabulary: 2, TiedEmbeddings: true, Pooler: true}
		job := Job{Model: Model{Preset: p.ID, Head: &c.head}, Training: Training{MicroBatch: 2}}
		res := mustEstimate(t, Input{Job: job, Preset: &p})
		if res.Model.Parameters != c.parameters {
			t.Errorf("%+v: %d parameters, want %d", c.head, res.Model.Parameters, c.parameters)
		}
		if logits := component(res, "logits_and_loss").Bytes; (logits > 1<<20) != (c.parameters == 109_514_298) {
			t.Errorf("%+v: the logits hold %d bytes", c.head, logits)
		}
	}
}

// TestFoundingStoryGPT2 is the first story: GPT-2 124M on a 12 GB card with 16 × 1024 × 32.
func TestFoundingStoryGPT2(t *testing.T) {
	base := Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 12, Embedding: 768, BlockSize: 1024,
		Vocabulary: 50304}},
		Training: Training{SequenceLength: 1024, Precision: PrecisionAMPBF16,
			Optimizer: &Optimizer{Name: "adamw", Implementation: "fused"}}}
	for _, c := range []struct {
		name                string
		micro, accumulation int64
		layers, width       int64
		verdict             Verdict
	}{
		{"as asked", 16, 32, 12, 768, DoesNotFit},
		{"half the micro-batch, twice the accumulation", 8, 64, 12, 768, Fits},
		{"a quarter", 4, 128, 12, 768, Fits},
		{"half the effective batch", 8, 32, 12, 768, Fits},
		{"nine layers", 16, 32, 9, 768, DoesNotFit},
		{"512 wide", 16, 32, 12, 512, DoesNotFit},
		{"an eighth", 2, 256, 12, 768, Fits},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := base
			m := *base.Model.NanoGPT
			m.Layers, m.Embedding, m.Heads = c.layers, c.width, c.width/64
			job.Model.NanoGPT = &m
			job.Training.MicroBatch, job.Training.GradientAccumulation = c.micro, c.accumulation
			res := mustEstimate(t, Input{Job: job, GPUs: []GPU{rtx4070}})
			if res.GPUs[0].Verdict != c.verdict {
				t.Errorf("%s: device %v, low %v, high %v of %v", res.GPUs[0].Verdict, Bytes(res.Peak.DeviceBytes),
					Bytes(res.Peak.LowBytes), Bytes(res.Peak.HighBytes), Bytes(res.GPUs[0].UsableBytes))
			}
			if c.layers == 12 && c.width == 768 && res.Model.Parameters != 124_373_760 {
				t.Errorf("%d parameters", res.Model.Parameters)
			}
		})
	}
	res := mustEstimate(t, Input{Job: func() Job {
		j := base
		j.Training.MicroBatch, j.Training.GradientAccumulation = 16, 32
		return j
	}(), GPUs: []GPU{rtx4070}})
	logits := component(res, "logits_and_loss")
	if res.Peak.Where != "loss backward" || logits.Share < 0.45 {
		t.Errorf("the peak is in %q and the logits hold %.0f %%: the story says that the loss is the peak",
			res.Peak.Where, 100*logits.Share)
	}
}

// TestGrowingSegmentsGiveBack holds a job with expandable segments against a card that has what is alive but not what
// is reserved: the allocator gives free pages back, so the job may run and must not be refused.
func TestGrowingSegmentsGiveBack(t *testing.T) {
	job := Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 12, Embedding: 768, BlockSize: 1024,
		Vocabulary: 50304}},
		Training: Training{MicroBatch: 16, GradientAccumulation: 32, Precision: PrecisionAMPBF16,
			Allocator: &Allocator{ExpandableSegments: true}}}
	peak := mustEstimate(t, Input{Job: job}).Peak
	context := peak.DeviceBytes - peak.ReservedBytes
	if peak.ReservedBytes-peak.AllocatedBytes < 1<<30 {
		t.Fatalf("the job is meant to reserve much more than is alive: %+v", peak)
	}
	for _, c := range []struct {
		usable int64
		want   Verdict
	}{
		{peak.AllocatedBytes + context + 512<<20, Unlikely},
		{peak.AllocatedBytes + context - 1<<30, DoesNotFit},
	} {
		res := mustEstimate(t, Input{Job: job, GPUs: []GPU{{ID: "card", UsableBytes: c.usable}}})
		if got := res.GPUs[0].Verdict; got != c.want {
			t.Errorf("on a card of %v: %s, want %s", Bytes(c.usable), got, c.want)
		}
	}
}

// TestFoundingStory30M is the second story: 29.94M parameters, 16 × 512, accumulation 4, fp16 with GradScaler and
// fused AdamW; the eager figure was traced at 6,256,638,976 bytes allocated with dropout 0.2.
func TestFoundingStory30M(t *testing.T) {
	job := Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 6, Heads: 6, Embedding: 384, BlockSize: 512,
		Vocabulary: 50304, Dropout: 0.2}},
		Training: Training{MicroBatch: 16, SequenceLength: 512, GradientAccumulation: 4, Precision: PrecisionAMPFP16,
			Optimizer: &Optimizer{Name: "adamw", Implementation: "fused"},
			Versions:  formerStack}}
	res := mustEstimate(t, Input{Job: job, GPUs: []GPU{rtx4070}})
	if res.Model.Parameters != 30_135_168 {
		t.Errorf("%d parameters", res.Model.Parameters)
	}
	if res.Peak.AllocatedBytes != 6_256_638_976 || res.Peak.ReservedBytes != 7_579_107_328 {
		t.Errorf("allocated %d, reserved %d", res.Peak.AllocatedBytes, res.Peak.ReservedBytes)
	}
	if res.GPUs[0].Verdict != Fits {
		t.Errorf("%s", res.GPUs[0].Verdict)
	}
	// The owner's own run was compiled: 4,464 MiB for the process. The traced compiled run allocated 3,826,891,264
	// bytes.
	job.Training.Compile = &Compile{Model: true, Loss: true}
	res = mustEstimate(t, Input{Job: job, GPUs: []GPU{rtx4070}})
	if off := float64(res.Peak.AllocatedBytes)/3_826_891_264 - 1; math.Abs(off) > 0.002 {
		t.Errorf("compiled: allocated %d, off by %+.2f %%", res.Peak.AllocatedBytes, 100*off)
	}
	if seen := int64(4464 << 20); seen < res.Peak.LowBytes || seen > res.Peak.HighBytes {
		t.Errorf("compiled: the %d bytes that were seen lie outside %d to %d", seen, res.Peak.LowBytes,
			res.Peak.HighBytes)
	}
}

func component(res *Result, name string) Component {
	for _, c := range res.Components {
		if c.Name == name {
			return c
		}
	}
	return Component{}
}

// TestAnswerHolds checks what every answer promises, on random jobs.
func TestAnswerHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usable := rapid.Int64Range(1<<20, 1<<36).Draw(t, "usable")
		res, err := Estimate(Input{Job: randomJob(t), GPUs: []GPU{{ID: "card", UsableBytes: usable}, {ID: "unknown"}},
			Timeline: true, Tensors: true})
		if err != nil {
			t.Fatal(err)
		}
		p, sum := res.Peak, int64(0)
		for i, c := range res.Components {
			if c.Name != answer.Components[i] || c.Bytes < 0 && c.Name != "allocator" {
				t.Fatalf("component %d is %+v", i, c)
			}
			sum += c.Bytes
			parts := int64(0)
			for _, x := range c.Parts {
				parts += x.Bytes
			}
			if c.Parts != nil && parts != c.Bytes {
				t.Fatalf("the parts of %s add up to %d of %d", c.Name, parts, c.Bytes)
			}
		}
		if sum != p.DeviceBytes {
			t.Fatalf("the components add up to %d, the device figure is %d", sum, p.DeviceBytes)
		}
		if !(p.LowBytes <= p.DeviceBytes && p.DeviceBytes <= p.HighBytes && p.AllocatedBytes <= p.ReservedBytes &&
			p.ReservedBytes <= p.DeviceBytes && p.MinimumLimitBytes <= p.ReservedBytes) {
			t.Fatalf("the figures are out of order: %+v", p)
		}
		want := DoesNotFit
		switch {
		case p.HighBytes <= usable:
			want = Fits
		case p.DeviceBytes <= usable:
			want = Tight
		case p.LowBytes <= usable:
			want = Unlikely
		}
		if res.GPUs[0].Verdict != want || res.GPUs[1].Verdict != Unknown {
			t.Fatalf("verdicts %v, want %s and unknown", res.GPUs, want)
		}
		again, err := Estimate(Input{Job: randomJob(t)})
		if err == nil && again.Peak.AllocatedBytes <= 0 {
			t.Fatalf("nothing is allocated: %+v", again.Peak)
		}
	})
}

// TestMoreNeverTakesLess adds a sequence to a micro-batch. Only the scratch of kernels may shrink, because they divide
// their work differently: flash attention stops splitting the keys when there is enough to do, sums over rows change
// the number of their blocks.
func TestMoreNeverTakesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := randomJob(t)
		before, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		job.Training.MicroBatch++
		after, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		// Reserved bytes follow the order of frees and may fall; what is alive may not.
		const scratch = 256 << 20
		if live(after) < live(before)-scratch {
			t.Fatalf("one more sequence takes %d bytes less", live(before)-live(after))
		}
	})
}

// live is what a result's components hold besides the allocator's slack and the context.
func live(res *Result) int64 {
	return res.Peak.DeviceBytes - component(res, "allocator").Bytes - component(res, "cuda_context").Bytes
}

// TestRefusals gives the estimator what it must not answer.
func TestRefusals(t *testing.T) {
	good := func() Job {
		return Job{Model: Model{NanoGPT: &model.NanoGPT{Layers: 2, Heads: 2, Embedding: 64, BlockSize: 64,
			Vocabulary: 100}}, Training: Training{MicroBatch: 1}}
	}
	for _, c := range []struct {
		name     string
		change   func(*Job)
		pointers []string
	}{
		{"no model", func(j *Job) { j.Model = Model{} }, []string{"/model"}},
		{"two models", func(j *Job) { j.Model.HFConfig = []byte(`{"model_type":"llama"}`) }, []string{"/model"}},
		{"no micro-batch", func(j *Job) { j.Training.MicroBatch = 0 }, []string{"/training/micro_batch"}},
		{"negative numbers, both named", func(j *Job) {
			j.Training.MicroBatch, j.Training.GradientAccumulation = -1, -2
		}, []string{"/training/gradient_accumulation", "/training/micro_batch"}},
		{"heads that do not divide", func(j *Job) { j.Model.NanoGPT.Heads = 3 }, []string{"/model/nanogpt/n_head"}},
		{"10^18 layers", func(j *Job) { j.Model.NanoGPT.Layers = 1e18 }, []string{"/model/nanogpt/n_layer"}},
		{"too long for learned positions", func(j *Job) {
			j.Training.SequenceLength = 65
		}, []string{"/training/sequence_length"}},
		{"an absurd micro-batch", func(j *Job) {
			j.Training.MicroBatch = 1 << 30
			j.Model.NanoGPT.Layers = 1024
		}, []string{"/training"}},
		{"an absurd evaluation", func(j *Job) {
			j.Training.Evaluation = &Evaluation{MicroBatch: 1 << 30}
			j.Model.NanoGPT.Layers = 1024
		}, []string{"/training/evaluation"}},
		{"a family that is not there", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type":"mamba"}`)}
		}, []string{"/model/hf_config/model_type"}},
		{"a truncated config.json", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type":"lla`)}
		}, []string{"/model/hf_config"}},
		{"wrong types in a config.json, all named", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":"4096","num_hidden_layers":1.5,"use_cache":1}`)}
		}, []string{"/model/hf_config/hidden_size", "/model/hf_config/num_hidden_layers",
			"/model/hf_config/use_cache"}},
		{"heads of an hf_config that do not divide", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":100,"num_attention_heads":3}`)}
		}, []string{"/model/hf_config/num_attention_heads"}},
		{"what is not modelled", func(j *Job) {
			j.Training.FP8 = &FP8{}
			j.Training.LoRA = &LoRA{Rank: 8}
			j.Training.Distributed = &Distributed{WorldSize: 8, Data: "fsdp", PipelineParallel: 2}
		}, []string{"/training/distributed/pipeline_parallel", "/training/fp8", "/training/lora"}},
		{"flash attention with alibi", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type": "falcon", "alibi": true, "multi_query": false, "num_attention_heads": 64, "hidden_size": 4096}`)}
			j.Training.Attention = "flash"
		}, []string{"/training/attention"}},
		{"flash attention in float32", func(j *Job) {
			j.Training.Attention, j.Training.Precision = "flash", PrecisionFP32
		}, []string{"/training/attention"}},
		{"quantized weights", func(j *Job) {
			j.Model = Model{HFConfig: []byte(`{"model_type":"llama","quantization_config":{"load_in_4bit":true}}`)}
		}, []string{"/model/hf_config/quantization_config"}},
		{"a rank without GaLore", func(j *Job) {
			j.Training.Optimizer = &Optimizer{Name: "adamw", Rank: 8}
		}, []string{"/training/optimizer/rank"}},
		{"a preset without a catalog", func(j *Job) { j.Model = Model{Preset: "gpt2"} }, []string{"/model/preset"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := good()
			c.change(&job)
			_, err := Estimate(Input{Job: job})
			var bad *InvalidJobError
			if !errors.As(err, &bad) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, f := range bad.Fields {
				got = append(got, f.Pointer)
			}
			if strings.Join(got, " ") != strings.Join(c.pointers, " ") {
				t.Errorf("named %v, want %v: %v", got, c.pointers, err)
			}
		})
	}
}

// TestNotesOnAssumptions asks for what a card cannot do or the replay does not tell apart.
func TestNotesOnAssumptions(t *testing.T) {
	volta := GPU{ID: "volta", ComputeCapability: 70, Multiprocessors: 80, UsableBytes: 16 << 30, Vendor: "NVIDIA"}
	ampere := GPU{ID: "ampere", ComputeCapability: 80, Multiprocessors: 108, UsableBytes: 40 << 30, Vendor: "NVIDIA"}
	other := GPU{ID: "other", UsableBytes: 64 << 30, Vendor: "AMD"}
	for _, c := range []struct {
		name     string
		training Training
		gpus     []GPU
		want     []string
	}{
		{"what every card has", Training{MicroBatch: 1, Attention: "flash"}, []GPU{ampere}, nil},
		{"flash attention and bfloat16 before Ampere", Training{MicroBatch: 1, Attention: "flash"},
			[]GPU{ampere, volta}, []string{"no-flash-attention volta", "bf16-emulated volta"}},
		{"half precision on Volta", Training{MicroBatch: 1, Precision: PrecisionAMPFP16}, []GPU{volta}, nil},
		{"a card of another vendor", Training{MicroBatch: 1}, []GPU{other}, []string{"other-vendor other"}},
		{"versions", Training{MicroBatch: 1, Versions: map[string]string{"torch": "2.1"}}, []GPU{ampere},
			[]string{"versions the replay follows torch-2.9.1 and transformers 4.57.6; what else the versions given " +
				"do otherwise is not known, and the bounds are wider"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := mustEstimate(t, Input{GPUs: c.gpus, Job: Job{Training: c.training,
				Model: Model{NanoGPT: &model.NanoGPT{Layers: 2, Heads: 2, Embedding: 64, BlockSize: 64,
					Vocabulary: 100}}}})
			var got []string
			for _, n := range res.Notes {
				switch n.Code {
				case "no-flash-attention", "bf16-emulated", "other-vendor", "versions":
					who, _, _ := strings.Cut(n.Text, ":")
					got = append(got, n.Code+" "+who)
				}
			}
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("noted %q, want %q", got, c.want)
			}
		})
	}
}

// TestNoPanicOnAnyNumbers throws numbers at the estimator that nobody checked before.
func TestNoPanicOnAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 70000),
			rapid.SampledFrom([]int64{1 << 30, 1 << 31, 1 << 62, 1e18}))
		job := Job{
			Model: Model{NanoGPT: &model.NanoGPT{Layers: n.Draw(t, "l"), Heads: n.Draw(t, "h"),
				Embedding: n.Draw(t, "d"), BlockSize: n.Draw(t, "T"), Vocabulary: n.Draw(t, "V")}},
			Training: Training{MicroBatch: n.Draw(t, "b"), SequenceLength: n.Draw(t, "s"),
				GradientAccumulation: n.Draw(t, "a")},
		}
		res, err := Estimate(Input{Job: job})
		if err == nil && (res.Peak.AllocatedBytes <= 0 || res.Peak.DeviceBytes < res.Peak.AllocatedBytes) {
			t.Fatalf("a number wrapped around: %+v", res.Peak)
		}
	})
}

// TestImports holds the estimator to packages that do no input or output.
func TestImports(t *testing.T) {
	allowed := map[string]bool{"bytes": true, "cmp": true, "context": true, "encoding/json": true, "errors": true,
		"encoding/binary": true, "hash/maphash": true, "fmt": true, "math": true, "math/bits": true,
		"slices": true, "sort": true, "strconv": true, "strings": true, "sync": true, "sync/atomic": true,
		"runtime": true, "maps": true, "iter": true, "reflect": true, "unicode/utf8": true, "text/tabwriter": true,
		"golang.org/x/sync/errgroup": true, "regexp": true,
		"embed": true} // tables of facts, which are part of the program
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if err != nil {
			return err
		}
		if p.IsCommand() { // which nothing imports
			return nil
		}
		for _, i := range p.Imports {
			if !allowed[i] && !strings.HasPrefix(i, "github.com/vramplan/vramplan/estimator") {
				t.Errorf("%s imports %s: the estimator does no input or output", path, i)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
