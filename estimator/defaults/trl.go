package defaults

// TRLLimits are the defaults of the arguments that trl's trainers of other kinds have besides the Trainer's. A class
// that lost a limit has "-". testdata/check_defaults.py holds every row against the packages, as it does the table of
// the tools' other defaults.
var TRLLimits = []Default{
	{"trl", "", "max_prompt_length", "None", "trl/trainer/dpo_config.py", "DPOConfig", ""},
	{"trl", "0.14.0", "max_prompt_length", "512", "trl/trainer/dpo_config.py", "DPOConfig", ""},
	{"trl", "0.28.0", "max_prompt_length", "-", "trl/trainer/dpo_config.py", "DPOConfig",
		"the prompt is cut with the rest"},
	{"trl", "", "max_prompt_length", "None", "trl/trainer/kto_config.py", "KTOConfig", ""},
	{"trl", "0.14.0", "max_prompt_length", "512", "trl/trainer/kto_config.py", "KTOConfig", ""},
	{"trl", "0.27.0", "max_prompt_length", "-", "trl/experimental/kto/kto_config.py", "KTOConfig",
		"the prompt is cut with the rest"},
	{"trl", "", "max_prompt_length", "None", "trl/trainer/orpo_config.py", "ORPOConfig", ""},
	{"trl", "0.14.0", "max_prompt_length", "512", "trl/trainer/orpo_config.py", "ORPOConfig", ""},
	{"trl", "0.28.0", "max_prompt_length", "-", "trl/experimental/orpo/orpo_config.py", "ORPOConfig",
		"the prompt is cut with the rest"},
	{"trl", "", "max_prompt_length", "None", "trl/trainer/cpo_config.py", "CPOConfig", ""},
	{"trl", "0.14.0", "max_prompt_length", "512", "trl/trainer/cpo_config.py", "CPOConfig", ""},
	{"trl", "0.28.0", "max_prompt_length", "-", "trl/experimental/cpo/cpo_config.py", "CPOConfig",
		"the prompt is cut with the rest"},
	{"trl", "", "max_prompt_length", "512", "trl/trainer/grpo_config.py", "GRPOConfig", ""},
	{"trl", "0.26.0", "max_prompt_length", "None", "trl/trainer/grpo_config.py", "GRPOConfig", "prompts are not cut"},
	{"trl", "0.28.0", "max_prompt_length", "-", "trl/trainer/grpo_config.py", "GRPOConfig", "prompts are not cut"},
	{"trl", "", "max_completion_length", "256", "trl/trainer/grpo_config.py", "GRPOConfig", ""},
	{"trl", "1.16.0", "max_completion_length", "512", "trl/trainer/grpo_config.py", "GRPOConfig", ""},
	{"trl", "", "num_generations", "8", "trl/trainer/grpo_config.py", "GRPOConfig", ""},
	{"trl", "", "max_prompt_length", "512", "trl/trainer/rloo_config.py", "RLOOConfig", ""},
	{"trl", "0.27.0", "max_prompt_length", "None", "trl/trainer/rloo_config.py", "RLOOConfig", "prompts are not cut"},
	{"trl", "0.29.0", "max_prompt_length", "-", "trl/trainer/rloo_config.py", "RLOOConfig", "prompts are not cut"},
	{"trl", "", "max_completion_length", "256", "trl/trainer/rloo_config.py", "RLOOConfig", ""},
	{"trl", "1.16.0", "max_completion_length", "512", "trl/trainer/rloo_config.py", "RLOOConfig", ""},
	{"trl", "", "num_generations", "2", "trl/trainer/rloo_config.py", "RLOOConfig", ""},
}
