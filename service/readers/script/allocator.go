package script

import (
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// allocator reads how the program sets PyTorch's allocator itself.
func (r *job) allocator() {
	if v, ok := r.Code.Environ.Get(tool.AllocatorNames...); ok {
		v.Origin.Kind = setting.File
		r.Allocator(v)
	}
}
