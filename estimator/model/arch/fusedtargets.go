package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/release"
)

// fusedNames are the linear layers that a mixture had in transformers 4 and has no more in 5, where its router is a
// module that is none and its experts are two tensors for all of them.
type fusedNames struct{ router, gate, up, down string }

var (
	mixtralNames = fusedNames{router: "gate", gate: "w1", up: "w3", down: "w2"}
	qwenNames    = fusedNames{router: "gate", gate: "gate_proj", up: "up_proj", down: "down_proj"}
)

// convertedTypes are the model types for which peft takes those names for the tensors that came in their place.
// Sources: transformers/conversion_mapping.py (_MODEL_TO_CONVERSION_PATTERN), 5.0.0, 5.5.0, 5.10.0, 5.14.0, 5.17.0 and
// 5.23.0, of which mixtral and qwen2_moe went between 5.5 and 5.10 and afmoe is not in 5.0.0;
// peft/utils/transformers_weight_conversion.py (_MOE_TARGET_MODULE_MAPPING, and mixtral, which it adds in all
// releases),
// 0.19 to 0.21.
var convertedTypes = map[string]fusedNames{
	"mixtral": mixtralNames, "minimax": mixtralNames, "minimax_m2": mixtralNames,
	"afmoe": qwenNames, "beam": qwenNames, "cohere2_moe": qwenNames, "deepseek_v2": qwenNames, "deepseek_v3": qwenNames,
	"deepseek_v32": qwenNames, "dots1": qwenNames, "ernie4_5_moe": qwenNames, "exaone_moe": qwenNames,
	"flex_olmo": qwenNames, "glm4_moe": qwenNames, "glm4_moe_lite": qwenNames, "glm4v_moe": qwenNames,
	"glm_moe_dsa": qwenNames, "hunyuan_v1_moe": qwenNames, "longcat_flash": qwenNames, "mellum": qwenNames,
	"olmoe": qwenNames, "qwen2_moe": qwenNames, "qwen3_moe": qwenNames, "qwen3_next": qwenNames,
	"qwen3_omni_moe": qwenNames, "qwen3_omni_moe_text": qwenNames, "qwen3_omni_moe_thinker": qwenNames,
	"solar_open": qwenNames,
}

// convertsTargets is peft that adapts the tensors of transformers 5's experts where a job names the linear layers
// that transformers 4 had in their place, ConvertsAllLinear does so for "all-linear", and ConvertsQwen2MoE counts
// Qwen2-MoE among the mixtures that changed.
var convertsTargets = Of((*Architecture).foldsAdapters, release.Declare("converts-targets", release.Change{
	Library: "peft", After: "0.18.1", From: "0.19",
	What: "peft 0.19 takes the names of the linear layers that mixtures had in transformers 4 (gate_proj, up_proj and " +
		"down_proj, or w1, w2 and w3, and gate) for the tensors that transformers 5 has in their place, and dense " +
		"layers of those names get no adapters; peft 0.18 adapts the linear layers that are left",
	Source: "utils/transformers_weight_conversion.py (_convert_peft_config_moe), 0.19.0, 0.20.0 and 0.21.2",
	Shown:  "traces of mixtures with adapters on experts",
}))

// convertsQwen2MoE is peft that adapts the tensors of transformers 5's experts where a job names the linear layers
// that transformers 4 had in their place, ConvertsAllLinear does so for "all-linear", and ConvertsQwen2MoE counts
// Qwen2-MoE among the mixtures that changed.
var convertsQwen2MoE = Of((*Architecture).foldsAdapters, release.Declare("converts-qwen2-moe", release.Change{
	Library: "transformers", From: "5.0", To: "5.6",
	What: "transformers 5.0 to 5.5 count Qwen2-MoE among the mixtures whose targets peft converts; 5.10 and later " +
		"do not list it, and 5.6 to 5.9 are taken to be like them",
	Source: "conversion_mapping.py (_MODEL_TO_CONVERSION_PATTERN), 5.0.0, 5.5.0, 5.10.0, 5.14.0, 5.17.0 and 5.23.0",
	Shown:  "what peft trains of Qwen2-MoE with 5.23.0, which does not list it; with 5.0 to 5.5 nothing was counted",
}))

// converts says by which names peft means the experts' tensors of the model as the job's releases have it.
func (a *Architecture) converts() (names fusedNames, converts bool) {
	names, listed := convertedTypes[a.Family]
	s := &a.Software
	if a.Family == "qwen2_moe" && !s.Has(convertsQwen2MoE) {
		listed = false
	}
	return names, listed && s.Has(GroupsExperts) && s.Has(convertsTargets)
}

// fusedTargets are those tensors that get adapters.
type fusedTargets struct{ router, GateUp, Down bool }

// any says whether one of them does.
func (f fusedTargets) any() bool { return f.router || f.GateUp || f.Down }

