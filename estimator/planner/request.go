package planner

import (
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/layouts"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// Request asks for a plan.
type Request struct {
	// Input is the job as it runs today, its names resolved. The plan is made for
	// the first of its GPUs.
	Input estimator.Input
	// EffectiveBatch counts sequences over all GPUs and accumulation steps; 0
	// means what the job gives today.
	EffectiveBatch int64
	// MeasuredSteps are steps that were timed, to which the time model is fitted.
	MeasuredSteps []MeasuredStep
	// Cluster asks for Layouts in place of the options on one card; nil for none.
	Cluster *layouts.Cluster
	// Catalog holds the cards among which SmallestGPUs looks, and Slices the parts
	// of cards (MIG) among which SmallestSlices does.
	Catalog, Slices []estimator.GPU
	// Presets are the models among which LargestModel looks.
	Presets []*model.Preset
	// Frontier asks for Frontier, Sequences, Grid and LargestModel.
	Frontier bool
	// Brief leaves out what takes most of the time to find and hardly anybody reads: every LowBytes, and of what cannot
	// fit how much of it the allocator would reserve (AtLeast). Every verdict, and every figure of what may fit, is
	// that of a whole plan; of several sets of settings with which a job fits it may name another.
	Brief bool
}

// Cluster is what a job may be spread over.
type Cluster = layouts.Cluster

// Estimator answers what one candidate job takes.
type Estimator = asking.Estimator

// What a plan consists of has a package of its own, which knows nothing of how it is found.
type (
	// Plan is the answer, and its pages.
	Plan = document.Plan
	// Choice is a pair of micro-batch and gradient accumulation.
	Choice = pairing.Choice
	// Pair is one with what it takes.
	Pair = document.Pair
	// Option is a way out.
	Option = document.Option
	// StepTime is how long a step takes beside another.
	StepTime = document.StepTime
	// Today is what runs.
	Today = document.Today
	// Patch is a way out as a change of the user's own files.
	Patch = document.Patch
	// Layout is a way to put the job on a cluster.
	Layout = document.Layout
	// Layouts are those of a cluster.
	Layouts = document.Layouts
	// LeftOutLayout is one that is not ranked.
	LeftOutLayout = document.LeftOutLayout
)
