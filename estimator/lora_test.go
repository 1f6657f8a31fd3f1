package estimator

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const llamaConfig = `{"model_type":"llama","hidden_size":64,"intermediate_size":160,"num_hidden_layers":3,"num_attention_heads":4,"vocab_size":500}`

func loraJob(config string, l LoRA) Job {
	return Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 2, SequenceLength: 32, LoRA: &l}}
}

// TestLoRACounts holds the adapters of peft's defaults, of named modules and of all linear layers against the counts
// that rank·(in + out) gives.
func TestLoRACounts(t *testing.T) {
	const square, up = 64 + 64, 64 + 160
	for name, c := range map[string]struct {
		targets Targets
		want    int64
	}{
		"peft's default for llama": {nil, 3 * 4 * 2 * square},
		"a whole path":             {Targets{"self_attn.o_proj"}, 3 * 4 * square},
		"one that is not there":    {Targets{"down_proj", "c_attn"}, 3 * 4 * up},
		"all linear layers":        {Targets{"all-linear"}, 3 * 4 * (4*square + 3*up)},
	} {
		t.Run(name, func(t *testing.T) {
			plain := mustEstimate(t,
				Input{Job: Job{Model: Model{HFConfig: []byte(llamaConfig)},
					Training: Training{MicroBatch: 2, SequenceLength: 32}}})
			res := mustEstimate(t, Input{Job: loraJob(llamaConfig, LoRA{Rank: 4, TargetModules: c.targets})})
			if res.Model.TrainableParameters != c.want || res.Model.Parameters != plain.Model.Parameters+c.want {
				t.Errorf("%d of %d are trained, want %d more than %d", res.Model.TrainableParameters,
					res.Model.Parameters, c.want, plain.Model.Parameters)
			}
		})
	}
}

// robertaClassifier is a model whose head is a module of two layers.
const robertaClassifier = `{"model_type":"roberta","architectures":["RobertaForSequenceClassification"],
	"hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":1000}`

// TestModuleOfLayersSaved trains a head of two layers in full: 256 × 256 and 2 × 256 with their biases, beside adapters
// of rank 8 on two layers.
func TestModuleOfLayersSaved(t *testing.T) {
	got := mustEstimate(t, Input{Job: loraJob(robertaClassifier, LoRA{Rank: 8, TargetModules: Targets{"query"},
		ModulesToSave: []string{"classifier"}})})
	const head, adapters = 256*256 + 256 + 2*256 + 2, 2 * (8*256 + 256*8)
	if got.Model.TrainableParameters != head+adapters {
		t.Errorf("%d parameters are trained, want %d and %d", got.Model.TrainableParameters, head, adapters)
	}
}

