package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/reliability/process"
)

func read(t testing.TB, config string) (arch.Architecture, error) {
	t.Helper()
	var errs invalid.List
	a := FromHF(json.RawMessage(config), "/model/hf_config", &errs)
	return a, errs.Err()
}

// TestClassDefaults reads files that say only what they are: the rest comes from the class.
func TestClassDefaults(t *testing.T) {
	for _, c := range []struct {
		config     string
		parameters int64
	}{
		{`{"model_type": "gpt2"}`, 124_439_808},
		{`{"model_type": "bert"}`, 109_514_298},
		{`{"model_type": "roberta"}`, 124_696_665},
		{`{"model_type": "roberta", "architectures": ["RobertaForSequenceClassification"], "max_position_embeddings": 514, "type_vocab_size": 1}`, 124_647_170},
		{`{"model_type": "distilbert"}`, 66_985_530},
		{`{"model_type": "distilbert", "architectures": ["DistilBertForQuestionAnswering"]}`, 66_364_418},
		{`{"model_type": "bert", "architectures": ["BertForTokenClassification"], "num_labels": 9}`, 108_898_569},
		{`{"model_type": "deberta-v2"}`, 879_999_588},
		{`{"model_type": "deberta-v2", "architectures": ["DebertaV2ForSequenceClassification"], "relative_attention": true, "pos_att_type": "p2c|c2p", "share_att_key": true,
			"norm_rel_ebd": "layer_norm", "position_buckets": 256, "position_biased_input": false, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 12}`, 184_423_682},
		{`{"model_type": "deberta-v2", "architectures": ["DebertaV2ForQuestionAnswering"], "relative_attention": true, "pos_att_type": ["c2p"], "type_vocab_size": 2}`, 935_746_562},
		{`{"model_type": "modernbert"}`, 149_655_232},
		{`{"model_type": "modernbert", "architectures": ["ModernBertForTokenClassification"]}`, 149_606_402},
		{`{"model_type": "modernbert", "architectures": ["ModernBertForSequenceClassification"], "classifier_bias": true, "norm_bias": true, "attention_bias": true, "mlp_bias": true}`, 149_777_666},
		{`{"model_type": "distilbert", "architectures": ["DistilBertForSequenceClassification"]}`, 66_955_010},
		{`{"model_type": "bert", "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}`, 109_484_547},
		{`{"model_type": "bert", "architectures": ["BertForMaskedLM"], "tie_word_embeddings": false}`, 132_955_194},
		{`{"model_type": "gemma"}`, 8_537_680_896},
		{`{"model_type": "olmo"}`, 6_888_095_744},
		{`{"model_type": "olmo2", "vocab_size": 100352}`, 7_298_617_344},
		{`{"model_type": "granite"}`, 6_738_415_616},
		{`{"model_type": "cohere"}`, 34_980_831_232},
		{`{"model_type": "cohere2"}`, 34_980_831_232},
		{`{"model_type": "internlm2", "vocab_size": 92544, "intermediate_size": 14336, "num_key_value_heads": 8, "bias": false}`, 7_737_708_544},
		{`{"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}}`, 3_880_263_168},
		{`{"model_type": "gemma2"}`, 2_614_341_888},
		{`{"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 262144}`, 999_885_952},
		{`{"model_type": "llama"}`, 6_738_415_616},
		{`{"model_type": "granitemoehybrid", "num_local_experts": 0, "num_hidden_layers": 2, "layer_types": ["attention", "attention"], "shared_intermediate_size": 8192}`, 597_708_800},
		{`{"model_type": "glm"}`, 9_399_951_360},
		{`{"model_type": "glm4"}`, 9_400_279_040},
		{`{"model_type": "olmo3", "vocab_size": 100352}`, 7_298_617_344},
		{`{"model_type": "seed_oss", "hidden_size": 5120}`, 36_151_104_512},
		{`{"model_type": "arcee", "num_hidden_layers": 36, "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 128004}`, 4_619_184_640},
		{`{"model_type": "gptj"}`, 6_050_882_784},
		{`{"model_type": "stablelm"}`, 2_795_443_200},
		{`{"model_type": "stablelm", "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 100352, "qk_layernorm": true, "use_parallel_residual": true}`, 12_143_185_920},
		{`{"model_type": "t5"}`, 60_506_624},
		{`{"model_type": "albert", "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}`, 11_221_680},
		{`{"model_type": "lfm2"}`, 2_705_497_600},
		{`{"model_type": "qwen3_5_text"}`, 8_953_803_264},
		{`{"model_type": "qwen3_5", "text_config": {}}`, 8_953_803_264},
		{`{"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": {"model_type": "qwen3_5_moe_text"}, "vision_config": {}}`, 35_114_261_360},
		{`{"model_type": "mistral3", "text_config": {"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "head_dim": 128, "vocab_size": 131072, "sliding_window": null}, "vision_config": {"head_dim": 64, "image_size": 1540, "patch_size": 14}}`, 24_011_361_280},
		{`{"model_type": "gemma4", "text_config": {}, "vision_config": {}, "audio_config": {}}`, 5_554_675_488},
		{`{"model_type": "qwen3_next"}`, 79_674_391_296},
		{`{"model_type": "glm4_moe_lite"}`, 29_943_390_976},
		{`{"model_type": "ernie4_5_moe"}`, 21_825_437_888},
		{`{"model_type": "hunyuan_v1_moe", "num_experts": 8, "moe_topk": 2}`, 43_488_907_264},
		{`{"model_type": "granitemoe"}`, 37_039_116_288},
		{`{"model_type": "granitemoeshared"}`, 37_039_116_288},
		{`{"model_type": "minimax_m2"}`, 228_689_748_992},
		{`{"model_type": "apertus"}`, 6_979_596_352},
		{`{"model_type": "exaone4"}`, 9_429_069_824},
		{`{"model_type": "hunyuan_v1_dense"}`, 8_859_684_864},
		{`{"model_type": "gemma4_text"}`, 5_077_177_856},
		{`{"model_type": "bart"}`, 406_291_456},
		{`{"model_type": "mbart", "vocab_size": 250027}`, 610_851_840},
		{`{"model_type": "mt5"}`, 300_176_768},
		{`{"model_type": "vit", "num_labels": 1000}`, 86_567_656},
		{`{"model_type": "whisper"}`, 37_760_640},
		{`{"model_type": "clip"}`, 151_277_313},
		{`{"model_type": "whisper", "tie_word_embeddings": false, "decoder_ffn_dim": 1000, "decoder_attention_heads": 12}`, 56_028_064},
		{`{"model_type": "mistral"}`, 7_241_732_096},
		{`{"model_type": "smollm3"}`, 3_075_098_624},
		{`{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}`, 494_032_768},
		{`{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": true}`, 596_049_920},
	} {
		a, err := read(t, c.config)
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if got := a.ParameterCount(); got != c.parameters {
			t.Errorf("%s: %d parameters, want %d", c.config, got, c.parameters)
		}
	}
}

