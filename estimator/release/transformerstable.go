package release

// transformersChanges is what releases of transformers after 4.57 write otherwise.
func transformersChanges() []Change {
	return []Change{
		{
			Library: "transformers", After: "5.13", From: "5.14", Switch: SumsMask,
			What:   "transformers looks at an all-ones mask with a sum",
			Source: "masking_utils.py (fast_all), 5.13.0 and 5.14.0",
			Shown:  "traces of all decoders, and steps of 5.17 on an H200",
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
			Library: "transformers", After: "5.17", From: "5.23", Switch: MultipliesAngles,
			What:   "transformers 5.23 computes rotary angles by an elementwise product",
			Source: "models/llama/modeling_llama.py (LlamaRotaryEmbedding.forward), 4.57.6 and 5.23.0",
			Shown:  "traces of all decoders",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: HooksTowers,
			What: "transformers 5.10 makes the embeddings of every model inside a model require a gradient under " +
				"checkpointed LoRA: the convolutions of Whisper and of the towers that see, too",
			Source: "modeling_utils.py (enable_input_require_grads), models/whisper/modeling_whisper.py and " +
				"models/clip/modeling_clip.py (_input_embed_layer), 4.57.6 and 5.23.0",
			Shown: "traces of Whisper and CLIP with LoRA and checkpoints",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: ReturnsStatesAlone,
			What: "a block of gpt_bigcode in transformers 5.10 returns its hidden states alone: the probabilities of eager " +
				"attention go when it ends, not when the next one does",
			Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock.forward), 4.57.6 and 5.23.0",
			Shown:  "traces of checkpointed gpt_bigcode with eager attention",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: DropsCacheFirst,
			What: "transformers 5.10 decides that a checkpointed model has no cache before its forward begins: " +
				"Whisper, whose decoder is given no mask, looks for packed sequences, and goes without a mask where there " +
				"are none",
			Source: "utils/generic.py (merge_with_config_defaults), masking_utils.py (find_packed_sequence_indices), " +
				"models/whisper/modeling_whisper.py, 4.57.6 and 5.23.0",
			Shown: "traces of checkpointed Whisper",
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
			Library: "transformers", After: "4.57", From: "5.0", Switch: UntiesBias,
			What: "where weights are not tied, transformers 5 has two biases in the head for masked words of BERT, " +
				"RoBERTa, ALBERT and DeBERTa, of which one has no use",
			Source: "modeling_utils.py (_tied_weights_keys, tie_weights), 4.57.6, 5.0.0 and 5.23.0",
			Shown:  "traces of ALBERT, BERT and DeBERTa whose head is not tied",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: GathersSegments,
			What: "transformers 5.23 gathers the segments of BERT and its like by position, and adds " +
				"positions out of place",
			Source: "models/bert/modeling_bert.py (BertEmbeddings), 4.57.6 and 5.23.0",
			Shown:  "traces of BERT and RoBERTa",
		},
		{
			Library: "transformers", After: "4.57", From: "5.14", Switch: DeclaresHeadsFirst,
			What: "XLM-RoBERTa and CamemBERT of transformers 5.14 name their heads before the model: these are moved, " +
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
			Library: "transformers", After: "4.57", From: "5.10", Switch: ProjectsTowers,
			What: "CLIP of transformers 5.10 projects the pictures before it reads the texts, whose " +
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
			Library: "transformers", After: "5.0", From: "5.10", Switch: DropsMaskBuffers,
			What: "GPT-2 of transformers 5.23 has no buffers for its mask any more, and eager attention adds the mask that the " +
				"library makes",
			Source: "models/gpt2/modeling_gpt2.py (GPT2Attention, eager_attention_forward), 4.57.6, 5.0.0, 5.10.0, 5.14.0, 5.17.0 " +
				"and 5.23.0", Shown: "traces of GPT-2",
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
			Library: "transformers", After: "4.57", From: "5.10", Switch: ReassignsScores,
			What: "eager attention of BERT and its like in transformers 5.10 has one variable for scores " +
				"and probabilities; that of DistilBERT, which filled scores before, is written like theirs",
			Source: "models/bert/modeling_bert.py, models/distilbert/modeling_distilbert.py (eager_attention_forward), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of BERT, RoBERTa and DistilBERT with eager attention",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: ReturnsProbabilities,
			What: "attention of OPT and CLIP in transformers 5.10 returns the probabilities where it is eager: they " +
				"stay to the end of a layer",
			Source: "models/opt/modeling_opt.py (OPTAttention), models/clip/modeling_clip.py (CLIPAttention), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of OPT and CLIP with eager attention",
		},
		{
			Library: "transformers", After: "5.14", From: "5.17", Switch: InterfacesT5,
			What: "T5's attention goes through the library's interfaces, and eager attention adds bias and mask one after " +
				"the other",
			Source: "models/t5/modeling_t5.py (T5Attention), 4.57.6, 5.14.0, 5.15.0, 5.19.0, 5.20.0 and 5.23.0",
			Shown:  "traces of T5 and mT5 with eager attention",
		},
		{
			Library: "transformers", After: "5.17", From: "5.20", Switch: LaysT5BiasOut,
			What: "T5's sdpa has the positions' bias, laid out anew, as its mask; from 5.15 to 5.19 the bias is strided, " +
				"and sdpa writes the formula out, which is replayed as eager attention is (5 % low)",
			Source: "models/t5/modeling_t5.py (T5Attention), integrations/sdpa_attention.py " +
				"(create_position_bias_mask), 4.57.6, 5.14.0, 5.15.0, 5.19.0, 5.20.0 and 5.23.0",
			Shown: "traces of T5 and mT5 of 5.23, and a step of 5.17 on an H200",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: TiesT5,
			What: "the head of T5 and mT5 in transformers 5.10 is the embedding, also where the configuration says " +
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
			Library: "transformers", After: "4.57", From: "5.0", Switch: InterfacesBART,
			What: "BART and mBART of transformers 5 have their masks made by the library; before, they made them, an " +
				"additive one for every query where attention is eager; and where the head is not tied to the embedding, " +
				"encoder and decoder have one each, and no token is looked up in the shared one",
			Source: "models/bart/modeling_bart.py (_update_full_mask, _update_causal_mask, _update_cross_attn_mask, BartModel), " +
				"models/mbart/modeling_mbart.py, 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
			Shown: "traces of BART and mBART with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: InterfacesElectra,
			What: "ELECTRA of transformers 5 goes through the library's interfaces: sdpa is its default, and masks are made " +
				"behind the embeddings; before, it had eager attention alone",
			Source: "models/electra/modeling_electra.py (ElectraModel, ElectraSelfAttention), 4.57.6, 5.0.0, 5.10.0 and " +
				"5.23.0",
			Shown: "traces of ELECTRA with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: MasksConvolutions,
			What: "the convolutions of LFM2 in transformers 5 get the batch's mask, which is looked at first, and its " +
				"rotary frequencies are there once",
			Source: "models/lfm2/modeling_lfm2.py (Lfm2Model), 4.57.6, 5.0.0 and 5.23.0",
			Shown:  "traces of LFM2 with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "5.0", From: "5.10", Switch: CachesConvolutions,
			What: "LFM2 of transformers 5.10 fills the library's cache; before, it had one of its own, with a state for " +
				"each layer from the beginning, and keys and values that were not copied",
			Source: "models/lfm2/modeling_lfm2.py (Lfm2HybridConvCache), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
			Shown:  "traces of LFM2 with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "5.14", From: "5.17", Switch: ConvolvesByFunction,
			What: "the convolutions of LFM2 in transformers 5.23 go through a function of the library, which casts what " +
				"it gets to the type of the parameters; before, through nn.Conv1d",
			Source: "models/lfm2/modeling_lfm2.py (Lfm2ShortConv), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
			Shown:  "traces of LFM2 with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "5.10", From: "5.14", Switch: GroupsGranite,
			What: "the mixtures of Granite run their experts as grouped products in transformers 5.23; before, a product " +
				"of one expert after the other, whose gradient was as large as all of them",
			Source: "models/granitemoe/modeling_granitemoe.py (GraniteMoeParallelExperts, GraniteMoeTopKGating), " +
				"models/granitemoeshared/modeling_granitemoeshared.py, " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
			Shown: "traces of all three with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: InterfacesGranite,
			What: "GraniteMoE and GraniteMoEShared of transformers 5 make their masks as all decoders do, scale the " +
				"embeddings behind them, leave it to the loss to make logits float32, and let go of the routers' logits",
			Source: "models/granitemoe/modeling_granitemoe.py (GraniteMoeModel, GraniteMoeForCausalLM), " +
				"models/granitemoeshared/modeling_granitemoeshared.py, 4.57.6, 5.0.0 and 5.23.0",
			Shown: "traces of both with 4.57 and 5.23",
		},
		{
			Library: "transformers", From: "5.8", To: "5.18", Switch: FillsIdleRows,
			What: "mixtures of experts of transformers 5.8 to 5.17 fill the rows that belong to no expert of this " +
				"process, also where all are here: a mask, and a copy of the gradient, before the products and behind them",
			Source: "integrations/moe.py (grouped_mm_experts_forward), 5.7.0, 5.8.0, 5.17.0 and 5.18.0",
			Shown:  "traces of Mixtral with transformers 5.10.0",
		},
		{
			Library: "transformers", From: "5.10.0", To: "5.10.1", Switch: CopiesExperts,
			What: "transformers 5.10.0 copies the transposed weights of all experts before each grouped product, and " +
				"backward keeps the copies",
			Source: "integrations/moe.py (_grouped_linear), 5.9.0, 5.10.0 and 5.10.1",
			Shown:  "traces of Mixtral with transformers 5.10.0",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: InterfacesStableLM,
			What: "StableLM of transformers 5.23 has one rotary embedding for all layers, and its attention goes " +
				"through the library's interfaces: grouped keys and values are repeated for eager attention alone",
			Source: "models/stablelm/modeling_stablelm.py (StableLmAttention), 4.57.6 and 5.23.0",
			Shown:  "traces of StableLM",
		},
		{
			Library: "transformers", After: "5.12", From: "5.13", Switch: RepeatsWideHeads,
			What: "grouped keys and values of heads wider than 256 are repeated for scaled_dot_product_attention since " +
				"transformers 5.13, as Gemma 4's layers without a window have them",
			Source: "integrations/sdpa_attention.py (use_gqa_in_sdpa), 5.12.0, 5.13.0 and 5.23.0",
			Shown:  "traces of Gemma 4 with 5.23",
		},
		{
			Library: "transformers", After: "5.16", From: "5.17", Switch: ComputesPixtral,
			What: "Mistral 3's tower computes the rotary positions of its patches since transformers 5.17; before, it had a " +
				"table of all of them",
			Source: "models/pixtral/modeling_pixtral.py (PixtralRotaryEmbedding.__init__), 4.57.6, 5.16.0 and 5.17.0",
			Shown:  "traces of Mistral 3 on text with 4.57 and 5.23",
		},
		{
			Library: "transformers", After: "5.16", From: "5.17", Switch: SolvesDeltaRule,
			What: "gated delta nets (Qwen3.5, Qwen3-Next) without the package fla solve a triangular system for each " +
				"chunk of tokens since transformers 5.17; before, a loop went through its rows, which is not replayed",
			Source: "models/qwen3_next/modeling_qwen3_next.py (torch_chunk_gated_delta_rule), 4.57.6, 5.0.0, 5.10.0, " +
				"5.16.0, 5.17.0 and 5.23.0",
			Shown: "traces of Qwen3.5 and Qwen3-Next with 5.23, and of Qwen3-Next with 4.57",
		},
		{
			Library: "transformers", After: "5.10", From: "5.14", Switch: InterfacesNemotron,
			What: "the masks and the attention of Nemotron in transformers 5.17 go through the library's interfaces; " +
				"before, it made its own mask and repeated grouped keys and values for every kernel",
			Source: "models/nemotron/modeling_nemotron.py (NemotronSdpaAttention, NemotronModel), 4.57.6, 5.0.0, 5.10.0 " +
				"(which has the masks alone) and 5.17.0",
			Shown: "traces of Nemotron, and a step of 5.17 on an H200",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: TypesXIELU,
			What: "the activation of Apertus in transformers 5.10 has its parameters in the type of the model; before, " +
				"they were bfloat16 whatever the model was",
			Source: "models/apertus/modeling_apertus.py (ApertusMLP.__init__), 4.57.6 and 5.23.0",
			Shown:  "traces of Apertus",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: BuffersPositions,
			What: "the layers of GPT-J in transformers 5.10 keep their table of positions as a buffer, which is " +
				"loaded with them",
			Source: "models/gptj/modeling_gptj.py (GPTJAttention.__init__), 4.57.6 and 5.23.0",
			Shown:  "traces of GPT-J",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: ViewsHeadsFirst,
			What: "attention of the hybrid Granite in transformers 5.10 lays queries, keys and values out by heads as " +
				"it computes them; its layers are handed no positions",
			Source: "models/granitemoehybrid/modeling_granitemoehybrid.py (GraniteMoeHybridAttention), " +
				"4.57.6 and 5.23.0",
			Shown: "traces of Granite 4",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: LeavesLogits,
			What: "GPT-J and the hybrid Granite of transformers 5.10 leave it to the loss to make logits float32",
			Source: "models/gptj/modeling_gptj.py (GPTJForCausalLM.forward), " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
			Shown: "traces of GPT-J and Granite 4",
		},
		{
			Library: "transformers", After: "5.14", From: "5.17", Switch: CachesLatents,
			What: "DeepSeek V2 and V3 of transformers 5.17 cache keys and values as they are " +
				"compressed, write a head's " +
				"keys into one tensor part by part, turn even and odd elements where they lie, and choose experts with " +
				"gradients kept track of",
			Source: "models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention, DeepseekV3TopkRouter), " +
				"models/deepseek_v2/modeling_deepseek_v2.py, 4.57.6 and 5.23.0",
			Shown: "traces of DeepSeek V2 and V3",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: NarrowsSinks,
			What: "GPT-OSS of transformers 5.10 brings the probabilities of attention into the type of the values " +
				"before it lets go of the scores",
			Source: "models/gpt_oss/modeling_gpt_oss.py (eager_attention_forward), 4.57.6 and 5.23.0",
			Shown:  "traces of GPT-OSS",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: InterfacesModernBERT,
			What: "ModernBERT of transformers 5.10 makes its masks as other encoders do, none where a " +
				"batch is full, turns " +
				"queries and keys in float32 by tables that all layers of a kind share, and compiles no part of itself",
			Source: "models/modernbert/modeling_modernbert.py (ModernBertModel, ModernBertAttention), 4.57.6 and 5.23.0",
			Shown:  "traces of ModernBERT",
		},
		{
			Library: "transformers", After: "5.10", From: "5.14", Switch: ReturnsTower,
			What: "LLaVA, PaliGemma and Gemma 3 of transformers 5.14 keep what their tower returned until the text model has " +
				"run, and compare the number of pictures' tokens on the device",
			Source: "models/llava/modeling_llava.py, models/paligemma/modeling_paligemma.py, models/gemma3/" +
				"modeling_gemma3.py (get_image_features, get_placeholder_mask), 4.57.6 and 5.23.0",
			Shown: "traces of LLaVA, PaliGemma and Gemma 3 with pictures",
		},
		{
			Library: "transformers", After: "4.57", From: "5.17", Switch: PlainPictureLoss,
			What: "Gemma 3 with pictures computes the loss of all decoders in transformers 5.17, and not of logits that " +
				"it has made float32 and chosen by the batch's mask",
			Source: "models/gemma3/modeling_gemma3.py (Gemma3ForConditionalGeneration.forward), 4.57.6 and 5.23.0",
			Shown:  "traces of Gemma 3 with pictures",
		},
		{
			Library: "transformers", After: "4.57", From: "5.10", Switch: MasksIdleWindow,
			What: "Qwen2-MoE of transformers 5.10 makes the mask of a window of no tokens beside that of its layers, " +
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
			Library: "transformers", After: "4.57", From: "5.0", Switch: SetsUseCache,
			What: "the Trainer of transformers 5 sets use_cache of a model's configuration to its own argument of that " +
				"name, false where nothing is said: no key/value cache is filled, neither in training nor in an evaluation, " +
				"whatever the configuration says, but in T5's decoder and in models with towers, which read another one",
			Source: "trainer.py (Trainer.__init__), training_args.py (use_cache), 4.57.6, 5.0.0 and 5.23.0",
			Shown:  "steps and evaluations of decoders in the Trainer itself",
		},
		{
			Library: "transformers", After: "5.9", From: "5.10", Switch: DealsByFSDP2,
			What: "the Trainer's own arguments (fsdp, fsdp_config) mean FSDP2 where they do not name a version; accelerate's " +
				"file and its launcher still mean FSDP1",
			Source: "training_args.py (_process_fsdp_args), 5.9.0, 5.10.1 and 5.23.0; accelerate/utils/dataclasses.py " +
				"(FullyShardedDataParallelPlugin), 1.15.0",
			Shown: "ranks in the Trainer itself without a version",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: CachesInTraining,
			What: "Gemma 2 and 3, Cohere 2 and the hybrid Granite fill a cache in training in transformers 5.23",
			Source: "models/gemma3/modeling_gemma3.py (Gemma3TextModel.forward), models/cohere2/modeling_cohere2.py, " +
				"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
			Shown: "traces of Gemma 3, Cohere 2 and Granite 4",
		},
		{
			Library: "transformers", After: "5.17", From: "5.23", Switch: CapsWrittenOut,
			What: "transformers 5.23 has no sdpa for Gemma 2, whose scores it would not bound: attention is the formula " +
				"written out where nothing is said",
			Source: "models/gemma2/modeling_gemma2.py (_supports_sdpa), 4.57.6, 5.0.0, 5.10.0, 5.14.0, 5.17.0 and 5.23.0",
			Shown:  "traces of Gemma 2 in trl's trainers",
		},
		{
			Library: "transformers", After: "5.17", From: "5.23", Switch: CapsSeenLogits,
			What: "PaliGemma 2 bounds its logits in transformers 5.23, as its text model does alone; 4.57 left them as " +
				"they were",
			Source: "models/paligemma/modeling_paligemma.py (PaliGemmaForConditionalGeneration.forward), 4.57.6 and 5.23.0",
			Shown:  "runs of PaliGemma 2 in transformers' Trainer",
		},
		{
			Library: "transformers", After: "4.57", From: "5.0", Switch: KeepsLogits,
			What:   "GPT-J, CodeGen, GPTBigCode, OPT, BLOOM, MPT and GPT-Neo take logits_to_keep in transformers 5.23",
			Source: "models/opt/modeling_opt.py (OPTForCausalLM.forward) and the other six's, 4.57.6 and 5.23.0",
			Shown:  "traces of OPT in GRPOTrainer",
		},
	}
}
