// Package model is the front of what trains: an architecture from a config.json, a catalog entry, numbers, or a
// recording, and the table of the families that are described.
package model

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/pictures"
)

// What callers name of architectures.
type (
	// Architecture is a model in numbers.
	Architecture = arch.Architecture
	// LoRA are low-rank adapters on a frozen model.
	LoRA = arch.LoRA
	// Biases says which biases are trained beside them, RankPattern which modules have adapters of another rank.
	Biases      = arch.Biases
	RankPattern = arch.RankPattern
	// Preset is one entry of the model catalog.
	Preset = arch.Preset
	// NanoGPT holds the model keys of a nanoGPT configuration.
	NanoGPT = arch.NanoGPT
	// Dimensions describes a decoder or encoder by its numbers.
	Dimensions = arch.Dimensions
	// Head is what stands on top of the model.
	Head = arch.Head
	// HeadNorms says that queries and keys are normed.
	HeadNorms = arch.HeadNorms
	// AttentionBias says which projections of attention have one.
	AttentionBias = arch.AttentionBias
	// Pictures are those of every sequence.
	Pictures = arch.Pictures
)

// The values of AttentionBias; empty where nothing is said.
const (
	AttentionBiasNone = arch.AttentionBiasNone
	AttentionBiasAll  = arch.AttentionBiasAll
	AttentionBiasQKV  = arch.AttentionBiasQKV
)

// AllLinear is the target that stands for every linear layer of the model but its head.
const AllLinear = arch.AllLinear

// The values of Biases.
const (
	NoBiases        = arch.NoBiases
	AllBiases       = arch.AllBiases
	BiasesOfAdapted = arch.BiasesOfAdapted
)

// Wholes lists the model types of models with towers that are trained on text.
func Wholes() []string { return pictures.Wholes() }
