// Package undescribed puts models together that no family describes: from the numbers of a job, or from a config.json
// whose model_type is not known here. Where the numbers are those of a described family exactly, it is that; else the
// block is Llama's with what is said of it, or the model is refused.
package undescribed
