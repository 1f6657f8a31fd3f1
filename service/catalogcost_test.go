package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// formerStack is one in which each expert has tensors of its own.
var formerStack = map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}

// refusedUnderZeRO3 are the mixtures whose ZeRO-3 jobs a service of 512 MiB refuses, with the stacks in which each of
// their experts is recorded: ZeRO-3 records every layer, since what it fetches depends on all uses before.
var refusedUnderZeRO3 = map[string][]string{
	"Qwen/Qwen3-30B-A3B": {"former"}, "Qwen/Qwen3-235B-A22B": {"former"}, "openai/gpt-oss-120b": {"former"},
	"rednote-hilab/dots.llm1.base": {"former"}, "upstage/Solar-Open-100B": {"today's", "former"},
}

// ofDeltaNets says that layers of a model are gated delta nets: transformers runs them in turns of 64 tokens, each of
// which is recorded, so that an answer for their whole context takes gigabytes, and for 2,048 tokens of the larger of
// them more than such a service has. They are asked for fewer, and of today's libraries alone: the former ones have no
// Qwen3.5, and each of Qwen3-Next's 512 experts of a layer apart.
func ofDeltaNets(family string) bool {
	return strings.HasPrefix(family, "qwen3_5") || family == "qwen3_next"
}

// TestNoModelIsTooLarge: no model of the catalog is refused for what its answer takes at most, by a service of 512 MiB,
// trained on one card or sharded over many, with adapters or without, with or without accumulation, with today's
// libraries or former ones; but for refusedUnderZeRO3.
func TestNoModelIsTooLarge(t *testing.T) {
	const room = 512 << 20 / 8 * 3 / 4 * 3 // three quarters of three eighths of the memory are for one large job
	c := service.EmbeddedCatalog()
	models, err := c.Models()
	if err != nil {
		t.Fatal(err)
	}
	lora := &estimator.LoRA{Rank: 16, TargetModules: []string{"all-linear"}}
	var most estimator.Cost
	var dearest string
	asked := 0
	for i := range models {
		m := &models[i]
		for _, with := range []struct {
			stack        string
			versions     map[string]string
			accumulation int64
		}{{"today's", nil, 1}, {"today's", nil, 64}, {"former", formerStack, 1}, {"former", formerStack, 64}} {
			for name, training := range map[string]estimator.Training{
				"one card":                {},
				"adapters":                {LoRA: lora},
				"adapters, checkpointing": {LoRA: lora, GradientCheckpointing: &estimator.Checkpointing{Mode: "full"}},
				"DDP":                     {Distributed: &estimator.Distributed{WorldSize: 8, Data: "ddp"}},
				"ZeRO-3":                  {Distributed: &estimator.Distributed{WorldSize: 64, Data: "zero3"}},
				"FSDP2": {Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp",
					FSDPVersion: 2}},
				"FSDP2 with adapters": {LoRA: lora, Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp",
					FSDPVersion: 2}},
				"FSDP1": {Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp",
					FSDPVersion: 1}},
			} {
				training.MicroBatch, training.GradientAccumulation, training.Versions = 1, with.accumulation,
					with.versions
				if ofDeltaNets(m.Family) {
					if with.versions != nil {
						continue
					}
					training.SequenceLength = 1024
				}
				in := estimator.Input{Job: estimator.Job{Model: estimator.Model{Preset: m.ID}, Training: training},
					Preset: &m.Preset}
				cost, err := estimator.CostOf(in)
				if err != nil {
					continue // not modelled
				}
				asked++
				known := name == "ZeRO-3" && slices.Contains(refusedUnderZeRO3[m.ID], with.stack)
				if cost.Bytes > most.Bytes && !known {
					most, dearest = cost, fmt.Sprintf("%s, %s", m.ID, name)
				}
				if refused := cost.Bytes > room; refused != known {
					t.Errorf("%s, %s, accumulation %d, %s stack: %d MiB, refused %t, want %t", m.ID, name,
						with.accumulation, with.stack, cost.Bytes>>20, refused, known)
				}
			}
		}
	}
	t.Logf("%d jobs; at most %d MiB of %d: %s", asked, most.Bytes>>20, room>>20, dearest)
	if asked < 1000 {
		t.Errorf("only %d jobs were asked", asked)
	}
}
