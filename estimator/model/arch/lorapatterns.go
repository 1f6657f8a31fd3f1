package arch

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// pattern says that a target is a regular expression, which peft holds against the whole name of a module.
// Source: peft/tuners/tuners_utils.py (check_target_module_exists, re.fullmatch), 0.21.
func pattern(target string) bool { return strings.ContainsAny(target, `*+?()[]|\^$`) }

// compile reads the targets that are regular expressions. Only models that read pictures have modules whose names it
// takes one to tell apart, so that of others they stay names.
func (l *LoRA) compile(a *Architecture, pointer string, errs *invalid.List) {
	if !a.HasTower() {
		return
	}
	for _, target := range l.Targets {
		if !pattern(target) {
			continue
		}
		re, err := regexp.Compile("^(?:" + target + ")$")
		if err != nil {
			errs.Add(pointer, "unsupported", "%.200q is no regular expression that is understood here (RE2, without "+
				"lookaround): %v", target, err)
			continue
		}
		l.patterns = append(l.patterns, re)
	}
}

// Matched says that a regular expression among the targets stands for the module of this name.
func (b *Builder) Matched(name string) bool {
	if len(b.A.LoRA.patterns) == 0 {
		return false
	}
	matching, of := b.matches(name)
	if matching > 0 && matching < of {
		b.partly = name
	}
	return matching > 0
}

// matches says in how many of the layers a regular expression matches the module of this name, at most one of them
// where it stands outside the layers.
func (b *Builder) matches(name string) (matching, of int64) {
	of = 1
	whole, layered := b.whole(name)
	if layered {
		of = max(b.OfLayers, 1)
	}
	for i := range of {
		path := whole
		if layered {
			path = fmt.Sprintf(whole, i)
		}
		for _, re := range b.A.LoRA.patterns {
			if re.MatchString(path) {
				matching++
				break
			}
		}
	}
	return matching, of
}

// whole is the name by which named_modules has a module of a model that sees, with the number of the layer left open
// where it stands in one. Source: the modules of transformers 4.57 (modeling_llava.py, modeling_paligemma.py,
// modeling_gemma3.py, modeling_qwen2_vl.py, modeling_smolvlm.py).
func (b *Builder) whole(name string) (whole string, layered bool) {
	for _, part := range b.Paths {
		if rest, ok := strings.CutPrefix(name, part.Short); ok {
			return part.Long + rest, strings.Contains(part.Long, "%d")
		}
	}
	return "model." + name, false
}

// Path is how the short names of modules begin, and how their whole ones do.
type Path struct{ Short, Long string }

// TowerPaths and TextPaths are those of the two parts of a model that sees. Short names of its text model are those
// within a layer.
func TowerPaths(family string) []Path {
	within := "model.vision_tower.vision_model.encoder.layers.%d."
	if family == "smolvlm" {
		within = "model.vision_model.encoder.layers.%d."
	}
	return []Path{{"visual.blocks.", "model.visual.blocks.%d."}, {"vision_model.", within}}
}

// TextPaths are those of the text model.
func TextPaths(family string) []Path {
	within := "model.language_model.layers.%d."
	if family == "smolvlm" {
		within = "model.text_model.layers.%d."
	}
	return []Path{{"lm_head", "lm_head"}, {"", within}}
}
