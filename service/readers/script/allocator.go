package script

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// allocator reads how the program sets PyTorch's allocator (torch 2.9 docs/source/notes/cuda.rst: the variable is
// PYTORCH_ALLOC_CONF, and PYTORCH_CUDA_ALLOC_CONF before).
func (r *job) allocator() {
	v, ok := r.Code.Environ.Get("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
	if !ok {
		return
	}
	v.Origin.Kind = setting.File
	if v.Unknown != "" {
		r.Out.Uncertain("/training/allocator", "the allocator is PyTorch's own: %s (%s) %s", v.Origin.Key,
			v.Origin.At.Where(), v.Unknown)
		return
	}
	for _, option := range strings.Split(v.String(), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(option), ":")
		switch {
		case key == "expandable_segments":
			if strings.EqualFold(value, "true") {
				r.Out.Put("/training/allocator", map[string]any{"expandable_segments": true}, v)
			}
		case key == "pinned_use_cuda_host_register", key == "pinned_num_register_threads", key == "":
			// of the host's memory
		default:
			r.Out.Uncertain("/training/allocator", "%s (%s) is left aside: %s of it is not modelled", v.Origin.Key,
				v.Origin.At.Where(), option)
		}
	}
}
