// Package decoders has the causal language models of one kind of layer with an MLP, a file a family. Most are Llama's
// decoder of package blocks with a few traits of their own; the older ones (GPT-2, GPT-J, Bloom, Falcon, OPT, MPT)
// have a forward of their own.
package decoders
