package estimator

import (
	"github.com/vramplan/vramplan/estimator/model/rewritten"
)

// writeAsTorchtune makes the model torchtune's own where its recipes for one GPU train it and there is one like it.
func (r *resolved) writeAsTorchtune(t *Training) {
	if r.by.writesTune != yes || t.Distributed != nil {
		return
	}
	rewritten.WriteAsTorchtune(&r.arch)
	r.ownModules = r.ownModules && !rewritten.Torchtune(&r.arch)
}

// uncompiledLayers says that layers are replayed as they run uncompiled though they are compiled.
func (r *work) uncompiledLayers(t *Training) bool {
	return rewritten.Torchtune(&r.arch) && t.Compile != nil && t.Compile.Model && !r.recipe.CompileBlocks
}
