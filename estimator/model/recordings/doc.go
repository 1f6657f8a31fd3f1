// Package recordings runs models that were recorded: their operations, as they are, compiled, with attention
// checkpointed alone, or with adapters on their linear layers.
package recordings
