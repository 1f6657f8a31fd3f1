//go:build ignore

// One call by the Go client of openapi-generator: prints the bytes and the verdict.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	api "vramplan.test/client"
)

func main() {
	config := api.NewConfiguration()
	config.Servers = api.ServerConfigurations{{URL: os.Args[1]}}
	optimizer, card := api.OPTIMIZER_NAME_ADAMW_TORCH_FUSED_UNDERSCORED, "rtx-4090"
	training := api.NewTraining(8)
	training.SetSequenceLength(1024)
	training.SetPrecision(api.PRECISION_AMP_BF16)
	training.SetOptimizer(api.Optimizer{OptimizerName: &optimizer})
	job := api.NewJob(api.ModelByPresetAsModel(api.NewModelByPreset("gpt2")), *training)
	job.SetGpus([]api.GPURef{{String: &card}})
	result, _, err := api.NewAPIClient(config).EstimatesAPI.Estimate(context.Background()).Job(*job).Execute()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Peak.DeviceBytes, result.Gpus[0].Verdict)
}
