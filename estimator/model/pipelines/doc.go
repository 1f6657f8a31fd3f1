// Package pipelines has the denoisers of diffusers that scripts train (UNets, Stable Diffusion 3, FLUX), with what
// stands beside them: the autoencoder, the text encoders, a ControlNet, a moving average.
package pipelines
