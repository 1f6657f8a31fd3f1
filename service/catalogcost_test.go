package service_test

import (
	"fmt"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

var formerStack = map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}

// TestNoModelIsTooLarge: no model of the catalog is refused for what its answer takes at most, by a service of 512 MiB, trained on one
// card or sharded over many, with adapters or without, with or without accumulation.
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
		for _, accumulation := range []int64{1, 64} {
			for name, training := range map[string]estimator.Training{
				"one card":                {},
				"adapters":                {LoRA: lora},
				"adapters, checkpointing": {LoRA: lora, GradientCheckpointing: &estimator.Checkpointing{Mode: "full"}},
				"DDP":                     {Distributed: &estimator.Distributed{WorldSize: 8, Data: "ddp"}},
				"ZeRO-3":                  {Distributed: &estimator.Distributed{WorldSize: 64, Data: "zero3"}},
				"FSDP2":                   {Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2}},
				"FSDP2 with adapters":     {LoRA: lora, Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2}},
				"FSDP1":                   {Distributed: &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 1}},
			} {
				training.MicroBatch, training.GradientAccumulation = 1, accumulation
				training.Versions = formerStack // in which each expert has tensors of its own
				in := estimator.Input{Job: estimator.Job{Model: estimator.Model{Preset: m.ID}, Training: training}, Preset: &m.Preset}
				cost, err := estimator.CostOf(in)
				if err != nil {
					continue // not modelled
				}
				asked++
				if cost.Bytes > most.Bytes {
					most, dearest = cost, fmt.Sprintf("%s, %s", m.ID, name)
				}
				if cost.Bytes > room {
					t.Errorf("%s, %s, accumulation %d: %d MiB", m.ID, name, accumulation, cost.Bytes>>20)
				}
			}
		}
	}
	t.Logf("%d jobs; at most %d MiB of %d: %s", asked, most.Bytes>>20, room>>20, dearest)
	if asked < 1000 {
		t.Errorf("only %d jobs were asked", asked)
	}
}
