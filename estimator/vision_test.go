package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const smallLlava = `{"model_type": "llava", "image_token_index": 900,
	"text_config": {"model_type": "llama", "hidden_size": 96, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000},
	"vision_config": {"model_type": "clip_vision_model", "hidden_size": 80, "intermediate_size": 208, "num_hidden_layers": 3, "num_attention_heads": 5, "image_size": 56, "patch_size": 14}}`

const smallSmolVLM = `{"model_type": "smolvlm", "image_token_id": 900, "scale_factor": 2,
	"text_config": {"model_type": "llama", "hidden_size": 96, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000},
	"vision_config": {"model_type": "smolvlm_vision", "hidden_size": 80, "intermediate_size": 208, "num_hidden_layers": 3, "num_attention_heads": 5, "image_size": 64, "patch_size": 16}}`

const smallQwenVL = `{"model_type": "qwen2_5_vl", "hidden_size": 96, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
	"vision_config": {"depth": 3, "hidden_size": 80, "intermediate_size": 212, "num_heads": 5, "out_hidden_size": 96, "fullatt_block_indexes": [1]}}`

const smallGemma3 = `{"model_type": "gemma3", "mm_tokens_per_image": 4, "image_token_index": 900,
	"text_config": {"hidden_size": 96, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": 1000, "sliding_window": 16},
	"vision_config": {"hidden_size": 80, "intermediate_size": 208, "num_hidden_layers": 3, "num_attention_heads": 5, "image_size": 56, "patch_size": 14, "vision_use_head": false}}`

// gemma3Text is the same with the class of the text model alone.
var gemma3Text = strings.Replace(smallGemma3, "{", `{"architectures": ["Gemma3ForCausalLM"], `, 1)

func visionJob(t *testing.T, config, training string) Job {
	t.Helper()
	var job Job
	length := `"sequence_length": 44, `
	if strings.Contains(training, "sequence_length") {
		length = ""
	}
	document := fmt.Sprintf(`{"model": {"hf_config": %s}, "training": {"micro_batch": 2, %s%s}}`,
		config, length, training)
	if err := json.Unmarshal([]byte(document), &job); err != nil {
		t.Fatal(err)
	}
	return job
}