// TestChosenModules counts adapters of some layers, and of ranks of their own, as peft would make them.
func TestChosenModules(t *testing.T) {
	trained := func(l LoRA) int64 {
		t.Helper()
		r, err := Estimate(Input{Job: loraJob(llamaConfig, l)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Model.TrainableParameters
	}
	one := func(l LoRA) LoRA { l.Rank, l.TargetModules = 8, Targets{"q_proj"}; return l }
	all := trained(one(LoRA{}))
	layer := trained(one(LoRA{LayersToTransform: []int64{1}}))
	if got := trained(one(LoRA{LayersToTransform: []int64{0, 1}})); layer == 0 || got != 2*layer {
		t.Errorf("two layers train %d, want %d", got, 2*layer)
	}
	if got := trained(one(LoRA{RankPattern: map[string]int64{"q_proj": 24}})); got != 3*all {
		t.Errorf("three times the rank trains %d, want %d", got, 3*all)
	}
	if got := trained(one(LoRA{RankPattern: map[string]int64{`layers\.1\..*`: 16}})); got != all+layer {
		t.Errorf("twice the rank in one layer trains %d, want %d", got, all+layer)
	}
	if got := trained(LoRA{Rank: 8, TargetModules: Targets{"q_proj", "v_proj"}, ExcludeModules: Targets{"v_proj"}}); got != all {
		t.Errorf("without v_proj %d are trained, want %d", got, all)
	}
}

// TestLoRARefused asks for adapters that cannot be put on the model or are not modelled.
func TestLoRARefused(t *testing.T) {
	const at = "/training/lora"
	for name, c := range map[string]struct {
		config  string
		lora    LoRA
		pointer string
	}{
		"no rank":                   {llamaConfig, LoRA{}, at + "/rank"},
		"a negative rank":           {llamaConfig, LoRA{Rank: -8}, at + "/rank"},
		"a rank beyond every width": {llamaConfig, LoRA{Rank: math.MaxInt64}, at + "/rank"},
		"dropout that is no number": {llamaConfig, LoRA{Rank: 8, Dropout: new(math.NaN())}, at + "/dropout"},
		"modules of another model": {llamaConfig, LoRA{Rank: 8, TargetModules: Targets{"c_attn"}},
			at + "/target_modules"},
		"a part of a name": {llamaConfig, LoRA{Rank: 8, TargetModules: Targets{"proj"}},
			at + "/target_modules"},
		"no default in peft":      {`{"model_type":"smollm3"}`, LoRA{Rank: 8}, at + "/target_modules"},
		"an unknown adapter type": {llamaConfig, LoRA{Rank: 8, AdapterDtype: "fp8"}, at + "/adapter_dtype"},
		"an unknown base":         {llamaConfig, LoRA{Rank: 8, BasePrecision: "int3"}, at + "/base_precision"},
		"double quantization of bf16": {llamaConfig, LoRA{Rank: 8, BasePrecision: "bf16", DoubleQuantization: new(true)},
			at + "/double_quantization"},
		"weight decomposition": {llamaConfig, LoRA{Rank: 8, DoRA: true, BasePrecision: "int8"}, at + "/dora"},
		"a module that is not there": {llamaConfig, LoRA{Rank: 8, ModulesToSave: []string{"lm_head", "score"}},
			at + "/modules_to_save/1"},
		"an adapter inside a module that is trained": {robertaClassifier, LoRA{Rank: 8,
			TargetModules: Targets{"query", "dense"}, ModulesToSave: []string{"classifier"}},
			at + "/modules_to_save/0"},
		"an adapter on the embedding": {llamaConfig, LoRA{Rank: 8, TargetModules: Targets{"q_proj", "embed_tokens"}},
			at + "/target_modules"},
		"biases of a quantised base": {llamaConfig, LoRA{Rank: 8, Bias: "all", BasePrecision: "nf4"}, at + "/bias"},
		"biases beside modules that are trained": {llamaConfig, LoRA{Rank: 8, Bias: "lora_only",
			ModulesToSave: []string{"lm_head"}}, at + "/bias"},
		"a layer that is not there": {llamaConfig, LoRA{Rank: 8, LayersToTransform: []int64{1, 1000}},
			at + "/layers_to_transform"},
		"layers of all-linear, which peft refuses": {llamaConfig, LoRA{Rank: 8, LayersToTransform: []int64{1},
			TargetModules: Targets{"all-linear"}}, at + "/layers_to_transform"},
		"a rank of no module": {llamaConfig, LoRA{Rank: 8, RankPattern: map[string]int64{"o_proj": 4}},
			at + "/rank_pattern"},
		"two ranks of one module": {llamaConfig, LoRA{Rank: 8,
			RankPattern: map[string]int64{"q_proj": 4, "self_attn.q_proj": 16}}, at + "/rank_pattern"},
		"an expression with lookahead": {llamaConfig, LoRA{Rank: 8, RankPattern: map[string]int64{"(?!k)_proj": 4}},
			at + "/rank_pattern"},
		"a layer's rank where names are not whole": {robertaClassifier, LoRA{Rank: 8, TargetModules: Targets{"query"},
			RankPattern: map[string]int64{`encoder.layer.0.*query`: 4}}, at + "/rank_pattern"},
		"an expression that excludes": {llamaConfig, LoRA{Rank: 8, ExcludeModules: Targets{`.*\.0\..*`}},
			at + "/exclude_modules"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Estimate(Input{Job: loraJob(c.config, c.lora)})
			var bad *InvalidJobError
			if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Pointer != c.pointer {
				t.Errorf("got %v, want %s alone", err, c.pointer)
			}
		})
	}
}

// TestCompiledLoRA asks for torch.compile with adapters: those of peft on a base that is not quantised are compiled,
// and a graph that is keeps less than one that is not.
func TestCompiledLoRA(t *testing.T) {
	for name, c := range map[string]struct {
		lora      LoRA
		compile   Compile
		framework string
		refused   bool
	}{
		"bf16":              {lora: LoRA{BasePrecision: "bf16"}, compile: Compile{Model: true}},
		"fp32":              {lora: LoRA{BasePrecision: "fp32", Dropout: new(0.1)}, compile: Compile{Model: true}},
		"nf4":               {lora: LoRA{BasePrecision: "nf4"}, compile: Compile{Model: true}, refused: true},
		"gptq":              {lora: LoRA{BasePrecision: "gptq-int4"}, compile: Compile{Model: true}, refused: true},
		"DoRA":              {lora: LoRA{DoRA: true}, compile: Compile{Model: true}, refused: true},
		"the loss alone":    {compile: Compile{Loss: true}, refused: true},
		"litgpt's adapters": {compile: Compile{Model: true}, framework: "litgpt", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.lora.Rank = 8
			job := loraJob(llamaConfig, c.lora)
			job.Training.Framework = c.framework
			plain := mustEstimate(t, Input{Job: job})
			job.Training.Compile = &c.compile
			res, err := Estimate(Input{Job: job})
			var bad *InvalidJobError
			switch refused := errors.As(err, &bad); {
			case refused != c.refused || refused && bad.Fields[0].Pointer != "/training/compile":
				t.Errorf("got %v", err)
			case !refused && res.Peak.AllocatedBytes >= plain.Peak.AllocatedBytes:
				t.Errorf("compiled %d bytes, not compiled %d", res.Peak.AllocatedBytes, plain.Peak.AllocatedBytes)
			}
		})
	}
}

