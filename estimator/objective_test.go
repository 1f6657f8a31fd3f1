package estimator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// tracedKinds are the jobs of the traced runs of other kinds of training.
func tracedKinds(t *testing.T) map[string]Job {
	t.Helper()
	jobs := map[string]Job{}
	for _, name := range []string{"language", "contrastive", "traced", "crosses", "evaluated", "quantised", "liger"} {
		readKinds(t, "accuracy/testdata/kinds/"+name+".jsonl", jobs)
	}
	return jobs
}

func readKinds(t *testing.T, name string, jobs map[string]Job) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			ID  string `json:"id"`
			Job Job    `json:"job"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		row.Job.GPUs = nil
		jobs[row.ID] = row.Job
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// Several passes through one model fold: every layer played by itself holds as much as the short cut for layers that
// repeat, and as much as the ledger says.
func TestObjectivesFold(t *testing.T) {
	for id, job := range tracedKinds(t) {
		t.Run(id, func(t *testing.T) {
			in := Input{Job: job}
			res, err := Estimate(in)
			if refused := (*InvalidJobError)(nil); errors.As(err, &refused) {
				t.Logf("refused: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var plain, folded alloc.Tally
			if err := errors.Join(Replay(in, &plain, 2, true), Replay(in, &folded, 2, false)); err != nil {
				t.Fatal(err)
			}
			most := int64(0)
			for _, p := range res.Phases {
				most = max(most, p.AllocatedBytes)
			}
			if plain.Most != folded.Most || plain.Most != most {
				t.Errorf("every layer: %d; folded: %d; the ledger: %d", plain.Most, folded.Most, most)
			}
		})
	}
}

// What a micro-step frees it has allocated, and it leaves nothing behind but the next batch.
func TestObjectivesLeaveNothing(t *testing.T) {
	for id, job := range tracedKinds(t) {
		in := Input{Job: job}
		r, err := resolve.Resolve(&in)
		if err != nil {
			continue
		}
		p := session.PlayerOf(r, &in, nil).Session(&replay.Workspace{}, session.Hardware(r.Recipe, nil), false).Program
		alive, batch := map[int32]bool{}, 0
		for i, e := range p.Events {
			switch e.Op {
			case step.Alloc:
				alive[e.Slot] = true
				if i < p.Prologue { // beside which the Trainer has those of the other micro-steps, once
					batch++
				}
			case step.Free, step.Keep:
				if !alive[e.Slot] {
					t.Errorf("%s: event %d frees %s, which is not there", id, i, p.Slots[e.Slot].Label)
				}
				delete(alive, e.Slot)
			}
		}
		if len(alive) != batch {
			t.Errorf("%s: %d tensors are left, and the batch has %d", id, len(alive), batch)
		}
	}
}

func TestObjectiveConflicts(t *testing.T) {
	const model = `"model": {"hf_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 256}}`
	for name, c := range map[string]struct {
		training string
		pointers []string
	}{
		"lengths that disagree": {`"sequence_length": 100, "objective": {"kind": "dpo", "prompt_tokens": 32, "completion_tokens": 32}`, []string{"/training/sequence_length"}},
		"no lengths": {`"objective": "dpo"`, []string{"/training/objective/prompt_tokens",
			"/training/objective/completion_tokens"}},
		"another kind's fields": {`"sequence_length": 64, "objective": {"kind": "sft", "num_generations": 4, "reference": "separate"}`,
			[]string{"/training/objective/reference", "/training/objective/num_generations"}},
		"no adapters to turn off": {`"objective": {"kind": "dpo", "prompt_tokens": 32, "completion_tokens": 32, "reference": "adapter-off"}`, []string{"/training/objective/reference"}},
		"another framework": {`"framework": "axolotl", "sequence_length": 64, "objective": "sft"`,
			[]string{"/training/framework"}},
		"several at once": {`"compile": true, "evaluation": {"keep_logits": true}, "sequence_length": 64, "objective": "reward", "distributed": {"world_size": 2, "data": "ddp", "tensor_parallel": 2}`,
			[]string{"/training/compile", "/training/evaluation/keep_logits", "/training/distributed"}},
		"an evaluation of ppo": {`"evaluation": {}, "objective": {"kind": "ppo", "prompt_tokens": 8, "completion_tokens": 8}`,
			[]string{"/training/evaluation"}},
		"adapters in bfloat16 under a scaler": {`"precision": "amp-fp16", "lora": {"rank": 8, "base_precision": "nf4"}, "sequence_length": 64, "objective": "sft"`,
			[]string{"/training/precision"}},
		"PPO on several GPUs": {`"objective": {"kind": "ppo", "prompt_tokens": 32, "completion_tokens": 32}, "distributed": {"world_size": 2, "data": "ddp"}`,
			[]string{"/training/distributed"}},
		"adapters that are ready twice": {`"sequence_length": 64, "versions": {"trl": "0.26.2"}, "objective": "sft", "lora": {"rank": 8}, "gradient_checkpointing": {"mode": "full", "reentrant": true}, "distributed": {"world_size": 2, "data": "ddp"}`,
			[]string{"/training/gradient_checkpointing/reentrant"}},
		"a release between": {`"versions": {"trl": "1.5.0"}, "objective": {"kind": "dpo", "prompt_tokens": 32, "completion_tokens": 32}`, []string{"/training/versions"}},
		"generations that do not divide those of all GPUs": {`"distributed": {"world_size": 4, "data": "ddp"}, "objective": {"kind": "grpo", "prompt_tokens": 32, "completion_tokens": 32, "num_generations": 3}`, []string{"/training/objective/num_generations"}},
		"generations that do not divide":                   {`"objective": {"kind": "grpo", "prompt_tokens": 32, "completion_tokens": 32, "num_generations": 3}`, []string{"/training/objective/num_generations"}},
		"generations within a step": {`"gradient_accumulation": 4, "objective": {"kind": "grpo", "prompt_tokens": 32, "completion_tokens": 32, "num_generations": 2, "steps_per_generation": 2}`,
			[]string{"/training/objective/steps_per_generation"}},
		"a share of vLLM": {`"objective": {"kind": "grpo", "prompt_tokens": 32, "completion_tokens": 32, "num_generations": 2, "rollout": "vllm-server", "vllm_sleep": true, "vllm_gpu_memory_utilization": 0.5}`,
			[]string{"/training/objective/vllm_gpu_memory_utilization", "/training/objective/vllm_sleep"}},
		"a group's loss that is none": {`"objective": {"kind": "grpo", "prompt_tokens": 32, "completion_tokens": 32, "num_generations": 2, "loss_type": "nll"}`,
			[]string{"/training/objective/loss_type"}},
		"PPO after its removal": {`"versions": {"trl": "1.16.0"}, "objective": {"kind": "ppo", "prompt_tokens": 32, "completion_tokens": 32}`,
			[]string{"/training/versions"}},
		"no teacher": {`"sequence_length": 64, "objective": "gkd"`, []string{"/training/objective/teacher"}},
		"a teacher of other tokens": {`"sequence_length": 64, "objective": {"kind": "gkd", "beta": 2, "teacher": {"hf_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512}}}`,
			[]string{"/training/objective/beta", "/training/objective/teacher/hf_config"}},
		"a prompt without a completion": {`"sequence_length": 64, "objective": {"kind": "gkd", "prompt_tokens": 64, "teacher": {"hf_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}}}`,
			[]string{"/training/objective/prompt_tokens"}},
		"an unknown loss": {`"sequence_length": 64, "objective": {"kind": "sft", "loss_type": "chunked_nll"}`,
			[]string{"/training/objective/loss_type"}},
		"a loss of another release": {`"sequence_length": 64, "objective": {"kind": "sft", "loss_type": "dft"}, "versions": {"trl": "0.26.2"}`,
			[]string{"/training/objective/loss_type"}},
		"too many to replay": {`"micro_batch": 5000, "sequence_length": 64, "objective": "reward"`,
			[]string{"/training/micro_batch"}},
		"a contrastive loss's fields": {`"sequence_length": 64, "framework": "trl", "attention_mask": "explicit", "objective": {"kind": "contrastive", "texts": 2, "loss": "triplet", "mini_batch": 4, "beta": 0.1, "matryoshka_dims": [64]}`,
			[]string{"/training/framework", "/training/attention_mask", "/training/objective/texts",
				"/training/objective/mini_batch", "/training/objective/beta",
				"/training/objective/matryoshka_dims"}},
		"pairs with three texts": {`"sequence_length": 64, "objective": {"kind": "contrastive", "loss": "cosent", "texts": 3}`,
			[]string{"/training/objective/texts"}},
		"a loss with a guide": {`"sequence_length": 64, "objective": {"kind": "contrastive", "loss": "gist"}`,
			[]string{"/training/objective/loss"}},
		"embeddings that grow": {`"sequence_length": 64, "objective": {"kind": "contrastive", "loss": "matryoshka-mnrl", "matryoshka_dims": [32, 64]}`,
			[]string{"/training/objective/matryoshka_dims"}},
		"texts in another kind": {`"sequence_length": 64, "objective": {"kind": "sft", "texts": 3, "pooling": "cls"}`,
			[]string{"/training/objective/texts", "/training/objective/pooling"}},
		"a mask without pads": {`"attention_mask": "explicit", "sequence_length": 64, "objective": {"kind": "sft", "packing": true}`, []string{"/training/attention_mask"}},
	} {
		t.Run(name, func(t *testing.T) {
			document := `{` + model + `, "training": {` + c.training + `}}`
			if !strings.Contains(c.training, "micro_batch") {
				document = `{` + model + `, "training": {"micro_batch": 2, ` + c.training + `}}`
			}
			var job Job
			if err := json.Unmarshal([]byte(document), &job); err != nil {
				t.Fatal(err)
			}
			_, err := Estimate(Input{Job: job})
			if err == nil {
				t.Fatal("answered")
			}
			for _, pointer := range c.pointers {
				if !strings.Contains(err.Error(), pointer) {
					t.Errorf("%s is not named: %v", pointer, err)
				}
			}
		})
	}
}

