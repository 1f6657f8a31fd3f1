// Package mixtures has the decoders with mixtures of experts, a file a family: Llama's decoder with another MLP, and
// DeepSeek's with latent attention besides.
package mixtures