// TestUpcastBase has prepare_model_for_kbit_training make float32 of a base in half precision.
func TestUpcastBase(t *testing.T) {
	half := mustEstimate(t, Input{Job: loraJob(llamaConfig, LoRA{Rank: 4, BasePrecision: "bf16"})})
	upcast := mustEstimate(t, Input{Job: loraJob(llamaConfig,
		LoRA{Rank: 4, BasePrecision: "bf16", UpcastBase: new(true)})})
	full := mustEstimate(t, Input{Job: loraJob(llamaConfig, LoRA{Rank: 4, BasePrecision: "fp32"})})
	if upcast.Peak.ReservedBytes != full.Peak.ReservedBytes || upcast.Peak.AllocatedBytes != full.Peak.AllocatedBytes ||
		half.Peak.AllocatedBytes >= full.Peak.AllocatedBytes {
		t.Errorf("bf16 %v, upcast %v, fp32 %v", half.Peak.AllocatedBytes, upcast.Peak.AllocatedBytes,
			full.Peak.AllocatedBytes)
	}
}

// TestQuantisedBase holds what the weights of a quantised base take against their sizes: half a byte or a byte for
// each weight of a linear layer, and the scales.
func TestQuantisedBase(t *testing.T) {
	// weights of a projection, of an MLP's matrix, and all that is not quantised
	const square, up, others = 64 * 64, 64 * 160, 2*500*64 + 7*64
	const adapters = 3 * 2 * 2 * (64 + 64) * 4 // rank 2 on q_proj and v_proj, float32
	for name, c := range map[string]struct {
		lora       LoRA
		square, up int64 // bytes that a matrix may take, in blocks of 512
		other      int64 // bytes of a parameter that is not quantised
	}{
		"nf4": {LoRA{BasePrecision: "nf4"}, square/2 + 4*square/64 + 512, up/2 + 4*up/64 + 512 + 384,
			4},
		"nf4, not upcast": {LoRA{BasePrecision: "nf4", UpcastBase: new(false)}, square/2 + 4*square/64 + 512,
			up/2 + 4*up/64 + 512 + 384, 2},
		"double quantization": {LoRA{BasePrecision: "nf4", DoubleQuantization: new(true)}, square/2 + 3*512 + 512 + 1024,
			up/2 + 3*512 + 512 + 1024, 4},
		"int8":             {LoRA{BasePrecision: "int8"}, square + 512, up + 1024, 4},
		"gptq-int4":        {LoRA{BasePrecision: "gptq-int4"}, square/2 + 3*512, up/2 + 3*512, 2},
		"gptq-int8":        {LoRA{BasePrecision: "gptq-int8", UpcastBase: new(true)}, square + 3*512, up + 3*512, 2},
		"int8, not upcast": {LoRA{BasePrecision: "int8", UpcastBase: new(false)}, square + 512, up + 1024, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c.lora.Rank = 2
			res := mustEstimate(t, Input{Job: loraJob(llamaConfig, c.lora)})
			want := 3*(4*c.square+3*c.up) + others*c.other + adapters
			got := component(res, "weights").Bytes
			if math.Abs(float64(got-want)) > 16<<10 {
				t.Errorf("weights take %d bytes, want about %d", got, want)
			}
			if res.Model.Parameters != 3*(4*square+3*up)+others+adapters/4 {
				t.Errorf("%d parameters", res.Model.Parameters)
			}
		})
	}
}

