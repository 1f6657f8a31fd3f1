package axolotl

// shipped are the DeepSpeed files of axolotl's repository, which people name without copying them, as far as they
// change what a GPU holds (axolotl@58b1d3a4, 1aaebb0d, 1377ccc3 and b371df79 deepspeed_configs). The parameters that
// stand there without "stage3_" are read by either name (DeepSpeed 0.18 runtime/zero/config.py).
var shipped = map[string]string{
	"deepspeed_configs/zero1.json": `{"zero_optimization": {"stage": 1, "overlap_comm": true},
		"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}`,
	"deepspeed_configs/zero2.json": `{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
		"contiguous_gradients": true, "overlap_comm": true}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}`,
	"deepspeed_configs/zero3.json": `{"zero_optimization": {` + stage3 + `},
		"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}`,
	"deepspeed_configs/zero3_bf16.json": `{"zero_optimization": {` + stage3 + `}, "bf16": {"enabled": true}}`,
	"deepspeed_configs/zero3_bf16_cpuoffload_all.json": `{"zero_force_ds_cpu_optimizer": false,
		"zero_allow_untested_optimizer": true, "zero_optimization": {` + stage3 + `,
		"offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true}},
		"bf16": {"enabled": true}}`,
	"deepspeed_configs/zero3_bf16_cpuoffload_params.json": `{"zero_force_ds_cpu_optimizer": false,
		"zero_allow_untested_optimizer": true, "zero_optimization": {` + stage3 + `,
		"offload_param": {"device": "cpu", "pin_memory": true}}, "bf16": {"enabled": true}}`,
}

const stage3 = `"stage": 3, "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 0,
	"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
	"stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0`
