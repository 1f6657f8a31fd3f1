package estimator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainMixture is a mixture of experts of transformers 5 as a list of what its layers have, by whole names: linear
// layers with their widths, and the tensors of experts.
type plainMixture struct {
	config  map[string]any
	linears map[string][2]int64 // in and out
	routers map[string][2]int64 // of modules that are no linear layers: hidden and experts
	experts map[string][3]int64 // experts, hidden, ffn
	wrapped []string            // modules that are no linear layers and have one
	names   []string            // of transformers 4's linear layers: router, gate, up, down; none where peft knows none
}

// add lists linear layers of one prefix, called names, from in to out.
func (m *plainMixture) add(prefix string, in, out int64, names ...string) {
	for _, name := range names {
		m.linears[prefix+name] = [2]int64{in, out}
	}
}

var (
	qwenLayers    = []string{"gate", "gate_proj", "up_proj", "down_proj"}
	mixtralLayers = []string{"gate", "w1", "w3", "w2"}
)

// drawPlain draws a mixture of the given type.
func drawPlain(t *rapid.T, family string) *plainMixture {
	one := func(name string, from ...int64) int64 { return rapid.SampledFrom(from).Draw(t, name) }
	hidden, ffn, dense := one("hidden", 64, 96), one("ffn", 24, 40), one("dense ffn", 72, 100)
	heads, kv, dim := int64(4), one("kv", 1, 2, 4), one("dim", 16, 24)
	layers, count, topK := one("layers", 1, 2, 7), one("experts", 4, 8, 12), one("chosen", 1, 2)
	m := &plainMixture{linears: map[string][2]int64{}, routers: map[string][2]int64{}, experts: map[string][3]int64{},
		names: qwenLayers}
	c := map[string]any{"model_type": family, "hidden_size": hidden, "intermediate_size": dense, "num_hidden_layers": layers,
		"num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "vocab_size": 200,
		"num_experts_per_tok": topK, "moe_intermediate_size": ffn}
	m.config = c
	first, block, shared := int64(0), "mlp.", ""
	switch family {
	case "mixtral", "minimax_m2":
		c["num_local_experts"], ffn, m.names = count, dense, mixtralLayers
		c["rotary_dim"] = 8
	case "qwen3_moe":
		c["num_experts"], c["mlp_only_layers"] = count, []int64{0}
		first = 1
	case "qwen2_moe":
		c["num_experts"], c["shared_expert_intermediate_size"], m.names = count, 2*ffn, nil
		dim, shared = hidden/heads, "shared_expert."
		delete(c, "head_dim")
	case "olmoe":
		c["num_experts"], dim, ffn = count, hidden/heads, dense
		delete(c, "head_dim")
	case "dots1", "glm4_moe":
		c["n_routed_experts"], c["n_shared_experts"], c["first_k_dense_replace"] = count, 2, 1
		c["n_group"], c["topk_group"] = 1, 1
		first, shared = 1, "shared_experts."
	case "deepseek_v3", "deepseek_v2":
		c["n_routed_experts"], c["n_shared_experts"], c["first_k_dense_replace"] = count, 2, 1
		c["n_group"], c["topk_group"], c["topk_method"], c["num_key_value_heads"] = 1, 1, "greedy", heads
		c["q_lora_rank"], c["kv_lora_rank"] = 40, 24
		c["qk_rope_head_dim"], c["qk_nope_head_dim"], c["v_head_dim"] = 8, 16, 12
		delete(c, "head_dim")
		first, shared = 1, "shared_experts."
	case "ernie4_5_moe":
		c["moe_num_experts"], c["moe_k"], c["moe_num_shared_experts"], c["moe_layer_start_index"] = count, topK, 2, 1
		first, shared = 1, "shared_experts."
	case "hunyuan_v1_moe":
		c["num_experts"], c["moe_topk"], ffn, shared = count, topK, dense, "shared_mlp."
	case "granitemoeshared":
		c["num_local_experts"], c["shared_intermediate_size"], m.names, dim = count, 2*ffn, nil, hidden/heads
		delete(c, "head_dim")
	}
	for i := range layers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		if strings.HasPrefix(family, "deepseek") {
			m.add(layer+"self_attn.", hidden, 40, "q_a_proj")
			m.add(layer+"self_attn.", 40, heads*24, "q_b_proj")
			m.add(layer+"self_attn.", hidden, 24+8, "kv_a_proj_with_mqa")
			m.add(layer+"self_attn.", 24, heads*28, "kv_b_proj")
			m.add(layer+"self_attn.", heads*12, hidden, "o_proj")
		} else {
			m.add(layer+"self_attn.", hidden, heads*dim, "q_proj")
			m.add(layer+"self_attn.", hidden, kv*dim, "k_proj", "v_proj")
			m.add(layer+"self_attn.", heads*dim, hidden, "o_proj")
		}
		if i < first {
			m.add(layer+block, hidden, dense, "gate_proj", "up_proj")
			m.add(layer+block, dense, hidden, "down_proj")
			continue
		}
		switch family {
		case "granitemoeshared":
			m.add(layer+"shared_mlp.", hidden, 4*ffn, "input_linear")
			m.add(layer+"shared_mlp.", 2*ffn, hidden, "output_linear")
			continue // whose own experts nobody adapts
		case "hunyuan_v1_moe":
			m.add(layer+block+"gate.", hidden, count, "wg")
			m.wrapped = append(m.wrapped, layer+block+"gate")
		case "qwen2_moe":
			m.add(layer+block, hidden, 1, "shared_expert_gate")
			m.routers[layer+block+"gate"] = [2]int64{hidden, count}
		default:
			m.routers[layer+block+"gate"] = [2]int64{hidden, count}
		}
		width := 2 * ffn
		if family == "hunyuan_v1_moe" {
			width = ffn
		}
		if shared != "" {
			m.add(layer+block+shared, hidden, width, "gate_proj", "up_proj")
			m.add(layer+block+shared, width, hidden, "down_proj")
		}
		m.experts[layer+block+"experts"] = [3]int64{count, hidden, ffn}
	}
	return m
}

