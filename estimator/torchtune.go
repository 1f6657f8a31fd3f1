package estimator

import (
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
)

// writeAsTorchtune makes the model torchtune's own where its recipes for one GPU train it and there is one like it.
func (r *resolved) writeAsTorchtune(t *Training) {
	if r.by.writesTune != yes || t.Distributed != nil {
		return
	}
	rewritten.WriteAsTorchtune(&r.arch)
	r.ownModules = r.ownModules && !rewritten.Torchtune(&r.arch)
}

// compileAsTorchtune is training.compile under torchtune, which compiles every layer inside its checkpoint, and the
// loss where that is taken chunk by chunk: the loss that compile_loss makes of another is dropped by its recipes. What
// Inductor makes of adapters, and of layers in float32, was not traced: they are replayed as they run uncompiled.
// Source: torchtune/training/_compile.py, recipes/full_finetune_single_device.py, 0.6.1.
func (r *resolved) compileAsTorchtune(t *Training, c *Compile) {
	rc := &r.recipe
	rc.Compile, rc.CheckpointsAround = false, c.Model
	rc.CompileBlocks = c.Model && t.LoRA == nil && r.compilesBlocks(t)
	rc.CompileLoss = c.Loss && t.Loss != nil && t.Loss.Kind == "chunked"
}

// uncompiledLayers says that layers are replayed as they run uncompiled though they are compiled.
func (r *work) uncompiledLayers(t *Training) bool {
	return rewritten.Torchtune(&r.arch) && t.Compile != nil && t.Compile.Model && !r.recipe.CompileBlocks
}

// chunksOfTorchtune says whether a loss in chunks is that of torchtune's released recipes, whose model returns a list
// of the chunks' logits (CEWithChunkedOutputLoss).
func (r *work) chunksOfTorchtune(kind step.LossKind) bool {
	return kind == step.LossChunked && rewritten.Torchtune(&r.arch)
}
