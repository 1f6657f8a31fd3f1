package estimator

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/model"
)

// twoStacks draw what the configurations of models with two stacks, or with pictures for inputs, say besides model_type
// and vocab_size.
var twoStacks = map[string]func(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64,
	dropout float64) map[string]any{
	"clip": func(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64,
		dropout float64) map[string]any {
		tower := func(name string, heads int64) map[string]any {
			return map[string]any{"num_hidden_layers": rapid.Int64Range(1, 5).Draw(t, name+" layers"),
				"num_attention_heads": heads, "hidden_size": heads * dim,
				"intermediate_size": rapid.Int64Range(8, 900).Draw(t, name+" ffn"), "attention_dropout": dropout,
				"hidden_act": rapid.SampledFrom([]string{"quick_gelu", "gelu"}).Draw(t, name+" act")}
		}
		text, vision := tower("text", heads), tower("vision", 2*heads)
		text["vocab_size"], text["max_position_embeddings"], text["eos_token_id"] = config["vocab_size"], 200,
			rapid.Int64Range(1, 3).Draw(t, "end")
		vision["image_size"], vision["patch_size"] = rapid.Int64Range(16, 200).Draw(t, "image"),
			rapid.Int64Range(6, 16).Draw(t, "patch")
		job.Training.SequenceLength = min(job.Training.SequenceLength, 200)
		return map[string]any{"model_type": "clip", "text_config": text, "vision_config": vision,
			"projection_dim": rapid.Int64Range(1, 300).Draw(t, "projection")}
	},
	"t5": func(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64, dropout float64) map[string]any {
		job.Training.TargetSequenceLength = rapid.Int64Range(0, 700).Draw(t, "target")
		if c := job.Training.GradientCheckpointing; c != nil {
			c.Offload = false
		}
		config["num_layers"], config["num_decoder_layers"] = layers, rapid.Int64Range(1, 5).Draw(t, "decoder layers")
		config["d_model"], config["d_kv"], config["num_heads"] = rapid.Int64Range(3, 500).Draw(t, "d_model"), dim, heads
		config["d_ff"], config["dropout_rate"] = rapid.Int64Range(8, 900).Draw(t, "ffn"), dropout
		config["feed_forward_proj"] = rapid.SampledFrom([]string{"relu", "gated-gelu", "gated-silu"}).Draw(t,
			"feed_forward_proj")
		config["tie_word_embeddings"], config["use_cache"] = rapid.Bool().Draw(t, "tied"),
			rapid.Bool().Draw(t, "use_cache")
		return config
	},
	"whisper": func(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64,
		dropout float64) map[string]any {
		job.Training.SequenceLength = min(job.Training.SequenceLength, 448)
		config["num_mel_bins"], config["max_source_positions"] = rapid.Int64Range(1, 128).Draw(t, "bins"),
			rapid.Int64Range(1, 400).Draw(t, "frames")
		return randomStacks(t, job, config, layers, heads, dim, dropout)
	},
	"bart":  randomStacks,
	"mbart": randomStacks,
	"vit": func(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64, dropout float64) map[string]any {
		delete(config, "vocab_size")
		config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"] = layers+5, heads, heads*dim
		config["intermediate_size"], config["hidden_act"] = rapid.Int64Range(8, 900).Draw(t, "ffn"), "gelu"
		config["hidden_dropout_prob"], config["attention_probs_dropout_prob"] = dropout, dropout
		config["image_size"], config["patch_size"] = rapid.Int64Range(16, 200).Draw(t, "image"),
			rapid.Int64Range(6, 16).Draw(t, "patch")
		config["num_channels"], config["qkv_bias"] = rapid.Int64Range(1, 4).Draw(t, "channels"),
			rapid.Bool().Draw(t, "qkv_bias")
		config["num_labels"] = rapid.Int64Range(1, 2000).Draw(t, "labels")
		return config
	},
}

// randomStacks draws what Whisper and BART say alike of an encoder and a decoder.
func randomStacks(t *rapid.T, job *Job, config map[string]any, layers, heads, dim int64,
	dropout float64) map[string]any {
	job.Training.TargetSequenceLength = rapid.Int64Range(0, 300).Draw(t, "target")
	if c := job.Training.GradientCheckpointing; c != nil {
		c.Offload = false
	}
	if config["model_type"] != "whisper" { // whose inputs decide their length
		config["max_position_embeddings"] = 1500
	}
	config["encoder_layers"], config["decoder_layers"] = layers, rapid.Int64Range(1, 5).Draw(t, "decoder layers")
	config["d_model"], config["encoder_attention_heads"], config["decoder_attention_heads"] = 2*heads*dim, heads, 2*heads
	config["encoder_ffn_dim"], config["decoder_ffn_dim"] = rapid.Int64Range(8, 900).Draw(t, "ffn"),
		rapid.Int64Range(8, 900).Draw(t, "decoder ffn")
	config["dropout"], config["attention_dropout"], config["activation_dropout"] = dropout, dropout, dropout
	config["tie_word_embeddings"], config["use_cache"] = rapid.Bool().Draw(t, "tied"), rapid.Bool().Draw(t, "use_cache")
	return config
}

