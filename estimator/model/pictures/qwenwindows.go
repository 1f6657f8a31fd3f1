package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen25VLFamily is Qwen2.5-VL: Qwen2-VL whose tower has RMSNorms and a gated MLP, and most of whose layers attend
// within windows of a picture, by which its patches are ordered. Source:
// transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py, configuration_qwen2_5_vl.py, 4.57.
var Qwen25VLFamily = arch.Family{ModelType: "qwen2_5_vl",
	Classes:       []string{arch.ClassConditional},
	Keys:          qwenSeeingKeys,
	Defaults:      Qwen2VLFamily.Defaults,
	Read:          qwen25VL,
	Uncompiled:    arch.UncompiledSeeing,
	PictureTokens: mergedTokens,
	UsualPictures: usualQwenPictures,
	Build:         buildQwenVL,
}

var qwen25VLVisionDefaults = map[string]any{
	"depth": 32.0, "hidden_size": 3584.0, "hidden_act": "silu", "intermediate_size": 3420.0, "num_heads": 16.0,
	"in_channels": 3.0, "patch_size": 14.0, "spatial_merge_size": 2.0, "temporal_patch_size": 2.0,
	"window_size": 112.0, "out_hidden_size": 3584.0, "fullatt_block_indexes": []any{7.0, 15.0, 23.0, 31.0}}

func qwen25VL(c *arch.Config, a arch.Architecture) arch.Architecture {
	vision := c.Part("vision_config", qwen25VLVisionDefaults)
	const widest = 1 << 20
	own := qwenVision{gated: true, out: vision.Integer("out_hidden_size", arch.MaxWidth),
		window: vision.Integer("window_size", widest), full: map[int64]bool{}}
	sizes := qwenTower(vision, "hidden_size", &own)
	sizes.FFN = vision.Integer("intermediate_size", arch.MaxRows)
	for _, layer := range vision.LayerList("fullatt_block_indexes") {
		own.full[layer] = true
	}
	if side := own.merge * max(vision.Integer("patch_size", widest), 1); own.window < side {
		c.Errs.Add(vision.Pointer+"/window_size", "out_of_range",
			"window_size is %d, and a token alone stands for %d pixels a side", own.window, side)
	}
	a = readQwenVL(c, a, vision, sizes, own)
	return a
}

// windows are those of all pictures of a batch.
type windows struct {
	ends    step.T
	lengths []int64 // in patches
}

// windows is get_window_index: the windows of a picture from left to right and from top to bottom, cut at its edges.
func (m *qwenVL) windows(t *step.Tape, images int64) windows {
	if m.vision.window == 0 {
		return windows{ends: step.NoTensor}
	}
	in := func() step.T { return t.Input(1, step.I64) }
	// The variables that live from one picture to the next: height and width in tokens, padding, numbers of windows.
	var former []step.T
	set := func(k int, xs ...step.T) {
		for i, x := range xs {
			if k+i < len(former) {
				t.Drop(former[k+i])
				former[k+i] = x
			} else {
				former = append(former, x)
			}
		}
	}
	two := func() {
		a, b := in(), in()
		t.Drop(a, b)
	}
	derived := func(k int) {
		step := in()
		set(k, in())
		t.Drop(step)
	}
	for range images {
		height, width := in(), in()
		set(0, height, width)
		two()
		for k := range 4 {
			derived(2 + k)
		}
		t.Drop(in())
		two()
	}
	for _, x := range former {
		t.Drop(x)
	}
	lengths := m.windowLengths(t.Shape.Height, t.Shape.Width)
	listed := int64(len(lengths))*images + 1
	w := windows{}
	for range images {
		for _, n := range lengths {
			if n > 0 {
				w.lengths = append(w.lengths, n)
			}
		}
	}
	all := t.Input(listed, step.F32) // 32-bit integers
	w.ends = t.Input(int64(len(w.lengths))+1, step.F32)
	t.Drop(all)
	return w
}

// windowLengths is how many patches each window of one picture has. There is a row and a column of windows more than
// the picture fills where it fills them exactly, which are empty.
func (m *qwenVL) windowLengths(height, width int64) []int64 {
	token := m.own.Picture.Patch * m.vision.merge
	side := m.vision.window / m.vision.merge / m.own.Picture.Patch
	h, w := height/token, width/token
	var lengths []int64
	for top := int64(0); top <= h; top += side {
		for left := int64(0); left <= w; left += side {
			rows, columns := min(side, h-top), min(side, w-left)
			lengths = append(lengths, rows*columns*m.vision.merge*m.vision.merge)
		}
	}
	return lengths
}