// trained is what a release of peft trains with adapters of a rank on targets, as its Python reads; ok is false where
// it stops.
func (m *plainMixture) trained(targets []string, rank int64, converts, all, lists bool) (sum int64, ok bool) {
	everything := slices.Contains(targets, "all-linear")
	if everything && lists {
		targets, everything = nil, false
		for name := range m.linears {
			targets = append(targets, name[strings.LastIndex(name, ".")+1:])
		}
	}
	if m.names == nil {
		converts = false
	}
	ends := func(name string, in []string) bool {
		return slices.ContainsFunc(in, func(target string) bool { return strings.HasSuffix(name, "."+target) })
	}
	tensors := map[string]bool{}
	if converts {
		if everything && !all {
			return 0, false
		}
		if everything {
			targets = slices.Clone(m.names)
			for name := range m.linears {
				targets = append(targets, name[strings.LastIndex(name, ".")+1:])
			}
		}
		var left []string
		found := map[string]bool{}
		for _, target := range targets {
			if i := slices.Index(m.names, target); i < 0 {
				left = append(left, target)
			} else {
				tensors[[]string{"gate.weight", "gate_up_proj", "gate_up_proj", "down_proj"}[i]] = true
				found[target] = true
			}
		}
		if found[m.names[1]] != found[m.names[2]] {
			return 0, false
		}
		targets, everything = left, false
	}
	matched := 0
	for name, w := range m.linears {
		if everything || ends(name, targets) {
			sum += rank * (w[0] + w[1])
			matched++
		}
	}
	for _, name := range m.wrapped {
		if !everything && ends(name, targets) {
			return 0, false // a module around a linear layer, and none itself
		}
	}
	for name, w := range m.routers {
		if !everything && ends(name, targets) {
			return 0, false // no linear layer
		}
		if tensors["gate.weight"] {
			sum += rank * (w[0] + w[1])
			matched++
		}
	}
	for _, e := range m.experts {
		if tensors["gate_up_proj"] {
			sum += e[0] * 2 * rank * (e[1] + 2*e[2])
			matched++
		}
		if tensors["down_proj"] {
			sum += e[0] * rank * (e[2] + e[1])
			matched++
		}
	}
	return sum, matched > 0
}

// TestMixturesTrainWhatPEFTAdapts holds the trained parameters of random mixtures, targets and releases of peft against
// a plain sum.
func TestMixturesTrainWhatPEFTAdapts(t *testing.T) {
	t.Parallel()
	families := []string{"mixtral", "minimax_m2", "qwen3_moe", "qwen2_moe", "olmoe", "dots1", "glm4_moe", "deepseek_v2",
		"deepseek_v3", "ernie4_5_moe", "hunyuan_v1_moe", "granitemoeshared"}
	names := []string{"q_proj", "v_proj", "o_proj", "kv_b_proj", "gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3",
		"input_linear", "wg", "shared_expert_gate"}
	rapid.Check(t, func(t *rapid.T) {
		m := drawPlain(t, rapid.SampledFrom(families).Draw(t, "family"))
		targets := rapid.OneOf(rapid.Just([]string{"all-linear"}),
			rapid.Just([]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}),
			rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID)).Draw(t, "targets")
		peft := rapid.SampledFrom([]string{"0.18.1", "0.19.1", "0.20.0", "0.21.2", ""}).Draw(t, "peft")
		framework := rapid.SampledFrom([]string{"", "trl", "axolotl", "llama-factory", "ms-swift"}).Draw(t, "framework")
		rank := rapid.Int64Range(1, 9).Draw(t, "rank")
		versions := map[string]string{"transformers": "5.23.0"}
		if peft != "" {
			versions["peft"] = peft
		}
		job := Job{Model: Model{HFConfig: marshal(t, m.config)}, Training: Training{MicroBatch: 1, SequenceLength: 16,
			Precision: "bf16", Framework: framework, Versions: versions,
			LoRA: &LoRA{Rank: rank, TargetModules: targets, Dropout: new(0.0)}}} // peft stops at ms-swift's own
		want, trains := m.trained(targets, rank, peft != "0.18.1", peft != "0.19.1",
			slices.Contains([]string{"axolotl", "llama-factory", "ms-swift"}, framework))
		res, err := Estimate(Input{Job: job})
		switch {
		case err == nil && !trains:
			t.Fatalf("peft %s stops at %v, and %d are trained here", peft, targets, res.Model.TrainableParameters)
		case err != nil && trains:
			t.Fatalf("peft %s trains %d with %v: %v", peft, want, targets, err)
		case err == nil && res.Model.TrainableParameters != want:
			t.Fatalf("peft %s trains %d with %v, not %d\n%v", peft, want, targets, res.Model.TrainableParameters,
				slices.Sorted(maps.Keys(m.linears)))
		}
	})
}
