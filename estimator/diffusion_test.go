package estimator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// smallFlux is a pipeline of two blocks of each kind.
const smallFlux = `{"transformer": {"_class_name": "FluxTransformer2DModel", "num_layers": 2, "num_single_layers": 2,
	"guidance_embeds": true}, "text_encoders": [
	{"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 768, "intermediate_size": 3072,
	"num_hidden_layers": 2, "num_attention_heads": 12, "vocab_size": 49408, "eos_token_id": 2},
	{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 4096, "d_kv": 64, "d_ff": 10240,
	"num_layers": 2, "num_heads": 64, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false}]}`

// diffusionJob is a job on a pipeline with the given fields of training.
func diffusionJob(t *testing.T, pipeline, training string) Input {
	t.Helper()
	var in Input
	document := `{"model": {"diffusion": ` + pipeline + `}, "training": ` + training + `}`
	if err := json.Unmarshal([]byte(document), &in.Job); err != nil {
		t.Fatal(err)
	}
	return in
}

// refusedAt is where a job is refused.
func refusedAt(t *testing.T, in Input) string {
	t.Helper()
	_, err := Estimate(in)
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		t.Fatalf("the job is not refused: %v", err)
	}
	var pointers []string
	for _, f := range wrong.Fields {
		pointers = append(pointers, f.Pointer)
	}
	return strings.Join(pointers, " ")
}

func TestDiffusionRefuses(t *testing.T) {
	const base = `{"micro_batch": 1, "resolution": 512, "objective": {"kind": "diffusion", "latents": "cached"},
		"lora": {"rank": 4}`
	for name, c := range map[string]struct{ pipeline, training, want string }{
		"everything at once": {smallFlux, strings.Replace(base, "512", "520", 1) + `, "sequence_length": 8,
			"attention": "eager", "precision": "bf16", "framework": "trl", "gradient_checkpointing": "selective"}`,
			"/training/attention /training/framework /training/gradient_checkpointing /training/precision " +
				"/training/resolution /training/sequence_length"},
		"no pixels": {smallFlux, `{"micro_batch": 1, "lora": {"rank": 4}, "objective": {"kind": "diffusion",
			"latents": "cached"}}`, "/training/resolution"},
		"odd pixels":     {smallFlux, strings.Replace(base, "512", "520", 1) + "}", "/training/resolution"},
		"another script": {smallFlux, base + `, "script": "x.py"}`, "/training/script"},
		"in full": {smallFlux, `{"micro_batch": 1, "resolution": 512, "objective": {"kind": "diffusion"},
			"script": "train_dreambooth_lora_flux.py"}`, "/model/diffusion/vae /training/lora"},
		"a field of another kind": {smallFlux, strings.Replace(base, `"latents"`, `"texts": 2, "latents"`, 1) + "}",
			"/training/objective/texts"},
		"the part": {smallFlux, strings.Replace(base, `"latents"`, `"train": "unet", "latents"`, 1) + "}",
			"/training/objective/train"},
		"no kind":     {smallFlux, `{"micro_batch": 1, "resolution": 512}`, "/training/objective"},
		"no denoiser": {`{}`, base + "}", "/model/diffusion"},
		"other class": {`{"unet": {"_class_name": "X"}}`, base + "}", "/model/diffusion/unet/_class_name"},
		"layers that are no list": {`{"transformer": {"_class_name": "SD3Transformer2DModel",
			"dual_attention_layers": 3}}`, base + "}", "/model/diffusion/transformer/dual_attention_layers"},
		"layers that are not there": {`{"transformer": {"_class_name": "SD3Transformer2DModel",
			"dual_attention_layers": [0, 24]}}`, base + "}", "/model/diffusion/transformer/dual_attention_layers"},
		"other norms": {`{"transformer": {"_class_name": "SD3Transformer2DModel", "qk_norm": "layer_norm"}}`,
			base + "}", "/model/diffusion/transformer/qk_norm"},
		"wrong folder": {`{"unet": {"_class_name": "FluxTransformer2DModel"}}`, base + "}",
			"/model/diffusion/unet/_class_name"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusedAt(t, diffusionJob(t, c.pipeline, c.training)); got != c.want {
				t.Errorf("refused at %s, want %s", got, c.want)
			}
		})
	}
}

// TestDiffusionIsDiffusionsAlone holds that its fields are refused elsewhere.
func TestDiffusionIsDiffusionsAlone(t *testing.T) {
	var in Input
	err := json.Unmarshal([]byte(`{"model": {"nanogpt": {"n_layer": 1, "n_head": 1, "n_embd": 8}},
		"training": {"micro_batch": 1, "resolution": 512, "script": "x.py", "framework": "diffusers",
		"objective": {"latents": "cached"}}}`), &in.Job)
	if err != nil {
		t.Fatal(err)
	}
	const want = "/training/framework /training/objective/latents /training/resolution /training/script"
	if got := refusedAt(t, in); got != want {
		t.Errorf("refused at %s, want %s", got, want)
	}
}

// TestFluxCounts holds the parameters of the published model against those that are declared.
func TestFluxCounts(t *testing.T) {
	full := strings.Replace(smallFlux, `"num_layers": 2, "num_single_layers": 2,`, "", 1)
	res, err := Estimate(diffusionJob(t, full, `{"micro_batch": 1, "resolution": 512, "lora": {"rank": 16},
		"objective": {"kind": "diffusion", "latents": "cached"}, "gradient_checkpointing": "full"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Model.TrainableParameters; got != 44_826_624 {
		t.Errorf("%d parameters are trained, want 44,826,624", got)
	}
}

// TestSD3Counts: the parameters of the published transformers, with an autoencoder of 83,819,683 beside them, and of
// adapters of rank 4 on the projections of attention.
func TestSD3Counts(t *testing.T) {
	const vae = 83_819_683
	for name, want := range map[string]int64{"stable-diffusion-3-medium-diffusers": 2_028_328_000,
		"stable-diffusion-3.5-medium": 2_243_171_520, "stabilityai/stable-diffusion-3.5-large": 8_056_627_520} {
		answer := estimated(t, `{"preset": "`+name+`"}`, `{"micro_batch": 1, "resolution": 512,
			"objective": {"kind": "diffusion"}, "lora": {"rank": 4}}`)
		if got := answer.Model.Parameters - answer.Model.TrainableParameters - vae; got != want {
			t.Errorf("%s has %d parameters, want %d", name, got, want)
		}
	}
}

// TestTextEncodersLeave: with few pixels the peak of Stable Diffusion 3's adapters is before training, where all text
// encoders stand beside the transformer, and the answer says so.
func TestTextEncodersLeave(t *testing.T) {
	const training = `{"micro_batch": 1, "resolution": 512, "objective": {"kind": "diffusion"}, "lora": {"rank": 4},
		"gradient_checkpointing": "full"}`
	answer := estimated(t, `{"preset": "stable-diffusion-3-medium"}`, training)
	if answer.Peak.Phase != "load" || !hasNote(answer, "text-encoders-leave") {
		t.Errorf("the peak is in %s, and the notes are %v", answer.Peak.Phase, answer.Notes)
	}
	const t5 = 4_762_310_656 // parameters of the encoder of T5 v1.1 XXL
	if answer.Peak.AllocatedBytes < 2*t5 {
		t.Errorf("%d bytes are allocated, and T5 alone has %d", answer.Peak.AllocatedBytes, 2*t5)
	}
}

// hasNote says whether an answer has a note of this code.
func hasNote(answer *Result, code string) bool {
	return slices.ContainsFunc(answer.Notes, func(n Note) bool { return n.Code == code })
}
