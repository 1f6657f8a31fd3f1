package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// A program asks by the names of the built-in catalog. Nothing is read but what is compiled in: no file, no network, no
// database.
func Example() {
	ctx := context.Background()
	var job estimator.Job
	if err := json.Unmarshal([]byte(`{"model": {"preset": "gpt2"}, "gpus": ["RTX 4090"],
		"training": {"micro_batch": 8, "sequence_length": 1024, "precision": "amp-bf16"}}`), &job); err != nil {
		log.Fatal(err)
	}
	s := service.New(service.EmbeddedCatalog())
	result, err := s.Estimate(ctx, job, service.EstimateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Model.Name, result.GPUs[0].GPU, result.GPUs[0].Verdict)

	// The entries themselves, by id, alias or driver name.
	card, err := s.GPU(ctx, "NVIDIA GeForce RTX 4090")
	if err != nil {
		log.Fatal(err)
	}
	model, err := s.Model(ctx, "Llama-3.1-8B")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(card.ID, model.ID, model.ParametersTotal)
	// Output:
	// openai-community/gpt2 rtx-4090 fits
	// rtx-4090 meta-llama/Llama-3.1-8B 8030261248
}
