package estimator

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/resolve"
)

// mixtures draws what the decoders with mixtures of experts read besides the usual keys, by model type, and
// returns the names of modules that LoRA can adapt.
var mixtures = map[string]func(t *rapid.T, config map[string]any) []string{
	"qwen2_moe": func(t *rapid.T, config map[string]any) []string {
		drawQwenExperts(t, config)
		config["shared_expert_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "shared_expert")
		return []string{"q_proj", "k_proj", "up_proj"}
	},
	"qwen3_moe": func(t *rapid.T, config map[string]any) []string {
		drawQwenExperts(t, config)
		return []string{"q_proj", "v_proj", "down_proj"}
	},
	"olmoe": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_experts"], config["num_experts_per_tok"] = count,
			rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["clip_qkv"], config["norm_topk_prob"] = rapid.SampledFrom([]any{nil, 8.0}).Draw(t, "clip_qkv"),
			rapid.Bool().Draw(t, "norm_topk_prob")
		return []string{"q_proj", "v_proj", "down_proj", "gate"}
	},
	"gpt_oss": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_local_experts"], config["num_experts_per_tok"] = count,
			rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["sliding_window"] = rapid.Int64Range(1, 1500).Draw(t, "window")
		return []string{"q_proj", "v_proj", "o_proj"}
	},
	"deepseek_v2": func(t *rapid.T, config map[string]any) []string {
		drawLatent(t, config)
		config["topk_method"],
			config["mlp_bias"] = rapid.SampledFrom([]string{"greedy", "group_limited_greedy"}).Draw(t, "topk_method"),
			rapid.Bool().Draw(t, "mlp_bias")
		config["n_group"], config["topk_group"] = rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "n_group"), 1
		return []string{"kv_b_proj", "o_proj", "down_proj"}
	},
	"deepseek_v3": func(t *rapid.T, config map[string]any) []string {
		drawLatent(t, config)
		config["rope_interleave"], config["norm_topk_prob"] = rapid.Bool().Draw(t, "rope_interleave"),
			rapid.Bool().Draw(t, "norm_topk_prob")
		config["n_group"], config["topk_group"] = 2, rapid.Int64Range(1, 2).Draw(t, "topk_group")
		return []string{"kv_b_proj", "o_proj", "down_proj"}
	},
	"dots1": func(t *rapid.T, config map[string]any) []string {
		drawRouted(t, config)
		config["sliding_window"], config["max_window_layers"] = rapid.SampledFrom([]any{nil, 100, 700}).Draw(t, "window"),
			rapid.Int64Range(0, 14).Draw(t, "full_layers")
		config["norm_topk_prob"], config["n_group"] = rapid.Bool().Draw(t, "norm_topk_prob"), 2
		return []string{"q_proj", "v_proj", "o_proj"}
	},
	"ernie4_5_moe": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["moe_num_experts"], config["moe_k"] = count, rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["moe_num_shared_experts"], config["moe_intermediate_size"] = rapid.Int64Range(1, 2).Draw(t, "shared experts"),
			rapid.Int64Range(8, 100).Draw(t, "expert_ffn")
		config["moe_layer_start_index"], config["moe_layer_end_index"] = rapid.Int64Range(0, 3).Draw(t, "first mixture"),
			rapid.SampledFrom([]int64{-1, -1, 5}).Draw(t, "last mixture")
		config["moe_layer_interval"], config["use_bias"] = rapid.SampledFrom([]int64{1, 1, 2}).Draw(t, "interval"),
			rapid.Bool().Draw(t, "use_bias")
		return []string{"q_proj", "v_proj", "o_proj"}
	},
	"hunyuan_v1_moe": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_experts"], config["moe_topk"] = count, rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["attention_bias"] = rapid.Bool().Draw(t, "attention_bias")
		return []string{"q_proj", "v_proj", "wg"}
	},
	"granitemoe":       drawGraniteExperts,
	"granitemoeshared": drawGraniteExperts,
	"granitemoehybrid": func(t *rapid.T, config map[string]any) []string {
		config["layer_types"] = slices.Repeat([]string{"attention"}, int(config["num_hidden_layers"].(int64)))
		return drawGraniteExperts(t, config)
	},
	"minimax_m2": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_local_experts"], config["num_experts_per_tok"] = count,
			rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "partial_rotary_factor")
		return []string{"q_proj", "v_proj", "o_proj"}
	},
	"lfm2_moe": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_experts"], config["num_experts_per_tok"] = count,
			rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		config["moe_intermediate_size"] = rapid.Int64Range(8, 100).Draw(t, "expert_ffn")
		config["use_expert_bias"], config["norm_topk_prob"] = rapid.Bool().Draw(t, "use_expert_bias"),
			rapid.Bool().Draw(t, "norm_topk_prob")
		layers := config["num_hidden_layers"].(int64)
		config["num_dense_layers"] = rapid.Int64Range(0, 3).Draw(t, "dense layers")
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"conv", "full_attention"}), int(layers),
			int(layers)).Draw(t, "layers")
		config["layer_types"] = kinds
		if slices.Contains(kinds, "conv") {
			return []string{"in_proj"}
		}
		return []string{"q_proj", "v_proj"}
	},
	"glm4_moe_lite": func(t *rapid.T, config map[string]any) []string {
		drawLatent(t, config)
		config["rope_interleave"], config["norm_topk_prob"] = rapid.Bool().Draw(t, "rope_interleave"),
			rapid.Bool().Draw(t, "norm_topk_prob")
		kinds := make([]string, config["num_hidden_layers"].(int64))
		dense := rapid.IntRange(0, len(kinds)).Draw(t, "dense layers")
		for i := range kinds {
			if kinds[i] = "sparse"; i < dense {
				kinds[i] = "dense"
			}
		}
		config["mlp_layer_types"] = kinds
		return []string{"kv_b_proj", "o_proj"}
	},
	"glm4_moe": func(t *rapid.T, config map[string]any) []string {
		config["first_k_dense_replace"], config["n_shared_experts"] = rapid.Int64Range(0, 4).Draw(t, "dense layers"),
			rapid.Int64Range(1, 2).Draw(t, "shared experts")
		config["n_routed_experts"], config["num_experts_per_tok"] = rapid.SampledFrom([]int64{4, 8, 12}).Draw(t,
			"experts"), rapid.Int64Range(1, 3).Draw(t, "experts_per_token")
		config["n_group"], config["topk_group"] = rapid.SampledFrom([]int64{1, 2}).Draw(t, "n_group"), 1
		config["moe_intermediate_size"] = rapid.Int64Range(8, 60).Draw(t, "moe_intermediate_size")
		config["norm_topk_prob"], config["use_qk_norm"] = rapid.Bool().Draw(t, "norm_topk_prob"),
			rapid.Bool().Draw(t, "use_qk_norm")
		config["attention_bias"] = rapid.Bool().Draw(t, "attention_bias")
		return []string{"q_proj", "v_proj", "o_proj"}
	},
	"qwen3_5_moe_text": drawMixedDeltaNets,
	"qwen3_next":       drawMixedDeltaNets,
	"mixtral": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 12).Draw(t, "experts")
		config["num_local_experts"], config["num_experts_per_tok"] = count,
			rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		return []string{"q_proj", "v_proj", "o_proj", "w1", "w2"}
	},
}

