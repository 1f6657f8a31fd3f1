package lever

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// cardsWords say how a tool is started on several GPUs, by "ddp" and "fsdp" (FSDP2). What is not here is started by
// torchrun, and its code wraps the model.
var cardsWords = map[string]map[string]string{
	"nanogpt":       {"ddp": "torchrun --standalone --nproc_per_node=%d train.py"},
	"hf-trainer":    {"ddp": "torchrun --nproc_per_node=%d", "fsdp": accelerateFSDP},
	"trl":           {"ddp": "accelerate launch --multi_gpu --num_processes=%d", "fsdp": accelerateFSDP},
	"accelerate":    {"ddp": "accelerate launch --multi_gpu --num_processes=%d", "fsdp": accelerateFSDP},
	"llama-factory": {"ddp": "FORCE_TORCHRUN=1 NPROC_PER_NODE=%d llamafactory-cli train", "fsdp": accelerateFSDP},
	"ms-swift":      {"ddp": "NPROC_PER_NODE=%d swift sft"},
	"xtuner":        {"ddp": "NPROC_PER_NODE=%d xtuner train"},
	"axolotl": {"ddp": "axolotl train --num-processes=%d",
		"fsdp": "axolotl train --num-processes=%d with fsdp_version: 2 and fsdp_config: {reshard_after_forward: true, " +
			"auto_wrap_policy: TRANSFORMER_BASED_WRAP}"},
	"torchtune": {"fsdp": "tune run --nproc_per_node %d full_finetune_distributed"},
	"torchtitan": {"ddp": "torchrun --nproc_per_node=%[1]d with parallelism.data_parallel_replicate_degree = " +
		"%[1]d, parallelism.data_parallel_shard_degree = 1",
		"fsdp": "torchrun --nproc_per_node=%[1]d with parallelism.data_parallel_shard_degree = %[1]d"},
	"lightning":   {"ddp": `Trainer(devices=%d, strategy="ddp")`},
	"llm-foundry": {"ddp": "composer -n %d train/train.py"},
}

// accelerateFSDP starts a script of the Trainer, or of accelerate, under FSDP2 (accelerate/commands/launch.py 1.15).
const accelerateFSDP = "accelerate launch --num_processes=%d --use_fsdp --fsdp_version=2 " +
	"--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP"

// cardsWord is how a tool is put on several GPUs.
func cardsWord(tool, data string, gpus int64) leverWord {
	if w, ok := cardsWords[tool][data]; ok {
		return leverWord{setting: fmt.Sprintf(w, gpus)}
	}
	wrap := "DistributedDataParallel(model)"
	if data == "fsdp" {
		wrap = "fully_shard (torch.distributed.fsdp) on every layer and the model"
	}
	return leverWord{setting: fmt.Sprintf("torchrun --nproc_per_node=%d with %s", gpus, wrap), code: true}
}

// zeroWord is how a job is put on so many GPUs under DeepSpeed: the launcher, and the section of its configuration,
// which deepspeed and transformers' Trainer read as it is.
func zeroWord(tool string, d *estimator.Distributed) leverWord {
	launcher := "deepspeed --num_gpus=%d"
	if words, ok := cardsWords[tool]; ok && strings.Contains(words["ddp"], "torchrun") {
		launcher = "torchrun --nproc_per_node=%d"
	}
	section := map[string]json.RawMessage{}
	if len(d.DeepSpeed) > 0 {
		_ = json.Unmarshal(d.DeepSpeed, &section) // the estimator has read it
	}
	section["stage"] = json.RawMessage(strings.TrimPrefix(d.Data, "zero"))
	for field, device := range map[string]bool{"offload_optimizer": d.OffloadOptimizer,
		"offload_param": d.OffloadParameters} {
		if device && section[field] == nil {
			section[field] = json.RawMessage(`{"device":"cpu"}`)
		}
	}
	config, err := json.Marshal(map[string]any{"zero_optimization": section})
	if err != nil {
		return leverWord{setting: fmt.Sprintf(launcher, d.WorldSize)}
	}
	return leverWord{setting: fmt.Sprintf(launcher+" with a DeepSpeed configuration of %s", d.WorldSize, config)}
}
