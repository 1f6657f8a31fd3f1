package estimator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/encoderdecoders"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// repeatedForFlash are the families whose FlashAttention2 classes repeated grouped keys and values (transformers 4.47).
var repeatedForFlash = map[string]bool{"mistral": true, "mixtral": true, "qwen2": true, "qwen2_moe": true,
	"starcoder2": true, "phi3": true}

// ownLosses are the families whose classes computed their loss themselves (transformers 4.48).
var ownLosses = map[string]bool{"gpt2": true, "gpt_neox": true, "gpt_bigcode": true, "opt": true, "falcon": true,
	"bloom": true, "mpt": true}

// switches set what a row of the table of releases says, and tell whether the job makes use of it.
var switches = map[release.Switch]func(*resolved) bool{
	release.ShiftsLogits:  func(r *resolved) bool { return set(&r.recipe.ShiftsLogits) },
	release.UpcastInModel: func(r *resolved) bool { return set(&r.recipe.UpcastInModel) },
	release.BuffersMasks: func(r *resolved) bool {
		if r.arch.Family != "gpt_neox" {
			return false
		}
		r.arch.BufferSide = r.arch.MaxPositions
		return true
	},
	release.LossInModel: func(r *resolved) bool {
		return ownLosses[r.arch.Family] && !r.arch.NanoGPT() && set(&r.recipe.LossInModel)
	},
	release.RepeatsKVForSDPA: func(r *resolved) bool {
		return r.recipe.Attention == step.AttentionSDPA && set(&r.recipe.RepeatsKV)
	},
	release.RepeatsKVForFlash: func(r *resolved) bool {
		return r.recipe.Attention == step.AttentionFlash && repeatedForFlash[r.arch.Family] && set(&r.recipe.RepeatsKV)
	},
	release.KeepsSoftmaxInput: func(r *resolved) bool { return set(&r.recipe.KeepsSoftmaxInput) },
	release.KeepsGradients: func(r *resolved) bool { // nanoGPT's train.py asks for None
		return !r.arch.NanoGPT() && set(&r.recipe.KeepsGradients)
	},
	release.TwoTemporaries: func(r *resolved) bool { return set(&r.recipe.TwoTemporaries) },
	release.LoadsAllKernels: func(r *resolved) bool {
		r.cuda = memory.ContextEager
		return true
	},
	release.LoadsAllKernels11: func(r *resolved) bool {
		r.cuda = memory.ContextCUDA11
		return true
	},
	release.CarvesSections: func(r *resolved) bool { return r.fsdp != nil && r.fsdp.Apart && !r.fsdp.Meta },
	release.WidensShards:   func(r *resolved) bool { return r.fsdp != nil && r.fsdp.widened },
	release.LosesWideShards: func(r *resolved) bool {
		return r.fsdp != nil && !r.fsdp.flat && r.fsdp.Stored.Half() && r.recipe.Stored.Half() && r.by.widens == yes
	},
	release.FlattensAdapters: func(r *resolved) bool {
		return r.arch.LoRA != nil && r.arch.Flattened
	},
	release.KeepsPackedInputs:   func(r *resolved) bool { return r.adapted && set(&r.recipe.KeepsPackedInputs) },
	release.CheckpointsWrappers: func(r *resolved) bool { return r.fsdp != nil && r.fsdp.keepsReruns },
	// The next three are looked up with the field.
	release.HandsOnProjections: func(r *resolved) bool {
		return r.arch.Family == "gpt_bigcode" && r.recipe.CheckpointEvery > 0 &&
			set(&r.recipe.Software.HandsOnProjections)
	},
	release.IgnoresCheckpointing: func(*resolved) bool { return false },
	release.NotReentrant:         func(r *resolved) bool { return r.reentranceBy == release.NotReentrant },
	release.NotReentrantInTRL:    func(r *resolved) bool { return r.reentranceBy == release.NotReentrantInTRL },
	release.ReturnsWorkspace:     func(r *resolved) bool { return set(&r.recipe.Software.ReturnsWorkspace) },
	release.UnifiesWorkspaces:    func(r *resolved) bool { return set(&r.recipe.Software.UnifiesWorkspaces) },
	release.CopiesUpdates:        func(r *resolved) bool { return set(&r.recipe.Software.CopiesUpdates) },
	release.HooksTowers:          func(r *resolved) bool { return set(&r.recipe.Software.HooksTowers) },
	release.DropsCacheFirst:      func(r *resolved) bool { return set(&r.recipe.Software.DropsCacheFirst) },
	release.ReturnsStatesAlone:   func(r *resolved) bool { return set(&r.recipe.Software.ReturnsStatesAlone) },
	release.PacksNorms:           func(r *resolved) bool { return set(&r.recipe.Software.PacksNorms) },
	release.SeedsEfficient:       func(r *resolved) bool { return set(&r.recipe.Software.SeedsEfficient) },
	release.GroupsEfficient:      func(r *resolved) bool { return set(&r.recipe.Software.GroupsEfficient) },
	release.SortsFewerBits:       func(r *resolved) bool { return set(&r.recipe.Software.SortsFewerBits) },
	release.PadsScans:            func(r *resolved) bool { return set(&r.recipe.Software.PadsScans) },
	release.RoundsFlashHeads:     func(r *resolved) bool { return set(&r.recipe.Software.RoundsFlashHeads) },
	release.WidensWorkspaces:     func(r *resolved) bool { return set(&r.recipe.Software.WidensWorkspaces) },
	release.PrefersCuDNN:         func(r *resolved) bool { return set(&r.recipe.Software.PrefersCuDNN) },
	release.LoadsCUDA13:          func(r *resolved) bool { return set(&r.recipe.Software.LoadsCUDA13) },
	release.BroadcastsMask:       func(r *resolved) bool { return set(&r.recipe.Software.BroadcastsMask) },
	release.ReturnsTower: func(r *resolved) bool {
		return r.arch.Sees() && set(&r.recipe.Software.ReturnsTower)
	},
	release.PlainPictureLoss: func(r *resolved) bool {
		return r.arch.Family == "gemma3" && r.arch.HasTower() && set(&r.recipe.Software.PlainPictureLoss)
	},
	release.SumsMask:           func(r *resolved) bool { return set(&r.recipe.Software.SumsMask) },
	release.OffsetsPositions:   func(r *resolved) bool { return set(&r.recipe.Software.OffsetsPositions) },
	release.KeepsFrequencies:   func(r *resolved) bool { return set(&r.recipe.Software.KeepsFrequencies) },
	release.UntiesBias:         func(r *resolved) bool { return set(&r.recipe.Software.UntiesBias) },
	release.ScalesInEmbedding:  func(r *resolved) bool { return set(&r.recipe.Software.ScalesInEmbedding) },
	release.GathersSegments:    func(r *resolved) bool { return set(&r.recipe.Software.GathersSegments) },
	release.RenamesViT:         func(r *resolved) bool { return set(&r.recipe.Software.RenamesViT) },
	release.LaysKeysOutFirst:   func(r *resolved) bool { return set(&r.recipe.Software.LaysKeysOutFirst) },
	release.DropsMaskBuffers:   func(r *resolved) bool { return set(&r.recipe.Software.DropsMaskBuffers) },
	release.MasksByLibrary:     func(r *resolved) bool { return set(&r.recipe.Software.MasksByLibrary) },
	release.DeclaresHeadsFirst: func(r *resolved) bool { return set(&r.recipe.Software.DeclaresHeadsFirst) },
	release.ReassignsScores:    func(r *resolved) bool { return set(&r.recipe.Software.ReassignsScores) },
	release.ReturnsProbabilities: func(r *resolved) bool {
		set(&r.recipe.Software.ReturnsProbabilities)
		if r.arch.SDPAOnly && r.arch.InterfacesLater {
			r.arch.SDPAOnly, r.recipe.Attention = false, r.asked
		}
		return r.recipe.Attention == step.AttentionEager
	},
	release.InterfacesT5: func(r *resolved) bool {
		set(&r.recipe.Software.InterfacesT5)
		return r.arch.EagerOnly && r.arch.InterfacesLater
	},
	release.LaysT5BiasOut: func(r *resolved) bool {
		if !r.arch.EagerOnly || !r.arch.InterfacesLater {
			return false
		}
		r.arch.EagerOnly, r.recipe.Attention = false, r.asked
		return r.asked != step.AttentionEager
	},
	release.AccumulatesAtomic: func(r *resolved) bool { return set(&r.recipe.Software.AccumulatesAtomically) },
	release.UnscriptsBuckets:  func(r *resolved) bool { return set(&r.recipe.Software.UnscriptsBuckets) },
	release.ProjectsTowers:    func(r *resolved) bool { return set(&r.recipe.Software.ProjectsTowers) },
	release.MasksMinimumFirst: func(r *resolved) bool { return set(&r.recipe.Software.MasksMinimumFirst) },
	release.FreesGathersFirst: func(r *resolved) bool { return set(&r.recipe.Software.FreesGathersFirst) },
	release.SharesClampTies:   func(r *resolved) bool { return set(&r.recipe.Software.SharesClampTies) },
	release.TiesT5: func(r *resolved) bool {
		set(&r.recipe.Software.TiesT5)
		tied := r.arch.Tied
		encoderdecoders.TieT5(&r.arch)
		return tied != r.arch.Tied
	},
	release.SolvesDeltaRule:      func(r *resolved) bool { return set(&r.recipe.Software.SolvesDeltaRule) },
	release.ComputesPixtral:      func(r *resolved) bool { return set(&r.recipe.Software.ComputesPixtralPositions) },
	release.RepeatsWideHeads:     func(r *resolved) bool { return set(&r.recipe.Software.RepeatsWideHeads) },
	release.InterfacesNemotron:   func(r *resolved) bool { return set(&r.recipe.Software.InterfacesNemotron) },
	release.InterfacesStableLM:   func(r *resolved) bool { return set(&r.recipe.Software.InterfacesStableLM) },
	release.TypesXIELU:           func(r *resolved) bool { return set(&r.recipe.Software.TypesXIELU) },
	release.BuffersPositions:     func(r *resolved) bool { return set(&r.recipe.Software.BuffersPositions) },
	release.ViewsHeadsFirst:      func(r *resolved) bool { return set(&r.recipe.Software.ViewsHeadsFirst) },
	release.LeavesLogits:         func(r *resolved) bool { return set(&r.recipe.Software.LeavesLogits) },
	release.CachesLatents:        func(r *resolved) bool { return set(&r.recipe.Software.CachesLatents) },
	release.NarrowsSinks:         func(r *resolved) bool { return set(&r.recipe.Software.NarrowsSinks) },
	release.InterfacesModernBERT: func(r *resolved) bool { return set(&r.recipe.Software.InterfacesModernBERT) },
	release.MasksIdleWindow:      func(r *resolved) bool { return set(&r.recipe.Software.MasksIdleWindow) },
	release.MasksConvolutions:    func(r *resolved) bool { return set(&r.recipe.Software.MasksConvolutions) },
	release.CachesConvolutions:   func(r *resolved) bool { return set(&r.recipe.Software.CachesConvolutions) },
	release.ConvolvesByFunction:  func(r *resolved) bool { return set(&r.recipe.Software.ConvolvesByFunction) },
	release.InterfacesBART:       func(r *resolved) bool { return set(&r.recipe.Software.InterfacesBART) },
	release.InterfacesElectra:    func(r *resolved) bool { return set(&r.recipe.Software.InterfacesElectra) },
	release.GroupsGranite:        func(r *resolved) bool { return set(&r.recipe.Software.GroupsGranite) },
	release.InterfacesGranite:    func(r *resolved) bool { return set(&r.recipe.Software.InterfacesGranite) },
	release.GroupsExperts:        func(r *resolved) bool { return set(&r.recipe.Software.GroupsExperts) },
	release.FillsIdleRows:        func(r *resolved) bool { return set(&r.recipe.Software.FillsIdleRows) },
	release.CopiesExperts:        func(r *resolved) bool { return set(&r.recipe.Software.CopiesExperts) },
	release.ConvertsTargets: func(r *resolved) bool {
		return set(&r.recipe.Software.ConvertsTargets) && r.foldsAdapters()
	},
	release.ConvertsAllLinear: func(r *resolved) bool {
		return set(&r.recipe.Software.ConvertsAllLinear) && r.foldsAdapters()
	},
	release.ConvertsQwen2MoE: func(r *resolved) bool {
		return set(&r.recipe.Software.ConvertsQwen2MoE) && r.foldsAdapters()
	},
	release.FoldsFactors: func(r *resolved) bool {
		return set(&r.recipe.Software.FoldsFactors) && r.foldsAdapters()
	},
	release.CachesWindow: func(r *resolved) bool { return set(&r.recipe.Software.CachesWindow) },
	release.CachesInTraining: func(r *resolved) bool {
		set(&r.recipe.Software.CachesInTraining)
		if !r.arch.CachesInTrainingLater {
			return false
		}
		r.arch.CachesInEvaluation = true
		if r.recipe.CheckpointEvery > 0 {
			return false
		}
		r.arch.UseCache, r.recipe.UseCache = true, !r.ownModules
		return true
	},
	release.CapsWrittenOut: func(r *resolved) bool {
		if !r.arch.CapsScores || r.asked != step.AttentionSDPA {
			return false
		}
		r.arch.EagerOnly, r.recipe.Attention = true, step.AttentionEager
		return true
	},
	release.CapsSeenLogits: func(r *resolved) bool {
		set(&r.recipe.Software.CapsSeenLogits)
		return r.arch.Sees() && r.arch.CapsScores
	},
	release.LeavesVolta: func(*resolved) bool { return false }, // nothing of the replay: a note
	// looked up with the framework
	release.SetsUseCache: func(r *resolved) bool {
		return r.by.cache == trainersWord && r.filled && !r.ownLoop && !r.readsOtherConfig()
	},
	release.DealsByFSDP2: func(r *resolved) bool {
		return r.fsdp != nil && r.fsdp.unsaid && r.by.flat == formerly
	},
	// looked up with the adapters
	release.LeavesBase:       (*resolved).trainsOnQuantised,
	release.LeavesBaseInRLOO: (*resolved).trainsOnQuantised,
	release.LeavesBaseInDPO:  (*resolved).trainsOnQuantised,
	release.LeavesBaseInKTO:  (*resolved).trainsOnQuantised,
	// looked up with the objective
	release.KeepsLogits:      func(r *resolved) bool { return r.recipe.Objective != nil && r.arch.WholeLogits },
	release.ChunksSFTLoss:    func(r *resolved) bool { return r.recipe.Objective != nil },
	release.FusesTRLHead:     func(r *resolved) bool { return r.recipe.Objective != nil },
	release.MultipliesAngles: func(r *resolved) bool { return set(&r.recipe.Software.MultipliesAngles) },
}