// drawLatent draws the sizes of multi-head latent attention and of the experts behind it.
func drawLatent(t *rapid.T, config map[string]any) {
	config["num_attention_heads"] = config["num_key_value_heads"]
	config["q_lora_rank"] = rapid.SampledFrom([]any{nil, 24}).Draw(t, "q_lora_rank")
	config["kv_lora_rank"], config["qk_rope_head_dim"] = rapid.Int64Range(4, 50).Draw(t, "kv_lora_rank"), 8
	config["qk_nope_head_dim"], config["v_head_dim"] = rapid.Int64Range(4, 40).Draw(t, "qk_nope_head_dim"),
		rapid.Int64Range(4, 40).Draw(t, "v_head_dim")
	drawRouted(t, config)
}

// drawRouted draws the experts of a mixture behind layers without one.
func drawRouted(t *rapid.T, config map[string]any) {
	config["first_k_dense_replace"], config["attention_bias"] = rapid.Int64Range(0, 4).Draw(t, "first_k_dense_replace"),
		rapid.Bool().Draw(t, "attention_bias")
	config["n_routed_experts"], config["num_experts_per_tok"] = rapid.SampledFrom([]int64{4, 8, 12}).Draw(t, "experts"),
		rapid.Int64Range(1, 4).Draw(t, "experts_per_token")
	config["n_shared_experts"], config["moe_intermediate_size"] = rapid.Int64Range(1, 2).Draw(t, "shared_experts"),
		rapid.Int64Range(8, 100).Draw(t, "expert_ffn")
}