// TestBaseNotes holds the notes about bases that were not traced as they are trained.
func TestBaseNotes(t *testing.T) {
	for base, code := range map[string]string{"gptq-int4": "gptq-derived", "gptq-int8": "gptq-derived",
		"int8": "int8-outliers", "nf4": "", "bf16": ""} {
		res, err := Estimate(Input{Job: loraJob(llamaConfig, LoRA{Rank: 8, BasePrecision: base})})
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, n := range res.Notes {
			if n.Code == "gptq-derived" || n.Code == "int8-outliers" {
				found = n.Code
			}
		}
		if found != code {
			t.Errorf("a base in %s has the note %q, want %q", base, found, code)
		}
	}
}

// TestTRLAmongTheReleases: today's trl beside a Trainer's job changes nothing; a former one, in which SFTTrainer casts
// the embeddings and the head of a base in four bits, widens the bounds to what the Trainer takes.
func TestTRLAmongTheReleases(t *testing.T) {
	with := func(trl string) *Result {
		job := loraJob(llamaConfig, LoRA{Rank: 4, BasePrecision: "nf4"})
		tr := &job.Training
		tr.Framework, tr.Precision, tr.SequenceLength = "hf-trainer", "amp-bf16", 512
		tr.Versions = map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}
		if trl != "" {
			tr.Versions["trl"] = trl
		}
		return mustEstimate(t, Input{Job: job})
	}
	plain, today, former := with(""), with("1.16.0"), with("0.20.0")
	if diff := cmp.Diff(plain.Peak, today.Peak); diff != "" {
		t.Errorf("(-without +with today's trl):\n%s", diff)
	}
	if former.Peak.AllocatedBytes >= plain.Peak.AllocatedBytes || former.Peak.HighBytes < plain.Peak.AllocatedBytes {
		t.Errorf("with a former trl %d, at most %d; the Trainer takes %d", former.Peak.AllocatedBytes,
			former.Peak.HighBytes,
			plain.Peak.AllocatedBytes)
	}
}