// FoldedTensors are the tensors that get adapters, and the names by which linear layers get none for it.
func (l *LoRA) FoldedTensors() (what, dense string) {
	var tensors, names []string
	if l.Fused.GateUp {
		tensors = append(tensors, fmt.Sprintf("gate_up_proj (of rank %d, for two layers in one)", 2*l.Rank))
		names = append(names, l.names.gate, l.names.up)
	}
	if l.Fused.Down {
		tensors, names = append(tensors, "down_proj"), append(names, l.names.down)
	}
	what = "the router"
	if len(tensors) > 0 {
		what = strings.Join(tensors, " and ") + " of every expert"
		if l.Fused.router {
			what += ", and on the router"
		}
	}
	if !l.dropped {
		return what, ""
	}
	return what, strings.Join(names, ", ")
}

// leaf is the last part of a module's name.
func leaf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// all says that the targets are all linear layers.
func (l *LoRA) all() bool {
	return slices.ContainsFunc(l.Targets, func(target string) bool { return strings.EqualFold(target, AllLinear) })
}

// convertsAllLinear is peft that adapts the tensors of transformers 5's experts where a job names the linear layers
// that transformers 4 had in their place, ConvertsAllLinear does so for "all-linear", and ConvertsQwen2MoE counts
// Qwen2-MoE among the mixtures that changed.
var convertsAllLinear = Of((*Architecture).foldsAdapters, release.Declare("converts-all-linear", release.Change{
	Library: "peft", After: "0.19.1", From: "0.20",
	What:   "peft 0.20 does so for \"all-linear\", too, with which 0.19 stops",
	Source: "utils/transformers_weight_conversion.py (_resolve_string_target_modules), 0.19.1 and 0.20.0",
	Shown:  "traces of mixtures with adapters on experts",
}))

// convert takes the names of the linear layers that the model's experts were for their tensors, and only for them:
// dense layers and shared experts of those names get no adapters then. Source:
// peft/utils/transformers_weight_conversion.py (_convert_peft_config_moe, _resolve_string_target_modules), 0.21.
func (l *LoRA) convert(a *Architecture, pointer string, errs *invalid.List) {
	names, converts := a.converts()
	if !converts || l.Foreign {
		return
	}
	targets := l.Targets
	switch {
	case l.all() && l.Lists:
		targets = a.linearLeaves(*l)
	case l.all():
		if !a.Software.Has(convertsAllLinear) {
			errs.Add(pointer, "conflict",
				"peft 0.19 takes %q for a set of letters where transformers 5 has a mixture of "+
					"experts, finds no module of such a name and stops; name the modules, or use peft 0.20 or later",
				AllLinear)
			return
		}
		l.names, l.Fused = names, fusedTargets{router: true, GateUp: true, Down: true}
		return
	}
	var found fusedTargets
	var gate, up bool
	for _, target := range targets {
		switch leaf(target) {
		case names.router:
			found.router = true
		case names.gate:
			gate = true
		case names.up:
			up = true
		case names.down:
			found.Down = true
		}
	}
	if gate != up {
		present, missing := names.gate, names.up
		if up {
			present, missing = missing, present
		}
		errs.Add(pointer, "conflict",
			"peft cannot put adapters on %s without %s: the experts of %s have both in one tensor "+
				"(gate_up_proj) since transformers 5; name both, or none of them", present, missing, a.Family)
		return
	}
	found.GateUp = gate
	l.names, l.Fused = names, found
}

// linearLeaves are the last parts of the names of the model's linear layers, behind all of which l would put adapters.
func (a *Architecture) linearLeaves(l LoRA) []string {
	a.LoRA = &l
	b := Builder{A: a, Recorded: a.distinctLayers()}
	a.Modules(&b)
	a.LoRA = nil
	leaves := make([]string, len(b.linears))
	for i, name := range b.linears {
		leaves[i] = leaf(name)
	}
	return distinct(leaves)
}

// drops says that the module of this name gets no adapter since its name means experts.
func (l *LoRA) drops(name string) bool {
	if !l.Fused.any() {
		return false
	}
	switch leaf(name) {
	case l.names.router, l.names.gate, l.names.up, l.names.down:
		return true
	}
	return false
}

// refuseFolded refuses what peft refuses of adapters on tensors.
// Source: peft/tuners/lora/layer.py (ParamWrapper.__init__), 0.18 to 0.21.
func (l *LoRA) refuseFolded(pointer string, errs *invalid.List) {
	const where = "the experts or the router get adapters, which are tensors and no linear layers since transformers 5"
	if l.Dropout > 0 {
		errs.Add(pointer+"/dropout", "conflict",
			"%s, and peft stops there with dropout (lora.ParamWrapper does not work "+
				"with lora_dropout != 0); set dropout to 0, or name other target_modules", where)
	}
	if l.Decomposed {
		errs.Add(pointer+"/dora", "conflict",
			"%s, and peft stops there with DoRA (lora.ParamWrapper does not work with "+
				"use_dora=True); leave dora out, or name other target_modules", where)
	}
}