func set(flag *bool) bool {
	*flag = true
	return true
}

// litgptBitsandbytes is the bitsandbytes that litgpt 0.4 asks for.
const litgptBitsandbytes = "0.42.0"

// formerTransformers is the transformers after which the models that are not transformers' own are written.
var formerTransformers = map[string]string{"transformers": "4.57.6"}

// applyVersions sets what the job's releases do otherwise than the rest, and notes what that of named ones changed.
func (r *resolved) applyVersions() {
	r.cuda = memory.ContextLazy
	r.assumeStack()
	defaults, unshown := r.defaults(), false
	for _, c := range r.inReleases(defaults) {
		if _, named := release.Parse(r.given[c.Library]); switches[c.Switch](r) && named {
			r.changes = append(r.changes, c.What)
			unshown = unshown || !tracedWith(c)
		}
	}
	if r.arch.EagerFormerly && !r.recipe.Software.InterfacesElectra {
		r.arch.EagerOnly, r.recipe.Attention = true, step.AttentionEager
	}
	r.arch.Software = r.recipe.Software
	traced, found := release.Traced(r.releaseOf("torch", defaults), r.releaseOf("transformers", defaults))
	eager := !r.recipe.Compile && !r.recipe.CompileBlocks && r.copies < 2
	if found && !unshown && !r.arch.StandInExperts() && traced.Proves(r.arch.Family, eager) {
		r.provenOn = traced.Name
	}
}