// TestPicturesAreRefused says what the front door makes of pictures that a model cannot have.
func TestPicturesAreRefused(t *testing.T) {
	const good = `"objective": {"kind": "vision-language"}`
	for _, c := range []struct{ name, config, training, pointer, says string }{
		{"another kind", smallLlava, `"objective": "language-model"`, "/training/objective", "vision-language"},
		{"text alone under a trainer", smallLlava, `"objective": "sft"`, "/training/objective", "vision-language"},
		{"another size than the tower's", smallLlava,
			`"objective": {"kind": "vision-language", "image_size": [56, 112]}`, "/training/objective/image_size",
			"[56, 56]"},
		{"more tokens than fit", smallLlava, `"objective": {"kind": "vision-language", "images": 3}`,
			"/training/sequence_length", "48 tokens"},
		{"another number of tokens", smallLlava, `"objective": {"kind": "vision-language", "image_tokens": 17}`,
			"/training/objective/image_tokens", "take 16"},
		{"fields of dpo", smallLlava, `"objective": {"kind": "vision-language", "reference": "separate"}`,
			"/training/objective/reference", "does not belong"},
		{"prompts", smallLlava, `"objective": {"kind": "vision-language", "prompt_tokens": 3}`, "/training/objective",
			"sequence_length counts"},
		{"eager", smallLlava, `"attention": "eager", ` + good, "/training/attention", "eager"},
		{"two cards", smallLlava, `"distributed": {"world_size": 2}, ` + good, "/training/distributed", "pictures"},
		{"padding", smallLlava, `"attention_mask": "explicit", ` + good, "/training/attention_mask", "padding"},
		{"a quantised base that the library fails with", smallSmolVLM,
			`"lora": {"rank": 8, "target_modules": ["q_proj"], "base_precision": "nf4", "upcast_base": false}, ` + good,
			"/training/lora/upcast_base", "fails under autocast"},
		{"compiled", smallLlava, `"compile": {"model": true}, ` + good, "/training/compile", "pictures"},
		{"weights that the library fails with", smallSmolVLM, good, "/training/states", "fails under autocast"},
		{"patches that make no squares", strings.Replace(smallGemma3, `_image": 4`, `_image": 5`, 1), good,
			"/model/hf_config/mm_tokens_per_image", "square"},
		{"a tower's head", strings.Replace(smallGemma3, `"vision_use_head": false`, `"vision_use_head": true`, 1), good,
			"/model/hf_config/vision_config/vision_use_head", "false"},
		{"Gemma 3 compiled", smallGemma3, `"compile": {"model": true}, ` + good, "/training/compile", "pictures"},
		{"a target in some of the layers", smallLlava,
			`"lora": {"rank": 8, "target_modules": [".*layers\\.1\\..*q_proj"]}, ` + good,
			"/training/lora/target_modules", "some of the layers"},
		{"a target that cannot be read", smallLlava, `"lora": {"rank": 8, "target_modules": ["(?!q).*"]}, ` + good,
			"/training/lora/target_modules", "RE2"},
		{"a size that no processor makes", smallQwenVL, `"objective": {"kind": "vision-language", "image_size": [100, 112]}`,
			"/training/objective/image_size", "multiples of [28, 28]"},
		{"more windows than are counted", smallQwenVL,
			`"objective": {"kind": "vision-language", "images": 1000, "image_size": [2800, 2800]}`, "/training/objective",
			"windows or pictures"},
		{"a tower that does not fit", strings.Replace(smallQwenVL, `"out_hidden_size": 96`, `"out_hidden_size": 97`, 1),
			good, "/model/hf_config/vision_config", "97 elements"},
		{"a model that reads none", `{"model_type": "llama"}`, good, "/training/objective/kind", "no pictures"},
		{"pictures without the kind", `{"model_type": "llama"}`, `"objective": {"images": 2}`, "/training/objective",
			"belong to the kind"},
		{"an unknown text model", strings.Replace(smallLlava, `"llama"`, `"mamba"`, 1), good,
			"/model/hf_config/text_config/model_type", "mamba"},
		{"an unknown tower", strings.Replace(smallLlava, "clip_vision_model", "pixtral", 1), good,
			"/model/hf_config/vision_config/model_type", "pixtral"},
		{"a layer that is not there", strings.Replace(smallLlava, `"image_token_index"`,
			`"vision_feature_layer": -7, "image_token_index"`, 1), good, "/model/hf_config/vision_feature_layer",
			"from -4 to 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Estimate(Input{Job: visionJob(t, c.config, c.training)})
			var bad *InvalidJobError
			if !errors.As(err, &bad) {
				t.Fatalf("answered with %v", err)
			}
			for _, f := range bad.Fields {
				if f.Pointer == c.pointer && strings.Contains(f.Detail, c.says) {
					return
				}
			}
			t.Errorf("no problem at %s says %q: %v", c.pointer, c.says, err)
		})
	}
}

