package main

// jobFields are the flags that each say one field of a job: the one that their tag job names, where there is one. A
// flag with the tag implies means that kind of training where nobody says another.
type jobFields struct {
	modelFields  `embed:"" group:"Job:"`
	kindFields   `embed:"" group:"Kind of training:"`
	spreadFields `embed:"" group:"Several GPUs:"`
	cardFields   `embed:"" group:"Job:"`
}

// modelFields say what is trained and how.
type modelFields struct {
	Model                string   `xor:"model" placeholder:"NAME" help:"Model of the catalog, such as gpt2 or meta-llama/Llama-3.1-8B."`
	HFConfig             string   `name:"hf-config" xor:"model" placeholder:"FILE" help:"A Hugging Face config.json as the model."`
	Pipeline             string   `xor:"model" placeholder:"NAME" help:"A published diffusion pipeline, such as black-forest-labs/FLUX.1-dev; --objective diffusion is meant."`
	Recorded             string   `xor:"model" placeholder:"FILE" help:"A recording of the model, as vramplan_record writes it."`
	MicroBatch           *int64   `placeholder:"N" help:"Sequences in one forward pass on one GPU." job:"training.micro_batch"`
	SequenceLength       *int64   `placeholder:"N" help:"Tokens in a sequence; the model's context if not given." job:"training.sequence_length"`
	TargetSequenceLength *int64   `placeholder:"N" help:"Tokens of the decoder, of models with encoder and decoder." job:"training.target_sequence_length"`
	GradientAccumulation *int64   `placeholder:"N" help:"Micro-steps in an optimizer step." job:"training.gradient_accumulation"`
	Precision            *string  `placeholder:"NAME" help:"amp-bf16, amp-fp16, fp32, tf32, bf16 or fp16." job:"training.precision"`
	Optimizer            *string  `placeholder:"NAME" help:"adamw, adam, sgd, sgd-momentum, adafactor, rmsprop, lion, adamw-8bit, …" job:"training.optimizer"`
	OptimizerImpl        *string  `name:"optimizer-implementation" placeholder:"NAME" help:"foreach, fused, for-loop, bitsandbytes, torchao, …" job:"training.optimizer.implementation"`
	Checkpointing        *string  `aliases:"gradient-checkpointing" placeholder:"MODE" help:"none, full, selective or selective-op." job:"training.gradient_checkpointing"`
	Attention            *string  `placeholder:"NAME" help:"sdpa, flash or eager." job:"training.attention"`
	AttentionMask        *string  `placeholder:"KIND" help:"explicit where batches have padding; none if not given." job:"training.attention_mask"`
	Loss                 *string  `placeholder:"KIND" help:"standard, fused, chunked or fused-linear." job:"training.loss"`
	Kernels              []string `placeholder:"NAME" help:"Fused kernels in use: rmsnorm, rope, swiglu, …" job:"training.kernels"`
	Compile              *bool    `negatable:"" help:"The model runs under torch.compile." job:"training.compile"`
	Dropout              *float64 `placeholder:"P" help:"Its probability, of hidden states and of attention; the model's if not given." job:"training.dropout"`
	Framework            *string  `placeholder:"NAME" help:"Whose defaults apply: pytorch, nanogpt, hf-trainer, …" job:"training.framework"`
	LoRARank             *int64   `name:"lora-rank" placeholder:"N" help:"Train LoRA adapters of this rank." job:"training.lora.rank"`
	LoRATarget           []string `name:"lora-target" placeholder:"NAME" help:"Modules that get adapters, such as q_proj,v_proj, or all-linear." job:"training.lora.target_modules"`
	LoRABase             *string  `name:"lora-base" placeholder:"NAME" help:"How the frozen base is stored: bf16, fp16, fp32, int8, nf4, …" job:"training.lora.base_precision"`
	DoRA                 *bool    `name:"dora" negatable:"" help:"Adapters have a magnitude, too." job:"training.lora.dora"`
	QLoRA                bool     `name:"qlora" help:"Train adapters on a base in 4 bits (nf4, double quantization); of rank 16 on all linear layers unless the job says otherwise."`
	ClipGradNorm         *bool    `negatable:"" help:"Gradients are clipped by their norm, as they are if not given." job:"training.clip_grad_norm"`
	ExpandableSegments   *bool    `negatable:"" help:"Segments grow (PYTORCH_CUDA_ALLOC_CONF's expandable_segments)." job:"training.allocator.expandable_segments"`
	EvaluationBatch      *int64   `placeholder:"N" help:"An evaluation between steps, with so many sequences in a pass." job:"training.evaluation.micro_batch"`
	KeepLogits           *bool    `negatable:"" help:"The evaluation keeps the logits of a pass until the next." job:"training.evaluation.keep_logits"`
}