// TestNulls tells a null from an absent key.
func TestNulls(t *testing.T) {
	a, err := read(t, `{"model_type": "mistral", "num_key_value_heads": null, "sliding_window": null, "head_dim": null}`)
	if err != nil {
		t.Fatal(err)
	}
	if a.KVHeads != 32 || a.SlidingWindow != 0 || a.HeadDim != 128 {
		t.Errorf("null means derived: %d key/value heads, window %d, head size %d", a.KVHeads, a.SlidingWindow,
			a.HeadDim)
	}
}

// TestKeysThatDoNotMatter ignores them, whatever they hold.
func TestKeysThatDoNotMatter(t *testing.T) {
	if _, err := read(t, `{"model_type": "llama", "rope_scaling": {"factor": []}, "torch_dtype": 7, "bos_token_id": "x", "anything": null}`); err != nil {
		t.Error(err)
	}
}

// TestHeads refuses a class that is not modelled of the family.
func TestHeads(t *testing.T) {
	_, err := read(t, `{"model_type": "llama", "architectures": ["LlamaForQuestionAnswering"]}`)
	if err == nil || !strings.Contains(err.Error(), "/model/hf_config/architectures") {
		t.Errorf("got %v", err)
	}
}

// TestDimensions goes through the nearest block and marks what is not a described family.
func TestDimensions(t *testing.T) {
	var errs invalid.List
	a := FromDimensions(&arch.Dimensions{Layers: 2, Hidden: 64, Heads: 4, Vocabulary: 100, FFN: 128}, "/model/dimensions",
		&errs)
	if err := errs.Err(); err != nil || a.Described != &decoders.LlamaFamily || !a.Generic {
		t.Errorf("%v, %+v", err, a)
	}
	FromDimensions(&arch.Dimensions{Layers: 2, Hidden: 64, Heads: 4, Vocabulary: 100, Position: "relative", NormsPerLayer: 3,
		Experts: 2, ExpertsPerToken: 3}, "/model/dimensions", &errs)
	if err := errs.Err(); err == nil || !strings.Contains(err.Error(), "/position") ||
		!strings.Contains(err.Error(), "takes 3 experts") {
		t.Errorf("both have to be named, got %v", err)
	}
}

// TestEncoderDimensions goes through BERT's block, which is described for BERT alone.
func TestEncoderDimensions(t *testing.T) {
	causal := false
	for _, c := range []struct {
		family, position string
		generic          bool
		parameters       int64
	}{{"bert", "", false, 109_514_298}, {"", "post", true, 109_512_762}, {"bert", "pre", true, 109_515_834}} {
		var errs invalid.List
		a := FromDimensions(&arch.Dimensions{Family: c.family, Layers: 12, Hidden: 768, Heads: 12, Vocabulary: 30522,
			MaxPositions: 512, Causal: &causal, NormPosition: c.position}, "/model/dimensions", &errs)
		if err := errs.Err(); err != nil || a.Generic != c.generic || a.ParameterCount() != c.parameters {
			t.Errorf("%+v: %v, %d parameters, generic %v", c, err, a.ParameterCount(), a.Generic)
		}
	}
}

