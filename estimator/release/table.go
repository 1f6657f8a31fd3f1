package release

func libraryChanges() []Change {
	return []Change{
		{
			Library: "transformers", To: "4.49", Switch: ShiftsLogits,
			What:   "transformers before 4.49 copies the float32 logits once more to shift them",
			Source: "loss/loss_utils.py (ForCausalLMLoss), 4.48.1 and 4.49.0", Shown: "published runs",
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
			Library: "transformers", From: "4.53", To: "5.23", Switch: IgnoresCheckpointing,
			What: "transformers from 4.53 accepts gradient checkpointing for gpt_bigcode and does nothing; 5.23 " +
				"checkpoints again",
			Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock), 4.53.3, 4.57.6 and 5.23.0",
			Shown:  "traces of gpt_bigcode",
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
			Library: "torch", After: "2.12", From: "2.15", Switch: ReturnsWorkspace,
			What: "torch 2.15 gives cuBLAS's workspace back after each product (TORCH_CUBLAS_WORKSPACE_CACHE), and " +
				"a product with a bias takes cuBLASLt's alone",
			Source: "aten/src/ATen/cuda/CublasHandlePool.cpp, 2.9.1 and 2.15.0", Shown: "traces of nanoGPT and GPT-2",
		},
		{
			Library: "torch", After: "2.12", From: "2.15", Switch: PacksNorms,
			What: "the norms of gradients in torch 2.15 are laid out behind one another, with a table of " +
				"their beginnings",
			Source: "aten/src/ATen/native/cuda/ForeachReduceOp.cu, 2.9.1 and 2.15.0", Shown: "traces of all families",
		},
		{
			Library: "torch", After: "2.12", From: "2.15", Switch: SeedsEfficient,
			What:   "memory-efficient attention of torch 2.15 keeps a seed and an offset without dropout, too",
			Source: "aten/src/ATen/native/transformers/cuda/attention.cu, 2.9.1 and 2.15.0",
			Shown:  "traces of nanoGPT and Llama in fp32",
		},
		{
			Library: "torch", After: "2.12", From: "2.15", Switch: GroupsEfficient,
			What: "memory-efficient attention of torch 2.15 takes grouped heads, so that fp32 does not " +
				"write the scores out",
			Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, 2.9.1 and 2.15.0",
			Shown:  "traces of Llama and Qwen3 in fp32",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: SortsFewerBits,
			What:   "the gradient of an embedding in torch 2.15 sorts the ids by as many bits as the largest one has",
			Source: "aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), 2.9.1 and 2.15.0",
			Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: AccumulatesAtomic,
			What: "the gradient of an embedding with few rows that occur often is accumulated " +
				"atomically in torch 2.15, " +
				"without partial sums in memory",
			Source: "aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu (compute_grad_weight_atomic_accumulate, " +
				"a kernel of libtorch_cuda), 2.9.1 and 2.15.0",
			Shown: "traces of T5, whose position bias has 32 rows",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: SharesClampTies,
			What:   "the gradient of a clamp between tensors is shared in torch 2.15 where an element equals a limit",
			Source: "torch/csrc/autograd/FunctionsManual.cpp (clamp_backward), as traces of 2.9.1 and 2.15.0 name it",
			Shown:  "traces of T5 in fp16",
		},
		{
			Library: "torch", After: "2.10", From: "2.15", Switch: PadsScans,
			What:   "the CUB of CUDA 13, with which torch 2.15 is built, takes more for a scan",
			Source: "cub/device/device_scan.cuh, CUDA 12.8 and 13.2",
			Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
		},
		{
			Library: "torch", After: "2.9", From: "2.15", Switch: PrefersCuDNN,
			What: "scaled_dot_product_attention of torch 2.15 prefers cuDNN's attention for half precision without " +
				"dropout on Hopper and on Blackwell in data centres (compute capabilities 9.0, 10.0 and 10.3)",
			Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_prefer_cudnn_attention), " +
				"aten/src/ATen/native/cudnn/MHA.cpp, 2.9.1 and 2.15.0 (torch._fused_sdp_choice asked of both)",
			Shown: "traces of Llama, ViT, T5 and Whisper on an H100 and a B200, where cuDNN's engine has no workspace",
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
			Library: "transformers", After: "5.10", From: "5.23", Switch: SumsMask,
			What:   "transformers 5.23 looks at an all-ones mask with a sum",
			Source: "masking_utils.py (fast_all), 5.23.0", Shown: "traces of all decoders",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: BroadcastsMask,
			What:   "transformers 5.23 makes masks by broadcasting rows over columns",
			Source: "masking_utils.py (sdpa_mask), 4.57.6 and 5.23.0",
			Shown:  "traces of Llama with padding, Mistral and Gemma 3",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: OffsetsPositions,
			What:   "transformers 5.23 adds what the cache has seen to the positions",
			Source: "models/llama/modeling_llama.py (LlamaModel.forward), 4.57.6 and 5.23.0",
			Shown:  "traces of all decoders",
		},
		{
			Library: "transformers", After: "5.10", From: "5.23", Switch: MultipliesAngles,
			What:   "transformers 5.23 computes rotary angles by an elementwise product",
			Source: "models/llama/modeling_llama.py (LlamaRotaryEmbedding.forward), 4.57.6 and 5.23.0",
			Shown:  "traces of all decoders",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: KeepsFrequencies,
			What:   "transformers 5.23 registers the frequencies of rotary embeddings a second time, as they were made",
			Source: "models/llama/modeling_llama.py (LlamaRotaryEmbedding), 4.57.6 and 5.23.0",
			Shown:  "traces of all decoders",
		},
		{
			Library: "transformers", After: "5.0", From: "5.10", Switch: ScalesInEmbedding,
			What:   "transformers 5.23 scales Gemma's embeddings in their own module, by a buffer",
			Source: "models/gemma/modeling_gemma.py (GemmaTextScaledWordEmbedding), 4.57.6 and 5.23.0",
			Shown:  "traces of Gemma",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: GathersSegments,
			What: "transformers 5.23 gathers the segments of BERT and its like by position, and adds " +
				"positions out of place",
			Source: "models/bert/modeling_bert.py (BertEmbeddings), 4.57.6 and 5.23.0",
			Shown:  "traces of BERT and RoBERTa",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: DeclaresHeadsFirst,
			What: "XLM-RoBERTa and CamemBERT of transformers 5.23 name their heads before the model: these are moved, " +
				"and met by the optimizer, first",
			Source: "models/xlm_roberta/modeling_xlm_roberta.py (XLMRobertaForMaskedLM), 4.57.6 and 5.23.0",
			Shown:  "traces of XLM-RoBERTa and CamemBERT",
		},
		{
			Library: "transformers", After: "5.0", From: "5.10", Switch: RenamesViT,
			What: "ViT's attention in transformers 5.23 computes queries first, and lets go of its input " +
				"before the residual",
			Source: "models/vit/modeling_vit.py (ViTAttention), 4.57.6 and 5.23.0", Shown: "traces of ViT",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: ProjectsTowers,
			What: "CLIP of transformers 5.23 projects the pictures before it reads the texts, whose " +
				"mask is that of all " +
				"decoders: none for full texts",
			Source: "models/clip/modeling_clip.py (CLIPModel, CLIPTextModel), 4.57.6 and 5.23.0",
			Shown:  "traces of CLIP",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: UnscriptsBuckets,
			What:   "DeBERTa of transformers 5.23 computes the buckets of distances in plain Python, step by step",
			Source: "models/deberta_v2/modeling_deberta_v2.py (make_log_bucket_position), 4.57.6 and 5.23.0",
			Shown:  "traces of DeBERTa v3",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: LaysKeysOutFirst,
			What:   "Whisper's attention in transformers 5.23 lays keys out by head before it computes values",
			Source: "models/whisper/modeling_whisper.py (WhisperAttention), 4.57.6 and 5.23.0",
			Shown:  "traces of Whisper",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: DropsMaskBuffers,
			What:   "GPT-2 of transformers 5.23 has no buffers for its mask any more",
			Source: "models/gpt2/modeling_gpt2.py (GPT2Attention), 4.57.6 and 5.23.0", Shown: "traces of GPT-2",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: MasksByLibrary,
			What: "OPT, Falcon, Bloom, T5, GPT-J, StableLM, MPT and the hybrid Granite of transformers 5.23 " +
				"make their masks " +
				"as all decoders do",
			Source: "models/opt/modeling_opt.py, models/falcon/modeling_falcon.py, models/bloom/modeling_bloom.py, " +
				"models/t5/modeling_t5.py, models/gptj/modeling_gptj.py, models/stablelm/modeling_stablelm.py, " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, models/mpt/modeling_mpt.py " +
				"(create_causal_mask), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of OPT, Falcon, Bloom, T5, GPT-J, StableLM, Granite 4 and MPT",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: ReassignsScores,
			What: "eager attention of BERT and its like in transformers 5.23 has one variable for scores " +
				"and probabilities; that of DistilBERT, which filled scores before, is written like theirs",
			Source: "models/bert/modeling_bert.py, models/distilbert/modeling_distilbert.py (eager_attention_forward), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of BERT, RoBERTa and DistilBERT with eager attention",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: ReturnsProbabilities,
			What: "attention of OPT and CLIP in transformers 5.23 returns the probabilities where it is eager: they " +
				"stay to the end of a layer",
			Source: "models/opt/modeling_opt.py (OPTAttention), models/clip/modeling_clip.py (CLIPAttention), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of OPT and CLIP with eager attention",
		},
		{
			Library: "transformers", After: "5.10", From: "5.23", Switch: InterfacesT5,
			What: "T5's attention in transformers 5.23 goes through the library's interfaces: sdpa is " +
				"its default, with " +
				"the positions' bias as its mask, and eager attention adds bias and mask one after the other",
			Source: "models/t5/modeling_t5.py (T5Attention), integrations/sdpa_attention.py " +
				"(create_position_bias_mask), 4.57.6 and 5.23.0",
			Shown: "traces of T5 and mT5",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: TiesT5,
			What: "the head of T5 and mT5 in transformers 5.23 is the embedding, also where the configuration says " +
				"tie_word_embeddings false (Flan-T5); mT5 does not scale what enters it",
			Source: "models/t5/configuration_t5.py (__post_init__), models/mt5/configuration_mt5.py, 4.57.6 and 5.23.0",
			Shown:  "traces of T5 and mT5 with tie_word_embeddings false",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: GroupsExperts,
			What: "mixtures of experts in transformers 5.23 keep all experts in two tensors, sort the tokens by " +
				"expert and run grouped products (Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE)",
			Source: "integrations/moe.py (grouped_mm_experts_forward), models/mixtral/modeling_mixtral.py " +
				"(MixtralExperts), 4.57.6 and 5.23.0", Shown: "traces of Mixtral, Qwen MoE and OLMoE",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: InterfacesStableLM,
			What: "StableLM of transformers 5.23 has one rotary embedding for all layers, and its attention goes " +
				"through the library's interfaces: grouped keys and values are repeated for eager attention alone",
			Source: "models/stablelm/modeling_stablelm.py (StableLmAttention), 4.57.6 and 5.23.0",
			Shown:  "traces of StableLM",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: BuffersPositions,
			What: "the layers of GPT-J in transformers 5.23 keep their table of positions as a buffer, which is " +
				"loaded with them",
			Source: "models/gptj/modeling_gptj.py (GPTJAttention.__init__), 4.57.6 and 5.23.0",
			Shown:  "traces of GPT-J",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: ViewsHeadsFirst,
			What: "attention of the hybrid Granite in transformers 5.23 lays queries, keys and values out by heads as " +
				"it computes them; its layers are handed no positions",
			Source: "models/granitemoehybrid/modeling_granitemoehybrid.py (GraniteMoeHybridAttention), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of Granite 4",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: LeavesLogits,
			What: "GPT-J and the hybrid Granite of transformers 5.23 leave it to the loss to make logits float32",
			Source: "models/gptj/modeling_gptj.py (GPTJForCausalLM.forward), " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
			Shown: "traces of GPT-J and Granite 4",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: CachesLatents,
			What: "DeepSeek V2 and V3 of transformers 5.23 cache keys and values as they are " +
				"compressed, write a head's " +
				"keys into one tensor part by part, turn even and odd elements where they lie, and choose experts with " +
				"gradients kept track of",
			Source: "models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention, DeepseekV3TopkRouter), " +
				"models/deepseek_v2/modeling_deepseek_v2.py, 4.57.6 and 5.23.0",
			Shown: "traces of DeepSeek V2 and V3",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: NarrowsSinks,
			What: "GPT-OSS of transformers 5.23 brings the probabilities of attention into the type of the values " +
				"before it lets go of the scores",
			Source: "models/gpt_oss/modeling_gpt_oss.py (eager_attention_forward), 4.57.6 and 5.23.0",
			Shown:  "traces of GPT-OSS",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: InterfacesModernBERT,
			What: "ModernBERT of transformers 5.23 makes its masks as other encoders do, none where a " +
				"batch is full, turns " +
				"queries and keys in float32 by tables that all layers of a kind share, and compiles no part of itself",
			Source: "models/modernbert/modeling_modernbert.py (ModernBertModel, ModernBertAttention), 4.57.6 and 5.23.0",
			Shown:  "traces of ModernBERT",
		},
		{
			Library: "transformers", After: "4.57", From: "5.23", Switch: MasksIdleWindow,
			What: "Qwen2-MoE of transformers 5.23 makes the mask of a window of no tokens beside that of its layers, " +
				"which all see everything",
			Source: "models/qwen2_moe/modeling_qwen2_moe.py (Qwen2MoeModel.forward), " +
				"models/qwen2_moe/configuration_qwen2_moe.py (sliding_window), 5.23.0",
			Shown: "traces of Qwen2-MoE",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: CachesWindow,
			What: "transformers 5.23 keeps the length of the window as a tensor in the cache of each " +
				"layer that has one",
			Source: "cache_utils.py (DynamicSlidingWindowLayer), 4.57.6 and 5.23.0",
			Shown:  "traces of Mistral and Gemma 3",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: CachesInTraining,
			What: "Gemma 2 and 3, Cohere 2 and the hybrid Granite fill a cache in training in transformers 5.23",
			Source: "models/gemma3/modeling_gemma3.py (Gemma3TextModel.forward), models/cohere2/modeling_cohere2.py, " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
			Shown: "traces of Gemma 3, Cohere 2 and Granite 4",
		},
	}
}