// tracedWith says whether a change is in the traced releases of its library, or is one of torch or transformers, whose
// releases decide what is proven.
func tracedWith(c *release.Change) bool {
	if c.Library == "torch" || c.Library == "transformers" {
		return true
	}
	return slices.ContainsFunc(release.Stacks(), func(s release.Stack) bool {
		v, known := release.Parse(s.Releases[c.Library])
		return known && c.Holds(v)
	})
}

// assumeStack is the stack of a framework that has no transformers in it: its models are replayed as they were held
// against the former one.
func (r *software) assumeStack() {
	if r.by.rewritten == yes {
		r.stack = release.Assumed(formerTransformers)
	}
}

// softwareAhead is what the job's releases make of the model, known before the rest of the job is: what modules it has,
// which adapters are put on.
func (r *resolved) softwareAhead() step.Software {
	ahead := *r
	ahead.assumeStack()
	for _, c := range ahead.inReleases(ahead.defaults()) {
		switches[c.Switch](&ahead)
	}
	return ahead.recipe.Software
}

// foldsAdapters says whether adapters are on a parameter that is no linear layer.
func (r *resolved) foldsAdapters() bool { return r.arch.LoRA != nil && r.arch.LoRA.Folded() }

// defaults are the releases of what a job does not name.
func (r *software) defaults() map[string]string {
	if r.by == nil || len(r.by.releases) == 0 {
		return r.stack.Releases
	}
	defaults := maps.Clone(r.stack.Releases)
	maps.Copy(defaults, r.by.releases)
	return defaults
}