// GradCache's mini-batch decides what a batch of embeddings takes, however large it is, and says that accumulation
// would not be the same.
func TestGradCache(t *testing.T) {
	job := tracedKinds(t)["contrastive-mpnet-cached-b256x128-mb32"]
	whole := mustEstimate(t, Input{Job: job})
	job.Training.MicroBatch *= 8
	more := mustEstimate(t, Input{Job: job})
	if grown := more.Peak.AllocatedBytes - whole.Peak.AllocatedBytes; grown < 0 ||
		grown > whole.Peak.AllocatedBytes/20 {
		t.Errorf("eight times the batch takes %d bytes more", grown)
	}
	direct := *job.Training.Objective
	direct.Loss, direct.MiniBatch = "mnrl", 0
	job.Training.Objective, job.Training.GradientAccumulation = &direct, 2
	res := mustEstimate(t, Input{Job: job})
	if res.Peak.AllocatedBytes < 4*more.Peak.AllocatedBytes {
		t.Errorf("at once it takes %d bytes, in mini-batches %d", res.Peak.AllocatedBytes, more.Peak.AllocatedBytes)
	}
	said := false
	for _, n := range res.Notes {
		said = said || n.Code == "accumulation-changes-contrastive-loss"
	}
	if !said {
		t.Errorf("accumulation is taken for a larger batch: %+v", res.Notes)
	}
}

