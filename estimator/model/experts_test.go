package model

// mixtureSeeds are configurations with mixtures of experts that a fuzzer starts from.
var mixtureSeeds = []string{
	`{"model_type":"deepseek_v3","q_lora_rank":null,"first_k_dense_replace":0,"n_group":null}`,
	`{"model_type":"glm4_moe","n_group":3,"use_qk_norm":true,"partial_rotary_factor":0.3}`,
	`{"model_type":"deepseek_v3","n_shared_experts":-1,"v_head_dim":7}`,
	`{"model_type":"deepseek_v2","topk_method":"group_limited_greedy","num_experts_per_tok":6}`,
	`{"model_type":"deepseek_v2","num_experts_per_tok":2,"first_k_dense_replace":40,"topk_method":[]}`,
	`{"model_type":"olmoe","clip_qkv":-1,"num_experts":2}`,
	`{"model_type":"olmoe","clip_qkv":{},"num_key_value_heads":4}`,
	`{"model_type":"gpt_oss","num_local_experts":3,"layer_types":[null],"num_hidden_layers":1}`,
	`{"model_type":"glm4_moe_lite","num_hidden_layers":2,"mlp_layer_types":["sparse","dense"]}`,
	`{"model_type":"dots1","n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":1,"max_window_layers":0}`,
	`{"model_type":"ernie4_5_moe","moe_layer_end_index":-2,"moe_layer_interval":3,"use_bias":true}`,
	`{"model_type":"apertus","hidden_act":"relu2","num_hidden_layers":1}`,
	`{"model_type":"exaone4","sliding_window":null,"sliding_window_pattern":"LLLG"}`,
	`{"model_type":"hunyuan_v1_moe","num_experts":[4,4],"moe_topk":[1,[]],"num_hidden_layers":2}`,
	`{"model_type":"granitemoeshared","shared_intermediate_size":64,"num_local_experts":3}`,
	`{"model_type":"minimax_m2","rotary_dim":33,"head_dim":64,"router_jitter_noise":0.1}`,
	`{"model_type":"lfm2_moe","num_dense_layers":0,"use_expert_bias":false,"full_attn_idxs":[1]}`,
	`{"model_type":"qwen3_next","num_hidden_layers":3,"linear_num_key_heads":3,"decoder_sparse_step":2}`,
	`{"model_type":"qwen3_5_moe","text_config":{"layer_types":["linear_attention"],"num_hidden_layers":1}}`,
	`{"model_type":"gemma4","text_config":{"num_kv_shared_layers":3},"vision_config":{"patch_size":0},"audio_config":{"subsampling_conv_channels":[1]}}`,
	`{"model_type":"mistral3","text_config":{"model_type":"ministral3"},"vision_config":{"num_attention_heads":0}}`,
	borealis + `,"sliding_window":8,"num_experts":3}`, borealis +
		`,"rotary_dim":-3,"alibi":true,"use_bias":true}`,
	`{"model_type":"mamba"}`, borealis + `,"hidden_act":"gelu","n_layer":0,"n_kv_heads":3,"head_dim":1e9}`,
}
