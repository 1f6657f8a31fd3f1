// Package pairing is the arithmetic of micro-batch × gradient accumulation × GPUs = effective batch: which pairs reach
// one ([Batch.Pairs]), which batches are near it, and how each tool is told a pair ([Settings]).
package pairing
