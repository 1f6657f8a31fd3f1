package jobdoc

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

// Every word that Spellings names is read as one of the contract's values, at the place of the document that it is for.
func TestEverySpellingIsRead(t *testing.T) {
	places := map[reflect.Type]string{
		reflect.TypeFor[estimator.Training]():      `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "NAME": VALUE}}`,
		reflect.TypeFor[estimator.States]():        `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "states": {"NAME": VALUE}}}`,
		reflect.TypeFor[estimator.Optimizer]():     `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "optimizer": {"NAME": VALUE}}}`,
		reflect.TypeFor[estimator.Checkpointing](): `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "gradient_checkpointing": {"NAME": VALUE}}}`,
		reflect.TypeFor[estimator.Loss]():          `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "loss": {"NAME": VALUE}}}`,
		reflect.TypeFor[estimator.Objective]():     `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "objective": {"NAME": VALUE}}}`,
		reflect.TypeFor[estimator.LoRA]():          `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "lora": {"rank": 8, "NAME": VALUE}}}`,
		reflect.TypeFor[estimator.Distributed]():   `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "distributed": {"NAME": VALUE}}}`,
		reflect.TypeFor[model.Dimensions]():        `{"model": {"dimensions": {"layers": 1, "hidden": 8, "heads": 1, "vocab": 8, "NAME": VALUE}}, "training": {"micro_batch": 1}}`,
		reflect.TypeFor[model.Head]():              `{"model": {"preset": "gpt2", "head": {"NAME": VALUE}}, "training": {"micro_batch": 1}}`,
	}
	for owner, fields := range worded() {
		for name := range fields {
			words := Spellings(owner, name)
			for _, word := range words {
				for _, written := range []string{word, strings.ToUpper(word)} {
					value, err := json.Marshal(written)
					if err != nil {
						t.Fatal(err)
					}
					if name == "kernels" {
						value = fmt.Appendf(nil, "[%s]", value)
					}
					document := strings.NewReplacer("NAME", name, "VALUE", string(value)).Replace(places[owner])
					if _, err := Decode([]byte(document)); err != nil {
						t.Errorf("%s.%s: %q is named and refused: %v", owner.Name(), name, written, err)
					}
				}
			}
			if double := len(words) - len(slices.Compact(slices.Sorted(slices.Values(words)))); double != 0 {
				t.Errorf("%s.%s names %d words twice", owner.Name(), name, double)
			}
		}
	}
}

// No field of a job that has choices is without its spellings, and no alias that is read is left out.
func TestSpellingsAreAll(t *testing.T) {
	var walk func(n *node)
	walk = func(n *node) {
		for _, f := range n.fields {
			of := f.node
			if of.elem != nil {
				of = of.elem
			}
			if of.shape == shapeText && len(of.choices) > 0 {
				words := Spellings(n.typ, f.name)
				for _, choice := range of.choices {
					if !slices.Contains(words, choice) {
						t.Errorf("%s.%s takes %q, and Spellings does not name it", n.typ.Name(), f.name, choice)
					}
				}
			}
			walk(of)
		}
	}
	walk(schemaOf(reflect.TypeFor[estimator.Job]()))
	for owner, fields := range worded() {
		for name, v := range fields {
			choices := schemaOf(owner).field(name).choices
			for alias, value := range v.aliases {
				if slices.Contains(choices, value) && !slices.Contains(Spellings(owner, name), alias) {
					t.Errorf("%s.%s reads %q, and Spellings does not name it", owner.Name(), name, alias)
				}
			}
		}
	}
	if words := Spellings(reflect.TypeFor[estimator.Optimizer](), "name"); !slices.Contains(words, "adamw_torch_fused") {
		t.Errorf("optimizers are %q, without transformers' spelling", words)
	}
	if words := Spellings(reflect.TypeFor[estimator.Training](), "logits_dtype"); slices.Contains(words, "bfloat16") {
		t.Errorf("logits are %q, one of which is refused", words)
	}
	if words := Spellings(reflect.TypeFor[estimator.Training](), "hold_logits"); words != nil {
		t.Errorf("a boolean is spelled %q", words)
	}
}