// holds says whether a change is in the job's releases.
func (r *software) holds(s release.Switch) bool {
	return slices.ContainsFunc(r.inReleases(r.defaults()), func(c *release.Change) bool { return c.Switch == s })
}

// inReleases are the changes that are in the job's releases, or are said to be.
func (r *software) inReleases(defaults map[string]string) []*release.Change {
	found := release.In(r.given, defaults)
	if len(r.held) == 0 {
		return found
	}
	var out []*release.Change
	all := release.Changes()
	for i := range all {
		c := &all[i]
		held, said := r.held[c.Switch]
		if held || !said && slices.Contains(found, c) {
			out = append(out, c)
		}
	}
	return out
}

// releaseOf is the named release of a library, or the assumed one.
func (r *software) releaseOf(library string, defaults map[string]string) release.Version {
	v, ok := release.Parse(r.given[library])
	if !ok {
		v, _ = release.Parse(defaults[library])
	}
	return v
}

// reference is the torch whose allocations are replayed, as versions.reference says it.
func reference(s *release.Stack) string { return "torch-" + s.Releases["torch"] }

// torch is its release as it is written.
func (r *software) torch() string { return cmp.Or(r.given["torch"], r.defaults()["torch"]) }

// transformers is the release of transformers whose models are replayed.
func (r *software) transformers() string { return "transformers " + r.stack.Releases["transformers"] }