// kindFields say which trainer runs, and what it is told.
type kindFields struct {
	Objective           *string  `placeholder:"KIND" help:"sft, dpo, grpo, ppo, gkd, vision-language, …; the loss that the model returns if not given." job:"training.objective.kind"`
	PromptTokens        *int64   `placeholder:"N" help:"Tokens of a prompt, for objectives with completions." job:"training.objective.prompt_tokens"`
	CompletionTokens    *int64   `placeholder:"N" help:"Tokens of a completion." job:"training.objective.completion_tokens"`
	Reference           *string  `placeholder:"NAME" help:"What preferences are measured by: separate, adapter-off or precomputed." job:"training.objective.reference"`
	LossType            []string `placeholder:"NAME" help:"trl's loss_type, such as chunked_nll." job:"training.objective.loss_type"`
	Packing             *bool    `negatable:"" help:"sft: documents behind one another fill the sequences." job:"training.objective.packing"`
	PaddingFree         *bool    `negatable:"" help:"sft: the sequences of a batch are one row." job:"training.objective.padding_free"`
	NumGenerations      *int64   `placeholder:"N" help:"grpo, rloo: completions that are written for a prompt." job:"training.objective.num_generations"`
	StepsPerGeneration  *int64   `placeholder:"N" help:"grpo, rloo: micro-steps for which completions are written at once." job:"training.objective.steps_per_generation"`
	Beta                *float64 `placeholder:"X" help:"grpo, rloo: weight of the reference, of which there is none at 0; gkd: that of the two divergences." job:"training.objective.beta"`
	Rollout             *string  `placeholder:"NAME" help:"grpo, rloo: what writes completions: transformers, vllm-colocate or vllm-server." job:"training.objective.rollout"`
	VLLMShare           *float64 `name:"vllm-gpu-memory-utilization" placeholder:"X" help:"vllm-colocate: the share of the card that vLLM takes; 0.3 if not given." job:"training.objective.vllm_gpu_memory_utilization"`
	VLLMSleep           *bool    `name:"vllm-sleep" negatable:"" help:"vllm-colocate: vLLM gives its memory back while the model is trained." job:"training.objective.vllm_sleep"`
	RolloutForwardBatch *int64   `placeholder:"N" help:"ppo: completions that are written and measured at once." job:"training.objective.rollout_forward_batch"`
	Teacher             string   `placeholder:"FILE" help:"gkd: the config.json of the model that is distilled from; --objective gkd is meant."`
	TeacherDtype        *string  `placeholder:"NAME" help:"gkd: bf16, fp16 or fp32; bf16 if not given." job:"training.objective.teacher_dtype"`
	Texts               *int64   `placeholder:"N" help:"contrastive: columns of texts, 2 for pairs, 3 with a negative." job:"training.objective.texts"`
	ContrastiveLoss     *string  `placeholder:"NAME" help:"contrastive: mnrl, cached-mnrl, matryoshka-mnrl, symmetric-mnrl, triplet, cosent, angle, cosine-similarity, contrastive, online-contrastive or mse." job:"training.objective.loss"`
	MiniBatch           *int64   `placeholder:"N" help:"cached-mnrl: texts embedded at once." job:"training.objective.mini_batch"`
	Pooling             *string  `placeholder:"NAME" help:"contrastive: mean, cls or lasttoken." job:"training.objective.pooling"`
	Images              *int64   `implies:"vision-language" placeholder:"N" help:"Pictures in a sequence, of models that read them; --objective vision-language is meant." job:"training.objective.images"`
	ImageSize           []int64  `implies:"vision-language" placeholder:"H,W" help:"Pixels of a picture as it reaches the model, such as 448,448." job:"training.objective.image_size"`
	FreezeVision        *bool    `implies:"vision-language" negatable:"" help:"The tower that looks at the pictures is not trained." job:"training.objective.freeze_vision"`
	Resolution          []int64  `implies:"diffusion" placeholder:"N" help:"diffusion: pixels of a picture a side, or height and width, such as 768,1024." job:"training.resolution"`
	DiffusersScript     *string  `name:"diffusers-script" placeholder:"NAME" help:"diffusion: diffusers' training script; that of the model if not given." job:"training.script"`
	Latents             *string  `implies:"diffusion" placeholder:"NAME" help:"diffusion: each-step, or cached for pictures that were encoded before training." job:"training.objective.latents"`
	TextEmbeddings      *string  `implies:"diffusion" placeholder:"NAME" help:"diffusion: the same of the prompts." job:"training.objective.text_embeddings"`
	EMA                 *bool    `name:"ema" negatable:"" help:"diffusion: an average of the weights is kept." job:"training.objective.ema"`
	TrainTextEncoder    *bool    `negatable:"" help:"diffusion: the text encoder is trained, too." job:"training.objective.train_text_encoder"`
}

