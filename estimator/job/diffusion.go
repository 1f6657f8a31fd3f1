package job

import "encoding/json"

// Diffusion is a diffusion pipeline: the config.json of each folder of its repository on the hub.
type Diffusion struct {
	// Preset names a published pipeline, whose parts count where they are not given.
	Preset string `json:"preset,omitempty" validate:"omitempty,max=200"`
	// Transformer is the config.json of the transformer that denoises.
	Transformer json.RawMessage `json:"transformer,omitempty"`
	// UNet is that of the UNet that denoises.
	UNet json.RawMessage `json:"unet,omitempty"`
	// ControlNet is that of a ControlNet beside the UNet; made of the UNet where it is left out and trained.
	ControlNet json.RawMessage `json:"controlnet,omitempty"`
	// VAE is that of the autoencoder.
	VAE json.RawMessage `json:"vae,omitempty"`
	// TextEncoders are those of the text encoders, in the order of text_encoder, text_encoder_2, ….
	TextEncoders []json.RawMessage `json:"text_encoders,omitempty" validate:"omitempty,max=4"`
	// Scheduler is scheduler_config.json; nothing of it changes the memory.
	Scheduler json.RawMessage `json:"scheduler,omitempty"`
}

// Resolution is a number of pixels a side, or [height, width].
type Resolution []int64

// Shorthand says that a resolution may be one number.
func (Resolution) Shorthand() []string { return []string{"number"} }

// UnmarshalJSON accepts a number or a list.
func (r *Resolution) UnmarshalJSON(b []byte) error {
	if first(b) == '[' {
		var list []int64
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		*r = list
		return nil
	}
	var side int64
	if err := json.Unmarshal(b, &side); err != nil {
		return err
	}
	*r = Resolution{side}
	return nil
}

// Size is the height and the width in pixels; 0 where nothing is given.
func (r Resolution) Size() (height, width int64) {
	if len(r) == 0 {
		return 0, 0
	}
	return r[0], r[len(r)-1]
}
