package estimator

import (
	"strings"
	"testing"
)

// smallUNet is a pipeline of two narrow levels.
const smallUNet = `{"unet": {"_class_name": "UNet2DConditionModel", "block_out_channels": [64, 128],
	"down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
	"layers_per_block": 1, "cross_attention_dim": 96, "attention_head_dim": 4}, "vae": {"_class_name": "AutoencoderKL",
	"block_out_channels": [32, 64], "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
	"up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"]}, "text_encoders": [{"model_type": "clip_text_model",
	"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000}]}`

const publishedUNet = `{"unet": {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768}, "vae": {
	"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
	"down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"],
	"up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]},
	"text_encoders": [{"model_type": "clip_text_model", "hidden_size": 768, "intermediate_size": 3072,
	"num_hidden_layers": 12, "num_attention_heads": 12, "projection_dim": 768, "eos_token_id": 2}]}`

func TestUNetRefuses(t *testing.T) {
	const base = `{"micro_batch": 1, "resolution": 64, "objective": {"kind": "diffusion"}`
	for name, c := range map[string]struct{ pipeline, training, want string }{
		"another block": {strings.Replace(smallUNet, `"DownBlock2D"`, `"AttnDownBlock2D"`, 1), base + "}",
			"/model/diffusion/unet/down_block_types"},
		"heads that do not fit": {strings.Replace(smallUNet, `"attention_head_dim": 4`, `"attention_head_dim": 5`, 1),
			base + "}", "/model/diffusion/unet/attention_head_dim"},
		"a list of the wrong length": {strings.Replace(smallUNet, `"attention_head_dim": 4`,
			`"attention_head_dim": [4], "transformer_layers_per_block": [1, 2, 3]`, 1), base + "}",
			"/model/diffusion/unet/attention_head_dim /model/diffusion/unet/transformer_layers_per_block"},
		"classes": {strings.Replace(smallUNet, `"attention_head_dim": 4`, `"class_embed_type": "projection"`, 1), base + "}",
			"/model/diffusion/unet/class_embed_type"},
		"groups that do not fit": {strings.Replace(smallUNet, "[32, 64]", "[32, 65]", 1), base + "}",
			"/model/diffusion/vae/norm_num_groups"},
		"no autoencoder": {strings.Replace(smallUNet, `"vae": {`, `"was": {`, 1), base + "}", "/model/diffusion/vae"},
		"another width": {strings.Replace(smallUNet, `"cross_attention_dim": 96`, `"cross_attention_dim": 128`, 1),
			base + "}", "/model/diffusion/text_encoders"},
		"cached pictures": {smallUNet, strings.Replace(base, `"diffusion"`, `"diffusion", "latents": "cached"`, 1) + "}",
			"/training/objective/latents"},
		"an average of adapters": {smallUNet, strings.Replace(base, `"diffusion"`, `"diffusion", "ema": true`, 1) +
			`, "lora": {"rank": 4}}`, "/training/objective/ema"},
		"another script": {smallUNet, base + `, "script": "text_to_image/train_text_to_image_sdxl.py"}`,
			"/training/script"},
		"a ControlNet of another UNet": {strings.TrimSuffix(smallUNet, "}") +
			`, "controlnet": {"block_out_channels": [64, 64]}}`, strings.Replace(base, `"diffusion"`,
			`"diffusion", "train": "controlnet"`, 1) + "}", "/model/diffusion/controlnet"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusedAt(t, diffusionJob(t, c.pipeline, c.training)); !strings.Contains(got, c.want) {
				t.Errorf("refused at %s, want %s", got, c.want)
			}
		})
	}
}

// estimated is the answer to a job that is accepted.
func estimated(t *testing.T, pipeline, training string) *Result {
	t.Helper()
	answer, err := Estimate(diffusionJob(t, pipeline, training))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestUNetCounts: the published counts of Stable Diffusion 1.5's parts, of its ControlNet, and of adapters on it.
func TestUNetCounts(t *testing.T) {
	const unet, vae, clip, control = 859_520_964, 83_653_863, 123_060_480, 361_279_120
	for training, want := range map[string][2]int64{
		`"objective": {"kind": "diffusion"}`:                                 {unet + vae + clip, unet},
		`"objective": {"kind": "diffusion", "train": "controlnet"}`:          {unet + vae + clip + control, control},
		`"objective": {"kind": "diffusion"}, "lora": {"rank": 16}`:           {unet + vae + clip + 3_188_736, 3_188_736},
		`"objective": {"kind": "diffusion", "ema": true}`:                    {unet + vae + clip, unet},
		`"objective": {"kind": "diffusion", "latents": "each-step"}`:         {unet + vae + clip, unet},
		`"objective": {"kind": "diffusion", "text_embeddings": "each-step"}`: {unet + vae + clip, unet},
	} {
		answer := estimated(t, publishedUNet, `{"micro_batch": 1, "resolution": 64, `+training+"}")
		if got := [2]int64{answer.Model.Parameters, answer.Model.TrainableParameters}; got != want {
			t.Errorf("%s: %d parameters of which %d are trained, want %d", training, got[0], got[1], want)
		}
	}
}

// TestUNetSwitches: what holds more and what holds less.
func TestUNetSwitches(t *testing.T) {
	peak := func(training string) int64 {
		t.Helper()
		return estimated(t, smallUNet, `{"micro_batch": 2, "resolution": 256, `+training+"}").Peak.AllocatedBytes
	}
	const full = `"objective": {"kind": "diffusion"}`
	plain := peak(full)
	for _, c := range []struct {
		name, training string
		less           bool
	}{
		{"checkpoints", full + `, "gradient_checkpointing": "full"`, true},
		{"adapters", full + `, "lora": {"rank": 4}, "gradient_checkpointing": "full"`, true},
		{"float32", full + `, "precision": "fp32"`, false},
	} {
		if got := peak(c.training); got < plain != c.less {
			t.Errorf("%s: %d bytes, and without %d", c.name, got, plain)
		}
	}
	odd := estimated(t, smallUNet, `{"micro_batch": 1, "resolution": [250, 130], `+full+"}")
	even := estimated(t, smallUNet, `{"micro_batch": 1, "resolution": [256, 132], `+full+"}")
	if odd.Peak.AllocatedBytes > even.Peak.AllocatedBytes {
		t.Errorf("a smaller picture holds %d bytes, a larger %d", odd.Peak.AllocatedBytes, even.Peak.AllocatedBytes)
	}
}