// TestPictureTokens gives a sequence length to a model whose inputs decide it.
func TestPictureTokens(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "vit"}`)}, Training: Training{MicroBatch: 8}}
	plain := mustEstimate(t, Input{Job: job})
	job.Training.SequenceLength = 5000
	if given := mustEstimate(t, Input{Job: job}); given.Peak.DeviceBytes != plain.Peak.DeviceBytes {
		t.Errorf("a picture has (224/16)² + 1 tokens whatever sequence_length says: %d and %d bytes",
			given.Peak.DeviceBytes, plain.Peak.DeviceBytes)
	}
	job.Model.HFConfig = []byte(`{"model_type": "vit", "patch_size": 448}`)
	if _, err := Estimate(Input{Job: job}); err == nil ||
		!strings.Contains(err.Error(), "/model/hf_config/patch_size") {
		t.Errorf("not one patch fits, got %v", err)
	}
}

// TestWindowsOfSound counts the tokens of the labels, which sequence_length means for Whisper, and not those of the
// sound.
func TestWindowsOfSound(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "whisper"}`)},
		Training: Training{MicroBatch: 4, Precision: PrecisionFP32}}
	whole := mustEstimate(t, Input{Job: job})
	job.Training.SequenceLength = 448
	if given := mustEstimate(t, Input{Job: job}); given.Peak.DeviceBytes != whole.Peak.DeviceBytes {
		t.Errorf("labels default to the decoder's positions: %+v and %+v", given.Peak, whole.Peak)
	}
	job.Training.SequenceLength = 384
	short := mustEstimate(t, Input{Job: job})
	if less := component(whole, "logits_and_loss").Bytes - component(short, "logits_and_loss").Bytes; less != 4*64*51865*4*3 {
		t.Errorf("64 tokens fewer take %d bytes less of logits", less)
	}
	job.Training.TargetSequenceLength = 448
	if given := mustEstimate(t, Input{Job: job}); given.Peak.DeviceBytes != whole.Peak.DeviceBytes {
		t.Errorf("target_sequence_length says the same and wins: %+v and %+v", given.Peak, whole.Peak)
	}
	job.Training.TargetSequenceLength = 449
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/sequence_length") {
		t.Errorf("the decoder has 448 positions, got %v", err)
	}
}

// TestTowers reads CLIP's two configurations, and how older files have them.
func TestTowers(t *testing.T) {
	plain := mustEstimate(t, Input{Job: Job{Model: Model{HFConfig: []byte(`{"model_type": "clip"}`)},
		Training: Training{MicroBatch: 8, Versions: formerStack}}})
	older := mustEstimate(t, Input{Job: Job{Model: Model{HFConfig: []byte(`{"model_type": "clip", "text_config": {"num_hidden_layers": 3}, "text_config_dict": {"vocab_size": 49408}, "vision_config_dict": null}`)},
		Training: Training{MicroBatch: 8, Attention: "eager", SequenceLength: 77, Versions: formerStack}}})
	if plain.Peak.DeviceBytes != older.Peak.DeviceBytes {
		t.Errorf("an older text_config_dict wins, and neither tower is told of eager attention: %+v and %+v",
			plain.Peak, older.Peak)
	}
	for config, pointer := range map[string]string{
		`{"model_type": "clip", "text_config": 3}`:                               "/model/hf_config/text_config",
		`{"model_type": "clip", "vision_config": {"patch_size": 0}}`:             "/model/hf_config/vision_config/patch_size",
		`{"model_type": "clip", "text_config": {"num_attention_heads": 7}}`:      "/model/hf_config/text_config/num_attention_heads",
		`{"model_type": "clip", "vision_config": {"attention_dropout": 0.5}}`:    "/model/hf_config/vision_config/attention_dropout",
		`{"model_type": "clip", "text_config": {"max_position_embeddings": 20}}`: "/training/sequence_length",
	} {
		_, err := Estimate(Input{Job: Job{Model: Model{HFConfig: []byte(config)},
			Training: Training{MicroBatch: 1, SequenceLength: 77}}})
		if pointer != "" && (err == nil || !strings.Contains(err.Error(), pointer)) {
			t.Errorf("%s: want an error at %s, got %v", config, pointer, err)
		}
	}
}

// TestTargetTokens moves the decoder's length alone, which decides the logits.
func TestTargetTokens(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "t5"}`)},
		Training: Training{MicroBatch: 4, SequenceLength: 512, Precision: PrecisionFP32}}
	same := mustEstimate(t, Input{Job: job})
	job.Training.TargetSequenceLength = 512
	if given := mustEstimate(t, Input{Job: job}); given.Peak.DeviceBytes != same.Peak.DeviceBytes {
		t.Errorf("the decoder's tokens default to the encoder's: %+v and %+v", given.Peak, same.Peak)
	}
	job.Training.TargetSequenceLength = 128
	short := mustEstimate(t, Input{Job: job})
	if less := component(same, "logits_and_loss").Bytes - component(short, "logits_and_loss").Bytes; less != 4*(512-128)*32128*4*3 {
		t.Errorf("a quarter of the target tokens takes %d bytes less of logits", less)
	}
	job.Model = Model{NanoGPT: &model.NanoGPT{Layers: 2, Heads: 2, Embedding: 64, BlockSize: 512}}
	var bad *InvalidJobError
	if _, err := Estimate(Input{Job: job}); !errors.As(err, &bad) ||
		!strings.Contains(err.Error(), "/training/target_sequence_length") {
		t.Errorf("a decoder alone has no target tokens, got %v", err)
	}
}

// TestOnlyEager asks for attention kernels that transformers 4 does not have for T5.
func TestOnlyEager(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "t5"}`)}, Training: Training{MicroBatch: 1,
		Versions: formerStack}}
	eager := mustEstimate(t, Input{Job: job})
	job.Training.Attention = "sdpa"
	if given := mustEstimate(t, Input{Job: job}); given.Peak.DeviceBytes != eager.Peak.DeviceBytes {
		t.Errorf("sdpa is the library's own choice: %+v and %+v", given.Peak, eager.Peak)
	}
	job.Training.Attention = "flash"
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/attention") {
		t.Errorf("flash attention was asked for by name, got %v", err)
	}
}
