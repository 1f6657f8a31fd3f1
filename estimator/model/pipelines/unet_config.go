package pipelines

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
)

// unetDefaults are those of UNet2DConditionModel's class.
// Source: diffusers/models/unets/unet_2d_condition.py, 0.39.
var unetDefaults = map[string]any{
	"in_channels": 4.0, "out_channels": 4.0, "block_out_channels": []any{320.0, 640.0, 1280.0, 1280.0},
	"layers_per_block": 2.0, "attention_head_dim": 8.0, "cross_attention_dim": 1280.0, "norm_num_groups": 32.0,
	"act_fn": "silu", "transformer_layers_per_block": 1.0, "use_linear_projection": false,
	"mid_block_type": "UNetMidBlock2DCrossAttn", "resnet_time_scale_shift": "default",
	"time_embedding_type": "positional", "conv_in_kernel": 3.0, "conv_out_kernel": 3.0, "downsample_padding": 1.0,
	"attention_type": "default", "addition_embed_type_num_heads": 64.0,
	"down_block_types": []any{crossDown, crossDown, crossDown, plainDown},
	"up_block_types":   []any{plainUp, crossUp, crossUp, crossUp},
	// ControlNetModel's own
	"conditioning_channels":               3.0,
	"conditioning_embedding_out_channels": []any{16.0, 32.0, 96.0, 256.0}}

// The blocks of a UNet that are understood.
const (
	crossDown, plainDown = "CrossAttnDownBlock2D", "DownBlock2D"
	crossUp, plainUp     = "CrossAttnUpBlock2D", "UpBlock2D"
	crossMiddle          = "UNetMidBlock2DCrossAttn"
)

// The families of UNets: those that read the prompt and the time alone, and those that read what is pooled of the
// prompt and the sizes of the picture, too.
const UNet, UNetXL = "stable-diffusion", "stable-diffusion-xl"

// unetOptions are the numbers of UNet2DConditionModel.
type unetOptions struct {
	in, out, perBlock, groups int64
	widths                    []int64
	heads, transformers       []int64 // of each level
	crosses, crossesUp        []bool  // which levels read the prompt, from the finest and from the coarsest on
	context                   int64   // the width of the prompt's embeddings
	linear                    bool    // the projections around the transformers are linear layers
	// added is the width of what is added to the time: of the sines of six numbers and of what is pooled of the prompt;
	// 0 for nothing. sines is how many of them are of one number.
	added, sines int64
}

// unetRefused are keys that change the network in ways that are not modelled, with what they may say.
var unetRefused = map[string][]any{
	"resnet_time_scale_shift": {"default"}, "time_embedding_type": {"positional"}, "attention_type": {"default"},
	"mid_block_type": {crossMiddle}, "conv_in_kernel": {3.0}, "conv_out_kernel": {3.0}, "downsample_padding": {1.0},
	"dual_cross_attention": {false}, "only_cross_attention": {false},
	"mid_block_only_cross_attention": {false}, "resnet_skip_time_act": {false}, "center_input_sample": {false},
	"class_embed_type": {}, "num_class_embeds": {}, "encoder_hid_dim": {}, "encoder_hid_dim_type": {},
	"time_cond_proj_dim": {}, "time_embedding_dim": {}, "time_embedding_act_fn": {}, "timestep_post_act": {},
	"cross_attention_norm": {}, "reverse_transformer_layers_per_block": {}, "dropout": {0.0},
	"addition_embed_type": {"text_time"}, "global_pool_conditions": {false}}

func readUNet(c *arch.Config) denoiserOptions {
	o := readUNetHalf(c)
	o.out = c.Integer("out_channels", maxHeads)
	o.crossesUp = blocks(c, "up_block_types", len(o.widths), plainUp, crossUp)
	return o
}

// readUNetHalf is what a UNet and the ControlNet made of it have in common.
func readUNetHalf(c *arch.Config) unetOptions {
	o := unetOptions{in: c.Integer("in_channels", maxHeads), groups: c.Integer("norm_num_groups", maxHeads),
		widths: widths(c), context: c.Integer("cross_attention_dim", maxChannels),
		linear: c.Boolean("use_linear_projection")}
	levels := len(o.widths)
	o.perBlock = alike(c, "layers_per_block", levels)
	o.transformers = eachLevel(c, "transformer_layers_per_block", levels, arch.MaxLayers)
	heads := "attention_head_dim" // which says how many heads there are, under a former name
	if v, ok := c.Given["num_attention_heads"]; ok && v != nil {
		heads = "num_attention_heads"
	}
	o.heads = eachLevel(c, heads, levels, maxHeads)
	o.crosses = blocks(c, "down_block_types", levels, plainDown, crossDown)
	c.Activation("act_fn", "silu", "swish")
	divides(c, "norm_num_groups", o.groups, o.widths)
	for i, w := range o.widths {
		if i < len(o.heads) && o.heads[i] > 0 && w%o.heads[i] != 0 {
			c.Errs.Add(c.Pointer+"/"+heads, "not_divisible", "%d heads do not divide the %d channels of a level",
				o.heads[i], w)
			break
		}
	}
	if v, ok := c.Value("addition_embed_type"); ok && v == "text_time" {
		o.added, o.sines = c.Integer("projection_class_embeddings_input_dim", maxChannels),
			c.Integer("addition_time_embed_dim", maxChannels)
	}
	refuseUNet(c)
	return o
}

