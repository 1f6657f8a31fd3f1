package model

// mixtureSeeds are configurations with mixtures of experts that a fuzzer starts from.
var mixtureSeeds = []string{
	`{"model_type":"deepseek_v3","q_lora_rank":null,"first_k_dense_replace":0,"n_group":null}`,
	`{"model_type":"deepseek_v3","n_shared_experts":-1,"v_head_dim":7}`,
}
