package release

func libraryChanges() []Change {
	return []Change{
		{
			Library: "transformers", To: "4.49", Switch: ShiftsLogits,
			What:   "transformers before 4.49 copies the float32 logits once more to shift them",
			Source: "loss/loss_utils.py (ForCausalLMLoss), 4.48.1 and 4.49.0", Shown: "published runs",
		},
		{
			Library: "transformers", To: "4.49", Switch: LossInModel,
			What: "transformers before 4.49 computes the loss of gpt2, gpt_neox, gpt_bigcode, opt, falcon, bloom and mpt in the " +
				"type of the logits, of a copy without their last row",
			Source: "models/gpt2/modeling_gpt2.py (GPT2LMHeadModel.forward) and the others', 4.48.1, and 4.49.0 of " +
				"gpt_bigcode",
			Shown: "traces of gpt2, gpt_neox, gpt_bigcode, opt and falcon on 4.48.1",
		},
		{
			Library: "transformers", To: "4.49", Switch: BuffersMasks,
			What:   "transformers before 4.49 has a causal mask of the longest sequence in every layer of gpt_neox",
			Source: "models/gpt_neox/modeling_gpt_neox.py (GPTNeoXAttention._init_bias), 4.48.1 and 4.49.0",
			Shown:  "traces of gpt_neox on 4.48.1",
		},
		{
			Library: "transformers", To: "4.46", Switch: UpcastInModel,
			What:   "transformers before 4.46 makes the logits float32 in the model, and keeps no half-precision ones",
			Source: "models/llama/modeling_llama.py (LlamaForCausalLM.forward), 4.45.2 and 4.47.1",
			Shown:  "published runs",
		},
		{
			Library: "transformers", To: "4.54", Switch: RepeatsKVForSDPA,
			What:   "transformers before 4.54 repeats grouped keys and values for sdpa",
			Source: "integrations/sdpa_attention.py, 4.53.3 and 4.54.1", Shown: "published runs",
		},
		{
			Library: "transformers", To: "4.48", Switch: RepeatsKVForFlash,
			What:   "transformers before 4.48 repeats grouped keys and values for flash attention in some families",
			Source: "models/mistral/modeling_mistral.py (MistralFlashAttention2) and other families', 4.47.1",
			Shown:  "published runs",
		},
		{
			Library: "transformers", To: "4.53", Switch: HandsOnProjections,
			What: "transformers before 4.53 keeps a key/value cache of checkpointed layers of gpt_bigcode: views of what the " +
				"projection of queries, keys and values made, all of which stays",
			Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeAttention.forward: present; " +
				"GPTBigCodeModel.forward: presents), 4.48.1, 4.52.4 and 4.53.3",
			Shown: "traces of gpt_bigcode on 4.48.1",
		},
		{
			Library: "transformers", From: "4.53", To: "5.0", Switch: IgnoresCheckpointing,
			What: "transformers from 4.53 accepts gradient checkpointing for gpt_bigcode and does nothing; 5.0 " +
				"checkpoints again",
			Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock), 4.53.3, 4.57.6, 5.0.0, 5.10.0, 5.14.0, " +
				"5.17.0 and 5.23.0",
			Shown: "traces of gpt_bigcode",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: NotReentrant,
			What:   "transformers 5 checkpoints without reentrance where nobody says otherwise (use_reentrant False)",
			Source: "modeling_utils.py (gradient_checkpointing_enable), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
			Shown:  "traces of checkpointed jobs of both kinds",
		},
		{
			Library: "trl", After: "0.27", From: "0.28", Switch: NotReentrantInTRL,
			What:   "trl from 0.28 asks for checkpoints without reentrance, with an older transformers, too",
			Source: "trl/trainer/sft_trainer.py (SFTTrainer.__init__), 0.27.0, 0.28.0 and 1.16.0",
			Shown:  "traces of checkpointed jobs of both kinds",
		},
		{
			Library: "torch", To: "1.11", Switch: KeepsSoftmaxInput,
			What:   "softmax of torch before 1.11 saves its input besides its result",
			Source: "tools/autograd/derivatives.yaml (pytorch/pytorch#65242), 1.10 and 1.11", Shown: "published runs",
		},
		{
			Library: "transformers", To: "4.17", Unless: "torch", Switch: KeepsSoftmaxInput,
			What: "softmax of torch before 1.11, which was there when transformers 4.16 was, saves its input " +
				"besides its result",
			Source: "release dates: torch 1.11 in March 2022, transformers 4.17 a week before", Shown: "published runs",
		},
		{
			Library: "torch", To: "2.0", Switch: KeepsGradients,
			What:   "zero_grad of torch before 2.0 keeps the gradients' memory through the next forward",
			Source: "torch/optim/optimizer.py (zero_grad), 1.13 and 2.0", Shown: "published runs",
		},
		{
			Library: "transformers", To: "4.27", Unless: "torch", Switch: KeepsGradients,
			What: "zero_grad of torch before 2.0, which was there when transformers 4.26 was, keeps the gradients' " +
				"memory through the next forward",
			Source: "release dates: torch 2.0 and transformers 4.27 in March 2023", Shown: "published runs",
		},
		{
			Library: "torch", From: "2.0", To: "2.1", Switch: TwoTemporaries,
			What:   "foreach Adam of torch 2.0 takes two copies of the parameters, not one",
			Source: "torch/optim/adam.py (_multi_tensor_adam), 2.0 and 2.1", Shown: "published runs",
		},
		{
			Library: "torch", To: "1.13", Switch: LoadsAllKernels,
			What:   "before torch 1.13 all kernels are loaded with the context",
			Source: "CUDA_MODULE_LOADING in c10/cuda (pytorch/pytorch#86509), 1.13", Shown: "published runs",
		},
		{
			Library: "cuda", To: "11.7", Switch: LoadsAllKernels,
			What:   "before CUDA 11.7 all kernels are loaded with the context",
			Source: "CUDA 11.7 release notes (lazy loading)", Shown: "published runs",
		},
		{
			Library: "cuda", From: "11.0", To: "11.7", Switch: LoadsAllKernels11,
			What:   "CUDA 11 before 11.7 loads more kernels than CUDA 10 did",
			Source: "CUDA 11.7 release notes (lazy loading)", Shown: "published runs",
		},
		{
			Library: "bitsandbytes", To: "0.43", Switch: KeepsPackedInputs,
			What:   "bitsandbytes before 0.43 keeps the input of every layer in nf4 until the graph goes",
			Source: "bitsandbytes/autograd/_functions.py (MatMul4Bit.forward, ctx.tensors), 0.42 and 0.48",
			Shown:  "published runs",
		},
		{
			Library: "accelerate", After: "1.13", From: "1.14", Switch: CarvesSections,
			What: "accelerate from 1.14 deals out embedding, and last norm and head, as units of their own under " +
				"FSDP2: layers are asked for again after the gradient of the logits",
			Source: "accelerate/utils/fsdp_utils.py (fsdp2_prepare_model), 1.13.0, 1.14.0 and 1.15.0",
			Shown:  "traced ranks of transformers' Trainer",
		},
		{
			Library: "accelerate", After: "0.29", From: "0.30", Switch: WidensShards,
			What: "accelerate from 0.30 brings trained parameters to float32 under FSDP with mixed precision, in " +
				"whichever type the model was loaded",
			Source: "accelerate/accelerator.py (prepare_model), 0.29.0, 0.30.0 and 1.15.0; " +
				"utils/fsdp_utils.py (fsdp2_prepare_model), 1.6.0, 1.12.0, 1.14.0 and 1.15.0",
			Shown: "traced ranks of transformers' Trainer whose model was loaded in bfloat16",
		},
		{
			Library: "accelerate", After: "1.12", From: "1.13", To: "1.14", Switch: LosesWideShards,
			What: "accelerate 1.13 brings parameters to float32 under FSDP2 and drops the result: they stay in the type " +
				"in which they were loaded",
			Source: "accelerate/utils/fsdp_utils.py (fsdp2_prepare_model, param = param.to(torch.float32)), 1.12.0, " +
				"1.13.0 and 1.14.0",
			Shown: "none, from the source",
		},
		{
			Library: "torch", To: "2.5", Switch: FlattensAdapters,
			What: "litgpt before 0.5.8, which asks for torch 2.5, wraps whole blocks under FSDP1 with adapters: base " +
				"and adapters are one flat tensor, and gradients of both are formed",
			Source: "litgpt/finetune/lora.py (auto_wrap_policy) and pyproject.toml, 0.5.7 and 0.5.8; " +
				"torch/distributed/fsdp/_flat_param.py (_use_unsharded_views)",
			Shown: "published runs",
		},
		{
			Library: "transformers", To: "4.53", Switch: CheckpointsWrappers,
			What: "models of transformers before 4.53 (Llama's before 4.52) run FSDP1's wrapper of a layer again " +
				"where they checkpoint it: of a layer whose parameters are " +
				"frozen, it holds the input and its gradient until backward ends",
			Source: "transformers/modeling_layers.py (GradientCheckpointingLayer), 4.51 and 4.53; " +
				"torch/distributed/fsdp/_runtime_utils.py " +
				"(_register_post_backward_reshard_only_hook), 2.9",
			Shown: "a trace of Llama with adapters, published runs",
		},
		{
			Library: "torch", After: "2.14", From: "2.15", Switch: ReturnsWorkspace,
			What: "torch 2.15 gives cuBLAS's workspace back after each product (TORCH_CUBLAS_WORKSPACE_CACHE), and " +
				"a product with a bias takes cuBLASLt's alone",
			Source: "aten/src/ATen/cuda/CublasHandlePool.cpp, 2.9.1 and 2.15.0", Shown: "traces of nanoGPT and GPT-2",
		},
		{
			Library: "torch", After: "2.10", From: "2.12", Switch: UnifiesWorkspaces,
			What: "cuBLASLt of torch 2.12 works in cuBLAS's workspace where a product has a bias, and has none of its own " +
				"(TORCH_CUBLASLT_UNIFIED_WORKSPACE)",
			Source: "aten/src/ATen/cuda/CUDABlas.cpp, as traces of 2.10.0, 2.12.0 and 2.14.0 name it",
			Shown:  "traces of GPT-2, Qwen2, Phi, OPT, BERT, ViT and Whisper, whose layers have biases",
		},
		{
			Library: "torch", After: "2.14", From: "2.15", Switch: PacksNorms,
			What: "the norms of gradients in torch 2.15 are laid out behind one another, with a table of " +
				"their beginnings",
			Source: "aten/src/ATen/native/cuda/ForeachReduceOp.cu, 2.9.1 and 2.15.0", Shown: "traces of all families",
		},
		{
			Library: "torch", After: "2.14", From: "2.15", Switch: CopiesUpdates,
			What:   "Muon of torch 2.15 copies an update in bfloat16, too, before it makes it orthogonal",
			Source: "torch/optim/_muon.py (_zeropower_via_newtonschulz), 2.9.1, 2.10.0, 2.12.0, 2.14.0 and 2.15.0",
			Shown:  "a trace of Mixtral in bfloat16 with Muon",
		},
		{
			Library: "torch", After: "2.14", From: "2.15", Switch: FreesGathersFirst,
			What: "fully_shard of torch 2.15 lets go of what the layer before was gathered in before it copies a layer's parameters " +
				"out; a variable held it until behind that",
			Source: "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (wait_for_unshard), 2.9.1, 2.12.1, 2.13.0, 2.14.1 " +
				"and 2.15.0",
			Shown: "traced ranks of Gemma 3 under trl on 2.15",
		},
		{
			Library: "torch", After: "2.12", From: "2.14", Switch: SeedsEfficient,
			What:   "memory-efficient attention of torch 2.14 keeps a seed and an offset without dropout, too",
			Source: "aten/src/ATen/native/transformers/cuda/attention.cu, 2.9.1 and 2.15.0",
			Shown:  "traces of nanoGPT and Llama in fp32",
		},
		{
			Library: "torch", After: "2.12", From: "2.14", Switch: GroupsEfficient,
			What: "memory-efficient attention of torch 2.14 takes grouped heads, so that fp32 does not " +
				"write the scores out, nor does a single head of keys and values with a mask",
			Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, 2.9.1 and 2.15.0",
			Shown:  "traces of Llama and Qwen3 in fp32",
		},
		{
			Library: "torch", After: "2.12", From: "2.14", Switch: SortsFewerBits,
			What:   "the gradient of an embedding in torch 2.14 sorts the ids by as many bits as the largest one has",
			Source: "aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), 2.9.1 and 2.15.0",
			Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
		},
		{
			Library: "torch", From: "2.14", Switch: LeavesVolta,
			What:   "torch 2.14 is built with CUDA 13, which knows no card below compute capability 7.5",
			Source: "torch.cuda.get_arch_list() of torch 2.14.0 and 2.15.0; CUDA 13.0 release notes (Deprecated Architectures)",
			Shown:  "the builds themselves",
		},
		{
			Library: "torch", After: "2.10", From: "2.12", Switch: AccumulatesAtomic,
			What: "the gradient of an embedding with few rows that occur often is accumulated " +
				"atomically in torch 2.12, " +
				"without partial sums in memory",
			Source: "aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu (compute_grad_weight_atomic_accumulate, " +
				"a kernel of libtorch_cuda), 2.9.1 and 2.15.0",
			Shown: "traces of T5, whose position bias has 32 rows",
		},
		{
			Library: "torch", After: "2.9", From: "2.15", Switch: MasksMinimumFirst,
			What:   "the backward of torch.minimum makes the mask of what is not the least first in torch 2.15, before it last",
			Source: "tools/autograd/derivatives.yaml (minimum), as traces of 2.9.1 and 2.15.0 order its operations",
			Shown:  "traces of Apertus",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: SharesClampTies,
			What:   "the gradient of a clamp between tensors is shared in torch 2.15 where an element equals a limit",
			Source: "torch/csrc/autograd/FunctionsManual.cpp (clamp_backward), as traces of 2.9.1 and 2.15.0 name it",
			Shown:  "traces of T5 in fp16",
		},
		{
			Library: "torch", After: "2.10", From: "2.12", Switch: PadsScans,
			What:   "the CUB of CUDA 13, with which torch from 2.12 is built, takes more for a scan",
			Source: "cub/device/device_scan.cuh, CUDA 12.8 and 13.2",
			Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
		},
		{
			Library: "torch", After: "2.9", From: "2.11", Switch: PrefersCuDNN,
			What: "scaled_dot_product_attention of torch 2.11 prefers cuDNN's attention for half precision without " +
				"dropout on Hopper and on Blackwell in data centres (compute capabilities 9.0, 10.0 and 10.3)",
			Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_prefer_cudnn_attention), " +
				"aten/src/ATen/native/cudnn/MHA.cpp, 2.9.1 and 2.15.0 (torch._fused_sdp_choice asked of both)",
			Shown: "traces of Llama, ViT, T5 and Whisper for an H100 and a B200, and steps of torch 2.11 on an H200",
		},
		{
			Library: "torch", After: "2.10", From: "2.11", Switch: LoadsCUDA13,
			What: "torch from 2.11 is built for CUDA 13, whose context and kernels take 751 to 767 MiB on an H200; " +
				"published runs of CUDA 11 and 12 show 246 to 553",
			Source: "the requirements of the wheels of 2.10.0 and 2.11.0 (nvidia-cuda-runtime)",
			Shown:  "NVML beside 17 steps of torch 2.11 on an H200",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: WidensWorkspaces,
			What:   "torch 2.15 gives cuBLAS 32 MiB on Blackwell, too, which had 8.1 before",
			Source: "aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize), 2.9.1 and 2.15.0",
			Shown:  "traces of Llama, BERT and GPT-2 on a B200",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: RoundsFlashHeads,
			What: "FlashAttention in torch 2.15 rounds heads wider than 128 to a multiple of 64",
			Source: "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (head_size_rounded), " +
				"2.9.1 and 2.15.0", Shown: "traces of Llama with heads of 160",
		},
		{
			Library: "peft", After: "0.18.1", From: "0.19", Switch: ConvertsTargets,
			What: "peft 0.19 takes the names of the linear layers that mixtures had in transformers 4 (gate_proj, up_proj and " +
				"down_proj, or w1, w2 and w3, and gate) for the tensors that transformers 5 has in their place, and dense " +
				"layers of those names get no adapters; peft 0.18 adapts the linear layers that are left",
			Source: "utils/transformers_weight_conversion.py (_convert_peft_config_moe), 0.19.0, 0.20.0 and 0.21.2",
			Shown:  "traces of mixtures with adapters on experts",
		},
		{
			Library: "peft", After: "0.19.1", From: "0.20", Switch: ConvertsAllLinear,
			What:   "peft 0.20 does so for \"all-linear\", too, with which 0.19 stops",
			Source: "utils/transformers_weight_conversion.py (_resolve_string_target_modules), 0.19.1 and 0.20.0",
			Shown:  "traces of mixtures with adapters on experts",
		},
		{
			Library: "transformers", From: "5.0", To: "5.6", Switch: ConvertsQwen2MoE,
			What: "transformers 5.0 to 5.5 count Qwen2-MoE among the mixtures whose targets peft converts; 5.10 and later " +
				"do not list it, and 5.6 to 5.9 are taken to be like them",
			Source: "conversion_mapping.py (_MODEL_TO_CONVERSION_PATTERN), 5.0.0, 5.5.0, 5.10.0, 5.14.0, 5.17.0 and 5.23.0",
			Shown:  "what peft trains of Qwen2-MoE with 5.23.0, which does not list it; with 5.0 to 5.5 nothing was counted",
		},
		{
			Library: "peft", After: "0.20.0", From: "0.21", Switch: FoldsFactors,
			What: "peft 0.21 adds an adapter to the weights of experts in one product; before, what is added was made in full " +
				"first, in the adapters' type",
			Source: "tuners/lora/layer.py (_LoraFactorsProxy, ParamWrapper.get_delta_weight), 0.20.0 and 0.21.2",
			Shown:  "traces of mixtures with adapters on experts",
		},
	}
}