// refuseUNet refuses what is not modelled.
func refuseUNet(c *arch.Config) {
	for key, known := range unetRefused {
		if v, ok := c.Value(key); ok && !slices.Contains(known, v) {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is %s; %s", key, arch.Describe(v), modelled(known))
		}
	}
}

// modelled says which values are.
func modelled(known []any) string {
	if len(known) == 0 {
		return "null is modelled"
	}
	return "null and " + arch.Describe(known[0]) + " are modelled"
}

// eachLevel reads a whole number for all levels or a list with one for each.
func eachLevel(c *arch.Config, key string, levels int, limit float64) []int64 {
	v, _ := c.Value(key)
	if _, list := v.([]any); !list {
		n := c.Integer(key, limit)
		return slices.Repeat([]int64{n}, levels)
	}
	numbers := c.Integers(key, limit)
	if len(numbers) != levels && len(numbers) > 0 {
		c.Errs.Add(c.Pointer+"/"+key, "conflict", "%s has %d numbers and block_out_channels %d levels", key,
			len(numbers),
			levels)
		return slices.Repeat([]int64{1}, levels)
	}
	return numbers
}

// alike reads what is given as one number, or as a list of the same one for each level.
func alike(c *arch.Config, key string, levels int) int64 {
	numbers := eachLevel(c, key, levels, maxLevels)
	for _, n := range numbers {
		if n != numbers[0] {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s differs between levels; one number for all is modelled",
				key)
			break
		}
	}
	if len(numbers) == 0 {
		return 0
	}
	return numbers[0]
}

// blocks reads the kinds of the blocks of each level: which are the last of those that are known.
func blocks(c *arch.Config, key string, levels int, known ...string) []bool {
	v, _ := c.Value(key)
	list, ok := v.([]any)
	if !ok || len(list) != levels && levels > 0 {
		c.Errs.Add(c.Pointer+"/"+key, "conflict", "%s is a list of as many names as block_out_channels has levels, %d",
			key, levels)
		return make([]bool, levels)
	}
	is := make([]bool, len(list))
	for i, v := range list {
		name, _ := v.(string)
		if !slices.Contains(known, name) {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is not modelled; %v are", arch.Describe(v), known)
			return is
		}
		is[i] = name == known[len(known)-1]
	}
	return is
}

func (o unetOptions) channels() int64 { return o.in }

// multiple is 1: a level that cannot be halved exactly is rounded up, and the way up grows to what the way down had.
func (o unetOptions) multiple() int64 { return 1 }

// reads is how wide the embeddings of prompts are, and what is pooled of them.
func (o unetOptions) reads() (embeddings, pooled int64) { return o.context, o.pooled() }

// tokens is how many places the finest level has.
func (o unetOptions) tokens(rows, columns int64) int64 { return rows * columns }

// layers is how many blocks have a number of their own: resnets and transformer blocks.
func (o unetOptions) layers() int64 {
	last := len(o.widths) - 1
	n := o.halfLayers()
	for i := range o.widths { // from the coarsest level up
		n += o.perBlock + 1
		if o.crossesUp[i] {
			n += (o.perBlock + 1) * o.transformers[last-i]
		}
	}
	return n
}

// halfLayers is the same of the levels on the way down, and of the middle.
func (o unetOptions) halfLayers() int64 {
	n := 2 + o.transformers[len(o.widths)-1]
	for i := range o.widths {
		n += o.perBlock
		if o.crosses[i] {
			n += o.perBlock * o.transformers[i]
		}
	}
	return n
}

func (o unetOptions) shape(a arch.Architecture) arch.Architecture {
	a.Name, a.Family = UNet, UNet
	if o.added > 0 {
		a.Name, a.Family = UNetXL, UNetXL
	}
	last := len(o.widths) - 1
	a.Hidden, a.Heads, a.KVHeads = o.widths[last], o.heads[last], o.heads[last]
	a.HeadDim, a.FFN = a.Hidden/a.Heads, 4*a.Hidden
	return a
}

func (o unetOptions) declare(b *arch.Builder, first int) denoiser {
	m := &unet{own: o, first: int32(first)}
	m.half = o.declareHalf(b, func() {})
	m.declareUp(b)
	m.half.middle = o.declareMiddle(b)
	m.final = b.Norm("conv_norm_out", o.widths[0], true)
	m.out = b.Convolution("conv_out", o.widths[0], o.out, 3, 3, true)
	return m
}
