//go:build ignore

// One call by the client of oapi-codegen: prints the bytes and the verdict.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"vramplan.test/client/api"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var model api.Model
	must(model.FromModelByPreset(api.ModelByPreset{Preset: "gpt2"}))
	var optimizer api.Optimizer
	must(optimizer.FromOptimizerName("adamw_torch_fused"))
	var card api.GPURef
	must(card.FromGPURef0("rtx-4090"))
	length, precision, cards := int64(1024), api.Precision("amp-bf16"), []api.GPURef{card}
	client, err := api.NewClientWithResponses(os.Args[1])
	must(err)
	answer, err := client.EstimateWithResponse(context.Background(), nil, api.Job{
		Model:    model,
		Training: api.Training{MicroBatch: 8, SequenceLength: &length, Precision: &precision, Optimizer: &optimizer},
		Gpus:     &cards,
	})
	must(err)
	if answer.JSON200 == nil {
		log.Fatalf("%s: %s", answer.Status(), answer.Body)
	}
	fmt.Println(answer.JSON200.Peak.DeviceBytes, answer.JSON200.Gpus[0].Verdict)
}