// FuzzFromHF throws bytes at the reader: it answers with an architecture that can be counted or with errors.
func FuzzFromHF(f *testing.F) {
	for _, s := range append(append(mixtureSeeds, encoderSeeds...),
		[]string{`{"model_type":"gpt2"}`,
			`{"model_type":"bert","architectures":["BertModel"],"num_labels":0,"id2label":[]}`,
			`{"model_type":"bert","architectures":["BertForSequenceClassification"],"classifier_dropout":2,"type_vocab_size":-1}`, `{"model_type":"llama","hidden_size":1e300}`, `{"model_type":"qwen3","head_dim":-1}`,
			`[]`, `{"model_type":{}}`, `{"model_type":"mistral","num_attention_heads":0.5,"tie_word_embeddings":"yes"}`,
			`{"model_type":"lla`,
			`{"model_type":"gemma2","layer_types":[null],"num_hidden_layers":1}`,
			`{"model_type":"gemma3","text_config":{"text_config":[]}}`,
			`{"model_type":"qwen2","use_sliding_window":true,"max_window_layers":-1}`,
			`{"model_type":"olmo","clip_qkv":{}}`, `{"model_type":"mixtral","num_local_experts":3}`,
			`{"model_type":"qwen3_moe","mlp_only_layers":[1,"x"],"decoder_sparse_step":2}`,
			`{"model_type":"qwen2_moe","mlp_only_layers":[-1],"num_experts":1000}`,
			`{"model_type":"mpt","attn_config":{"clip_qkv":true,"attn_pdrop":-1}}`,
			`{"model_type":"falcon","new_decoder_architecture":true,"num_kv_heads":0,"alibi":1}`,
			`{"model_type":"gpt_bigcode","multi_query":false,"n_head":0}`,
			`{"model_type":"bloom","n_embed":0,"pretraining_tp":-2}`,
			`{"model_type":"opt","word_embed_proj_dim":0}`}...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, config string) {
		var a arch.Architecture
		var err error
		if dear := process.Reading(len(config), func() { a, err = read(t, config) }); dear != nil {
			t.Error(dear)
		}
		if err != nil {
			return
		}
		if n := a.ParameterCount(); n <= 0 || n > 2*arch.MaxParameters {
			t.Errorf("%d parameters from %q", n, config)
		}
	})
}

// TestLayerTypes finds the shortest pattern of the layers with a window.
func TestLayerTypes(t *testing.T) {
	for _, c := range []struct {
		config string
		unit   int64
		slides []bool // the first layers
	}{
		{`{"model_type": "gemma2"}`, 2, []bool{true, false, true}},
		{`{"model_type": "gemma3_text"}`, 6, []bool{true, true, true, true, true, false, true}},
		{`{"model_type": "gemma3_text", "sliding_window_pattern": 1}`, 1, []bool{false, false}},
		{`{"model_type": "qwen2"}`, 1, []bool{false, false}},
		{`{"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 1}`, 32, []bool{false, true, true}},
		{`{"model_type": "qwen3", "use_sliding_window": true, "max_window_layers": 0}`, 1, []bool{true, true}},
		{`{"model_type": "smollm3", "use_sliding_window": true, "sliding_window": 8}`, 4,
			[]bool{false, false, false, true}},
		{`{"model_type": "cohere2"}`, 4, []bool{true, true, true, false}},
		{`{"model_type": "gemma2", "num_hidden_layers": 3, "layer_types": ["full_attention", "full_attention", "sliding_attention"]}`, 3, []bool{false, false, true}},
	} {
		a, err := read(t, c.config)
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if got := a.UnitLayers(); got != c.unit {
			t.Errorf("%s: a unit is %d layers, want %d", c.config, got, c.unit)
		}
		for i, want := range c.slides {
			if got := a.Slides(int64(i)); got != want {
				t.Errorf("%s: layer %d slides: %t", c.config, i, got)
			}
		}
	}
	for _, config := range []string{
		`{"model_type": "gemma2", "layer_types": "full_attention"}`,
		`{"model_type": "gemma2", "layer_types": ["full_attention"]}`,
		`{"model_type": "gemma2", "num_hidden_layers": 1, "layer_types": ["chunked_attention"]}`,
		`{"model_type": "gemma2", "sliding_window": null}`,
		`{"model_type": "qwen2", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}`,
		`{"model_type": "gemma3"}`, `{"model_type": "gemma3", "text_config": {}, "vision_config": {}}`,
		`{"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {}}`,
		`{"model_type": "gemma2", "attn_logit_softcapping": "50"}`,
		`{"model_type": "gemma3_text", "use_bidirectional_attention": true}`,
	} {
		if _, err := read(t, config); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
}
