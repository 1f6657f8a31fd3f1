package readers

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// tables are all words that move no memory, by tool and by launcher.
func tables() map[string][]string {
	all := map[string][]string{}
	for _, t := range tools {
		all[t.Name] = strings.Fields(tool.Bare(t.Still))
	}
	for launcher, words := range launch.Still {
		for word := range words {
			all[launcher] = append(all[launcher], tool.Bare(word))
		}
	}
	return all
}

// Words that move memory at some value stand in no table of words that move none.
func TestStillWordsMoveNothing(t *testing.T) {
	moving := strings.Fields(`deepspeed_config deepspeed_config_file deepspeed accelerator_config parallelism_config fsdp
		fsdp_config tensor_parallel_size tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size
		sequence_parallel_size parallelism.tensor_parallel_degree experimental.context_parallel_degree
		training.data_parallel_degree nproc_per_node nnodes num_processes num_machines mixed_precision dynamo_backend
		zero_stage offload_optimizer_device per_device_train_batch_size cutoff_len max_length sequence_len block_size bf16 fp16
		optim optim_args lora_rank lora_target quantization_bit finetuning_type gradient_checkpointing flash_attn
		enable_liger_kernel use_liger_kernel neftune_noise_alpha label_smoothing_factor torch_compile torch_empty_cache_steps
		use_cache full_determinism model_name_or_path tokenizer_name config_name config_overrides model_config rope_scaling
		resize_vocab packing galore_rank ddp_bucket_cap_mb ddp_backend num_train_epochs max_steps do_train
		auto_find_batch_size eval_strategy eval_on_start per_device_eval_batch_size freeze_vit upcast_layernorm compile dtype
		optimizer optimizer._component_ model._component_ train.max_steps train.epochs device_map`)
	for name, words := range tables() {
		s := setting.New()
		s.Still(words...)
		for _, word := range moving {
			if s.IsStill(word) {
				t.Errorf("%s: %s may move memory", name, word)
			}
		}
	}
}

// A word of the table may say anything, and what it says is no doubt; a key that no table knows is one.
func TestStillWordsDoubtNothing(t *testing.T) {
	files := map[string]string{"c.yaml": factoryFile}
	for _, word := range tables()["llama-factory"] {
		if strings.HasSuffix(word, "*") {
			word = strings.TrimSuffix(word, "*") + "x"
		}
		answer := readScript(t, "llamafactory-cli train c.yaml "+word+"=$ANYTHING\n", files)
		if len(answer.Jobs) != 1 || len(answer.Jobs[0].Questions) > 0 {
			t.Errorf("%s: refused: %v, asked: %v", word, answer.Refusals, answer.Open())
			continue
		}
		for _, d := range answer.Jobs[0].Doubts {
			if d.Word == word || strings.Contains(d.Why, "ANYTHING") {
				t.Errorf("%s: %s", word, d)
			}
		}
	}
	answer := readScript(t, "llamafactory-cli train c.yaml my_own=3\n", files)
	if len(answer.Jobs) != 1 || answer.Jobs[0].MayBeDenied() {
		t.Errorf("a key that no table knows is no doubt: %+v", answer)
	}
}