// spreadFields say how GPUs share a job.
type spreadFields struct {
	WorldSize           *int64  `placeholder:"N" help:"GPUs over which the job is spread." job:"training.distributed.world_size"`
	DataParallel        *string `placeholder:"KIND" help:"ddp, zero1, zero2, zero3 or fsdp." job:"training.distributed.data"`
	FSDPVersion         *int64  `name:"fsdp-version" placeholder:"N" help:"1 (FullyShardedDataParallel) or 2 (fully_shard)." job:"training.distributed.fsdp_version"`
	ReshardAfterForward *bool   `negatable:"" help:"FSDP frees gathered weights after forward." job:"training.distributed.reshard_after_forward"`
	ShardGroup          *int64  `placeholder:"N" help:"GPUs that share one copy of the state (HSDP)." job:"training.distributed.shard_group"`
	DeepSpeed           string  `name:"deepspeed" placeholder:"FILE" help:"The zero_optimization of a DeepSpeed configuration, or all of it."`
	OffloadOptimizer    *bool   `negatable:"" help:"ZeRO: the optimizer's state lies in host memory." job:"training.distributed.offload_optimizer"`
	OffloadParameters   *bool   `negatable:"" help:"ZeRO-3: parameters lie in host memory between uses." job:"training.distributed.offload_parameters"`
	TensorParallel      *int64  `placeholder:"N" help:"GPUs that share each layer." job:"training.distributed.tensor_parallel"`
	SequenceParallel    *bool   `negatable:"" help:"They share what lies between the layers, by sequence." job:"training.distributed.sequence_parallel"`
	PipelineParallel    *int64  `placeholder:"N" help:"Stages that the layers are divided into." job:"training.distributed.pipeline_parallel"`
	PipelineSchedule    *string `placeholder:"NAME" help:"1f1b, gpipe, interleaved-1f1b, …" job:"training.distributed.pipeline_schedule"`
	VirtualPipeline     *int64  `placeholder:"N" help:"Stages that a GPU has in an interleaved schedule." job:"training.distributed.virtual_pipeline"`
	ContextParallel     *int64  `placeholder:"N" help:"GPUs that share each sequence." job:"training.distributed.context_parallel"`
	Rank                *int64  `placeholder:"N" help:"The GPU to answer for; the fullest if not given." job:"training.distributed.rank"`
}

// cardFields say where it runs.
type cardFields struct {
	ReserveBytes *int64   `xor:"reserve" placeholder:"N" help:"Bytes that a display or other processes hold." job:"reserve_bytes"`
	Reserve      *jobSize `xor:"reserve" placeholder:"SIZE" help:"The same as a size, such as 800MiB or 1GiB." job:"reserve_bytes"`
	Display      *bool    `negatable:"" help:"The card drives a display: a plan leaves 1 GiB for it, as on desktop cards without --no-display." job:"display"`
	Confidence   *float64 `placeholder:"P" help:"Share of runs that the low and high figures cover; 0.95 if not given." job:"confidence"`
	GPU          []string `name:"gpu" sep:"none" placeholder:"NAME" help:"Card to judge; repeat for more, * is the whole catalog, local the cards of this machine with what is free of them." job:"gpus"`
}