// drawGraniteExperts draws Granite's mixtures.
func drawGraniteExperts(t *rapid.T, config map[string]any) []string {
	delete(config, "head_dim")
	count := rapid.Int64Range(1, 12).Draw(t, "experts")
	config["num_local_experts"], config["num_experts_per_tok"] = count,
		rapid.Int64Range(1, count).Draw(t, "experts_per_token")
	if config["model_type"] != "granitemoe" {
		config["shared_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "shared_expert")
	}
	return []string{"q_proj", "v_proj", "o_proj"}
}

// drawMixedDeltaNets draws the keys of decoders with gated delta nets and mixtures of experts.
func drawMixedDeltaNets(t *rapid.T, config map[string]any) []string {
	drawQwenExperts(t, config)
	drawDeltaNets(t, config)
	config["shared_expert_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "shared_expert")
	return []string{"up_proj", "down_proj"}
}

// drawQwenExperts draws the keys of both mixtures of Qwen, some with ordinary MLPs between.
func drawQwenExperts(t *rapid.T, config map[string]any) {
	count := rapid.Int64Range(1, 12).Draw(t, "experts")
	config["num_experts"], config["num_experts_per_tok"] = count,
		rapid.Int64Range(1, count).Draw(t, "experts_per_token")
	config["moe_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "expert_ffn")
	config["norm_topk_prob"] = rapid.Bool().Draw(t, "norm_topk_prob")
	if rapid.Bool().Draw(t, "mixed") {
		config["decoder_sparse_step"] = rapid.Int64Range(1, 3).Draw(t, "decoder_sparse_step")
		config["mlp_only_layers"] = []int64{0}
	}
}

// TestCompiledMixtureRefused: what torch.compile makes of routing that depends on the data was not traced.
func TestCompiledMixtureRefused(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "mixtral"}`)},
		Training: Training{MicroBatch: 1, SequenceLength: 64, Compile: &Compile{Model: true}}}
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/compile") {
		t.Errorf("got %v", err)
	}
}

// TestPublishedMXFP4 reads the config.json that gpt-oss is published with, whose weights are dequantized to be trained.
func TestPublishedMXFP4(t *testing.T) {
	const sizes = `"model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "num_local_experts": 4, "vocab_size": 500`
	estimate := func(more string) (*Result, error) {
		return Estimate(Input{Job: Job{Model: Model{HFConfig: []byte("{" + sizes + more + "}")},
			Training: Training{MicroBatch: 1, SequenceLength: 64}}})
	}
	plain, err := estimate("")
	if err != nil {
		t.Fatal(err)
	}
	published, err := estimate(`, "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if published.Peak.ReservedBytes != plain.Peak.ReservedBytes ||
		published.Peak.AllocatedBytes != plain.Peak.AllocatedBytes {
		t.Errorf("peak %+v, without quantization_config %+v", published.Peak, plain.Peak)
	}
	noted := func(r *Result) bool {
		return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Code == "mxfp4-dequantized" })
	}
	if !noted(published) || noted(plain) {
		t.Errorf("notes %v, without quantization_config %v", published.Notes, plain.Notes)
	}
	if _, err := estimate(`, "quantization_config": {"quant_method": "fp8"}`); err == nil {
		t.Error("weights in fp8 are accepted")
	}
}

// mixtureOfManyJob draws jobs all of which have mixtures of so many experts that the middle ones are not recorded.
func mixtureOfManyJob(t *rapid.T, draw func(*rapid.T) Job) Job {
	job := draw(t)
	family := rapid.SampledFrom([]string{"qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "deepseek_v3",
		"glm4_moe", "mixtral", "qwen3_5_moe_text", "qwen3_next", "glm4_moe_lite", "dots1",
		"ernie4_5_moe", "hunyuan_v1_moe", "granitemoe", "granitemoeshared", "granitemoehybrid", "minimax_m2",
		"lfm2_moe"}).Draw(t, "mixture")
	heads := rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "heads of the mixture")
	config := map[string]any{"model_type": family, "num_hidden_layers": rapid.Int64Range(1, 9).Draw(t,
		"layers of the mixture"),
		"num_attention_heads": heads, "num_key_value_heads": heads, "hidden_size": 64, "head_dim": 64 / heads,
		"intermediate_size": 96, "vocab_size": 300,
		"use_cache": rapid.Bool().Draw(t, "cache of the mixture")}
	modules := mixtures[family](t, config)
	for _, key := range []string{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"} {
		if config[key] != nil {
			config[key] = rapid.SampledFrom([]int64{6, 7, 8, 12, 16}).Draw(t, "many experts") / 2 * 2
			chosen := "num_experts_per_tok"
			for _, other := range []string{"moe_k", "moe_topk"} {
				if config[other] != nil {
					chosen = other
				}
			}
			config[chosen] = rapid.Int64Range(1, 3).Draw(t, "chosen experts")
		}
	}
	job.Model = Model{HFConfig: marshal(t, config)}
	job.Training.SequenceLength = rapid.Int64Range(1, 700).Draw(t, "tokens of the mixture")
	if job.Training.LoRA != nil {
		job.Training.LoRA = onExperts(randomLoRA(t, modules...))
	}
	return job
}

// onExperts makes of adapters on a mixture what peft accepts: both layers that are in one tensor, no dropout, no DoRA.
func onExperts(l *LoRA) *LoRA {
	if l == nil {
		return nil
	}
	l.Dropout, l.DoRA = nil, false
	for _, both := range [][2]string{{"gate_proj", "up_proj"}, {"up_proj", "gate_proj"}, {"w1", "w3"}, {"w3", "w1"}} {
		if slices.Contains(l.TargetModules, both[0]) && !slices.Contains(l.TargetModules, both[1]) {
			l.TargetModules = append(l.TargetModules, both[1])
		}
	}
	return l
}

// attendedAlone leaves adapters to attention, or leaves them out, where a mixture has no layer with experts: what peft
// makes of the names of experts it finds nowhere then, and stops.
func attendedAlone(job *Job, modules []string) {
	if job.Training.LoRA == nil || !targetsNothing(job) {
		return
	}
	experts := []string{"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
	rest := slices.DeleteFunc(slices.Clone(modules), func(m string) bool { return slices.Contains(experts, m) })
	if job.Training.LoRA.TargetModules = rest; len(rest) == 0 || targetsNothing(job) {
		job.Training.LoRA = nil
	}
}

// targetsNothing says that a module which adapters are for is nowhere in the model.
func targetsNothing(job *Job) bool {
	_, err := resolve.Resolve(&Input{Job: *job})
	wrong, ok := errors.AsType[*invalid.Error](err)
	return ok && slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool {
		return f.Pointer == "/training/lora/target_modules"
	})
}

// validMixture is mixtureOfManyJob on one GPU or sharded, of those that are understood.
func validMixture(t *rapid.T) Job {
	draw := randomJob
	if rapid.Bool().Draw(t, "sharded") {
		draw = shardedJob
	}
	job := mixtureOfManyJob(t, draw)
	if _, err := resolve.Resolve(&Input{Job: job}); err != nil {
		t.Skip(err)
	}
	return job
}

// TestFoldedEqualsPlainMixtures compares the two engines for such jobs, on one GPU and sharded.
func TestFoldedEqualsPlainMixtures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { foldedEqualsPlain(t, onDrawnGPU(t, validMixture(t))) })
}

// TestLedgerEqualsReplayMixtures holds the ledger of such jobs against the plain replay.
func TestLedgerEqualsReplayMixtures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { ledgerEqualsReplay(t, Input{Job: validMixture(t)}, true) })
}

// TestMixturesAnswerAlike compares whole answers with those for which every expert is recorded.
func TestMixturesAnswerAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: validMixture(t), Timeline: true, Tensors: true}
		folded, err := Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		in.EveryExpert = true
		whole, err := Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Result{whole, folded} { // of tensors that take the same together any comes first
			slices.SortStableFunc(r.Tensors, func(a, b Tensor) int {
				return cmp.Or(cmp.Compare(b.Bytes*b.Count, a.Bytes*a.Count), cmp.Compare(a.Text, b.Text))
			})
		}
		if diff := diff.Diff(whole, folded); diff != "" {
			t.Fatalf("experts that are repeated change the answer (-every one +repeated):\n%.3000s", diff)
		}
	})
}
