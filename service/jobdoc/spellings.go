package jobdoc

import (
	"reflect"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

// worded are the fields whose values have other spellings, by the struct that holds them.
func worded() map[reflect.Type]map[string]*vocabulary {
	w := words()
	return map[reflect.Type]map[string]*vocabulary{
		reflect.TypeFor[estimator.Training](): {"precision": w.precision, "attention": w.attention,
			"attention_mask": w.attentionMask,
			"logits_dtype":   w.logits, "kernels": w.kernels, "framework": w.framework},
		reflect.TypeFor[estimator.States](): {"weights": w.state, "gradients": w.state, "master_weights": w.state,
			"master_gradients": w.state, "optimizer": w.state},
		reflect.TypeFor[estimator.Optimizer]():     {"name": w.optimizer, "implementation": w.implementation},
		reflect.TypeFor[estimator.Checkpointing](): {"mode": w.checkpointing},
		reflect.TypeFor[estimator.Loss]():          {"kind": w.loss, "head": w.lossHead},
		reflect.TypeFor[estimator.Objective](): {"kind": w.objective, "reference": w.reference,
			"reference_dtype":  w.beside,
			"packing_strategy": w.packing, "rollout": w.rollout, "teacher_dtype": w.beside, "loss": w.contrastive,
			"pooling": w.pooling, "train": w.trained, "latents": w.latents, "text_embeddings": w.texts},
		reflect.TypeFor[estimator.LoRA]():        {"adapter_dtype": w.adapter, "base_precision": w.base, "bias": w.bias},
		reflect.TypeFor[estimator.Distributed](): {"data": w.data},
		reflect.TypeFor[model.Dimensions](): {"mlp": w.mlp, "norm": w.norm, "norm_position": w.normPosition,
			"position": w.position},
		reflect.TypeFor[model.Head](): {"kind": w.head},
	}
}

// Spellings are the words that a field with choices takes, of the Go struct t and by the field's JSON name: the
// contract's values in their order, then the spellings of other tools, each with the dashes or underscores of both
// habits. Upper case is read as lower case, and a space as a dash, in all of them. It is nil for a field without
// choices.
func Spellings(t reflect.Type, name string) []string {
	v := worded()[t][name]
	if v == nil {
		return nil
	}
	node := schemaOf(t).field(name)
	choices := node.choices
	if node.elem != nil {
		choices = node.elem.choices
	}
	var others []string
	add := func(word string) {
		for _, habit := range []string{word, strings.ReplaceAll(word, "-", "_"), strings.ReplaceAll(word, "_", "-")} {
			if !slices.Contains(choices, habit) && !slices.Contains(others, habit) {
				others = append(others, habit)
			}
		}
	}
	for _, choice := range choices {
		add(choice)
	}
	for _, alias := range v.others(choices) {
		add(alias)
	}
	return slices.Concat(choices, others)
}

// others are the aliases, folded, that mean one of some values.
func (v *vocabulary) others(values []string) []string {
	var all []string
	for alias, value := range v.aliases {
		if slices.Contains(values, value) {
			all = append(all, alias)
		}
	}
	slices.Sort(all)
	return all
}