// TestFrozenTowersTakeLess says that a tower without gradients takes less than a trained one, and that adapters reach
// into it.
func TestFrozenTowersTakeLess(t *testing.T) {
	of := func(training string) *Result {
		t.Helper()
		res, err := Estimate(Input{Job: visionJob(t, smallLlava, training)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	trained, frozen := of(`"objective": {"kind": "vision-language"}`),
		of(`"objective": {"kind": "vision-language", "freeze_vision": true}`)
	if frozen.Peak.AllocatedBytes >= trained.Peak.AllocatedBytes ||
		frozen.Model.TrainableParameters >= trained.Model.TrainableParameters ||
		frozen.Model.Parameters != trained.Model.Parameters {
		t.Errorf("frozen: %+v of %+v; trained: %+v of %+v", frozen.Peak, frozen.Model, trained.Peak, trained.Model)
	}
	// The tower's projections have the same names as the text's: 2 text layers and 3 of the tower have q_proj and
	// v_proj.
	adapted := of(`"objective": {"kind": "vision-language"}, "lora": {"rank": 1, "target_modules": ["q_proj", "v_proj"]}`)
	if want := int64(2*2*(96+96) + 3*2*(80+80)); adapted.Model.TrainableParameters != want {
		t.Errorf("%d parameters of adapters, want %d", adapted.Model.TrainableParameters, want)
	}
}

// TestPicturesByDefault says what a job is that names a model that reads pictures and nothing of them.
func TestPicturesByDefault(t *testing.T) {
	const long = `"sequence_length": 2048`
	for _, c := range []struct {
		name, config, training, objective string
		images, side, tokens              int64
		codes                             []string
	}{
		{"a tower of one size", smallLlava, `"precision": "bf16"`, "vision-language", 1, 56, 16, nil},
		{"any size", smallQwenVL, long, "vision-language", 1, 756, 729, []string{"pictures-assumed"}},
		{"any size in a short sequence", smallQwenVL, `"sequence_length": 48`, "vision-language", 1, 168, 36,
			[]string{"pictures-assumed"}},
		{"two pictures of any size", smallQwenVL, long + `, "objective": {"images": 2}`, "vision-language", 2, 756, 1458,
			[]string{"pictures-assumed"}},
		{"a size that is given", smallQwenVL, long + `, "objective": {"kind": "vision-language", "image_size": [112, 112]}`,
			"vision-language", 1, 112, 16, nil},
		{"tiles", smallSmolVLM, `"sequence_length": 128, "precision": "bf16"`, "vision-language", 17, 64, 68,
			[]string{"pictures-assumed"}},
		{"tiles that are given", smallSmolVLM, `"sequence_length": 128, "precision": "bf16", "objective": {"images": 3}`,
			"vision-language", 3, 64, 12, nil},
		{"a text model of its own", smallGemma3, `"precision": "bf16"`, "", 0, 0, 0, []string{"idle-towers"}},
		{"the class of its text model", gemma3Text, `"precision": "bf16"`, "", 0, 0, 0, []string{"without-tower"}},
		{"adapters beside a tower that idles", smallGemma3, `"lora": {"rank": 1}`, "", 0, 0, 0,
			[]string{"idle-towers", "targets-assumed"}},
		{"the same with a tower", smallGemma3, `"objective": "vision-language"`, "vision-language", 1, 56, 4, nil},
		{"adapters of the text model", smallLlava, `"lora": {"rank": 1}`, "vision-language", 1, 56, 16,
			[]string{"targets-assumed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := Estimate(Input{Job: visionJob(t, c.config, c.training)})
			if err != nil {
				t.Fatal(err)
			}
			a := res.Assumed
			var size []int64
			if c.side > 0 {
				size = []int64{c.side, c.side}
			}
			if a.Objective != c.objective || a.Images != c.images || !slices.Equal(a.ImageSize, size) ||
				a.ImageTokens != c.tokens {
				t.Errorf("taken as %+v", a)
			}
			var codes []string
			for _, n := range res.Notes {
				if n.Code == "pictures-assumed" || n.Code == "without-tower" || n.Code == "idle-towers" || n.Code == "targets-assumed" {
					codes = append(codes, n.Code)
				}
			}
			if !slices.Equal(codes, c.codes) {
				t.Errorf("notes %v, want %v", codes, c.codes)
			}
		})
	}
}

// TestTextModelAlone holds a configuration with a tower whose file names the class of the text model against that of
// the text model, and the class that AutoModelForCausalLM loads, whose tower idles, against both.
func TestTextModelAlone(t *testing.T) {
	of := func(config string) *Result {
		res, err := Estimate(Input{Job: visionJob(t, config, `"precision": "fp32", "optimizer": {"name": "adamw"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	named, alone := of(gemma3Text), of(strings.Replace(smallGemma3, `"vision_config"`, `"no_config"`, 1))
	if named.Peak.AllocatedBytes != alone.Peak.AllocatedBytes || named.Peak.ReservedBytes != alone.Peak.ReservedBytes {
		t.Errorf("%+v with the tower's configuration, %+v without", named.Peak, alone.Peak)
	}
	idles := of(smallGemma3)
	tower := idles.Model.Parameters - alone.Model.Parameters
	more := idles.Peak.AllocatedBytes - alone.Peak.AllocatedBytes
	if tower <= 0 || more < 4*tower || more > 4*tower+128<<10 {
		t.Errorf("%d bytes more for %d parameters that have weights alone", more, tower)
	}
}

// TestTargetsByExpression adapts the text model alone, whose modules share names with the tower's.
func TestTargetsByExpression(t *testing.T) {
	for _, c := range []struct {
		target string
		want   int64
	}{
		{`.*language_model.*\\.(q_proj|v_proj)`, 2 * 2 * (96 + 96)},
		{`model.vision_tower.vision_model.encoder.layers.[\\d]+.self_attn.q_proj`, 3 * (80 + 80)},
		{`model\\.multi_modal_projector\\..*`, 80 + 96 + 96 + 96},
		{"v_proj", 2*(96+96) + 3*(80+80)},
	} {
		res, err := Estimate(Input{Job: visionJob(t, smallLlava,
			`"lora": {"rank": 1, "target_modules": ["`+c.target+`"]}`)})
		if err != nil {
			t.Fatal(err)
		}
		if res.Model.TrainableParameters != c.want {
			t.Errorf("%s: %d parameters of adapters, want %d", c.target, res.Model.TrainableParameters, c.want)
		}
	}
}