// Where nothing is said, trl's trainers checkpoint, and a precomputed reference takes no pass.
func TestObjectiveDefaults(t *testing.T) {
	job := tracedKinds(t)["dpo-qwen0.5b-b2-256+256"]
	job.Training.GradientCheckpointing, job.Training.Framework = nil, ""
	estimate := func(reference string) *Result {
		t.Helper()
		own := *job.Training.Objective
		own.Reference = reference
		with := job
		with.Training.Objective = &own
		res, err := Estimate(Input{Job: with})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	separate, precomputed := estimate(""), estimate("precomputed")
	if a := separate.Assumed; a.GradientCheckpointing != "full" || a.Framework != "trl" || a.SequenceLength != 512 {
		t.Errorf("assumed %+v", a)
	}
	phase := func(r *Result, name string) int64 {
		for _, p := range r.Phases {
			if p.Name == name {
				return p.AllocatedBytes
			}
		}
		return 0
	}
	if phase(separate, "reference") == 0 || phase(precomputed, "reference") != 0 {
		t.Errorf("the reference takes %d, precomputed %d", phase(separate, "reference"),
			phase(precomputed, "reference"))
	}
	weights := phase(separate, "load") - phase(precomputed, "load")
	if want := 4 * separate.Model.Parameters; weights < want || weights > want+want/100 {
		t.Errorf("a separate reference loads %d bytes more, and its weights are %d", weights, want)
	}
}

// A generation holds more the more completions are written at once, and none where another machine writes them.
func TestGenerationGrows(t *testing.T) {
	job := tracedKinds(t)["grpo-qwen0.5b-b4-g4-128+64"]
	most := func(rollout string, steps int64) int64 {
		t.Helper()
		own := *job.Training.Objective
		own.Rollout, own.StepsPerGeneration = rollout, steps
		with := job
		with.Training.Objective = &own
		res, err := Estimate(Input{Job: with})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range res.Phases {
			if p.Name == "generation" {
				return p.AllocatedBytes
			}
		}
		return 0
	}
	few, many, elsewhere := most("transformers", 1), most("transformers", 8), most("vllm-server", 1)
	if few == 0 || many <= few || elsewhere != 0 {
		t.Errorf("4 completions: %d, 32: %d, on another machine: %d", few, many, elsewhere)
	}
}

// TestDropoutOfAdaptersGoesWithTheRest holds that trainers which switch dropout off switch that of adapters off, too.
func TestDropoutOfAdaptersGoesWithTheRest(t *testing.T) {
	for _, c := range []struct {
		kind, more string
		switched   bool
	}{{"dpo", "", true}, {"kto", "", true}, {"cpo", "", true}, {"orpo", "", true},
		{"grpo", `, "num_generations": 4`, false}} {
		peak := func(dropout float64) int64 {
			var job Job
			document := fmt.Sprintf(`{"model": {"hf_config": {"model_type": "llama", "hidden_size": 256,
				"intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000}},
				"training": {"micro_batch": 4, "precision": "bf16", "gradient_checkpointing": "none",
				"lora": {"rank": 8, "target_modules": ["q_proj", "v_proj"], "dropout": %g},
				"objective": {"kind": %q, "prompt_tokens": 64, "completion_tokens": 64%s}}}`, dropout, c.kind, c.more)
			if err := json.Unmarshal([]byte(document), &job); err != nil {
				t.Fatal(err)
			}
			return mustEstimate(t, Input{Job: job}).Peak.AllocatedBytes
		}
		if without, with := peak(0), peak(0.05); (without == with) != c.switched {
			t.Errorf("%s: %d bytes without dropout, %d with it", c.kind, without, with)
		}
	}
}

// TestObjectivesOfNoModel: what is said of the model alone is said whatever is trained, and nothing else is asked.
func TestObjectivesOfNoModel(t *testing.T) {
	for kind := range strings.SplitSeq("language-model sft dpo orpo cpo simpo kto reward gkd grpo rloo ppo "+
		"vision-language contrastive diffusion", " ") {
		for _, adapters := range []*LoRA{nil, {Rank: 8}} {
			for _, config := range []string{`{"model_type":"nobody-knows"}`, `{}`, ``} {
				job := Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 2, SequenceLength: 64,
					LoRA: adapters, Objective: &Objective{Kind: kind}}}
				if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/model") {
					t.Errorf("%s of the model %q: %v", kind, config, err)
				}
			}
		}
	}
}

// TestGenerationsOfAllGPUs: the completions of a prompt may lie on several GPUs, and each holds what it writes.
func TestGenerationsOfAllGPUs(t *testing.T) {
	peak := func(generations int64) int64 {
		var job Job
		document := fmt.Sprintf(`{"model": {"hf_config": {"model_type": "llama", "hidden_size": 256,
			"intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000}},
			"training": {"micro_batch": 2, "precision": "bf16", "distributed": {"world_size": 4, "data": "ddp"},
			"objective": {"kind": "grpo", "prompt_tokens": 64, "completion_tokens": 64, "num_generations": %d}}}`,
			generations)
		if err := json.Unmarshal([]byte(document), &job); err != nil {
			t.Fatal(err)
		}
		return mustEstimate(t, Input{Job: job}).Peak.AllocatedBytes
	}
	if apart, together := peak(8), peak(2); apart != together {
		t.Errorf("%d bytes with a prompt's completions on four GPUs, %d with them on one", apart, together)
	}
}
