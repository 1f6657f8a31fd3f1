// Package hybrids has the decoders whose layers differ in more than a window: short convolutions (LFM2), gated delta
// nets (Qwen3-Next, Qwen3.5), and heads and caches of several kinds (Gemma 4).
package hybrids
