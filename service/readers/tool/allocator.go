package tool

import (
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// AllocatorNames are the variables that set PyTorch's allocator (torch 2.9 docs/source/notes/cuda.rst: the second is
// the former one).
var AllocatorNames = []string{"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}

// Allocator reads how a variable sets PyTorch's allocator.
func (r *Job) Allocator(v setting.Value) {
	r.allocated = true
	if v.Unknown != "" {
		r.Out.Uncertain("/training/allocator", "the allocator is PyTorch's own: %s (%s) %s", v.Origin.Key,
			v.Origin.At.Where(), v.Unknown)
		return
	}
	said := map[string]any{}
	for _, option := range strings.Split(v.String(), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(option), ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case key == "expandable_segments":
			if strings.EqualFold(value, "true") {
				said[key] = true
			}
		case key == "pinned_use_cuda_host_register", key == "pinned_num_register_threads", key == "":
			// of the host's memory
		case key == "max_split_size_mb" && err == nil, key == "garbage_collection_threshold" && err == nil:
			said[key] = number
		case key == "roundup_power2_divisions" && err == nil:
			if number != 0 { // which rounds nothing
				said[key] = number
			}
		default:
			r.Out.Uncertain("/training/allocator", "%s (%s) is left aside: %s of it is not modelled", v.Origin.Key,
				v.Origin.At.Where(), option)
		}
	}
	if len(said) > 0 {
		r.Out.Put("/training/allocator", said, v)
	}
}

// SetAllocator reads the variables that the script gives to the command, where the program sets none itself.
func (r *Job) SetAllocator() {
	if r.Launch == nil || r.Launch.Env == nil || r.allocated {
		return
	}
	for _, name := range AllocatorNames {
		if w, ok := r.Launch.Env(name); ok && (!w.Known() || w.Text != "") {
			r.Allocator(launch.Environment(w, name))
			return
		}
	}
}
