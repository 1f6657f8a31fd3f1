package release

// trlChanges are those of trl, whose trainers have defaults of their own.
func trlChanges() []Change {
	return []Change{
		{
			Library: "trl", From: "0.26", Switch: LeavesBase,
			What:   "SFTTrainer, GRPOTrainer and RewardTrainer leave a quantised base in the types that it was loaded in, and cast its adapters to bfloat16",
			Source: "trainer/sft_trainer.py, grpo_trainer.py and reward_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.25.1 and 0.26.0",
			Shown:  "traces of SFTTrainer, GRPOTrainer and RewardTrainer with trl 0.26.2",
		},
		{
			Library: "trl", From: "0.27", Switch: LeavesBaseInRLOO,
			What:   "RLOOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
			Source: "trainer/rloo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.26.0 and 0.27.0",
			Shown:  "traces of RLOOTrainer with trl 1.16",
		},
		{
			Library: "trl", From: "0.29", Switch: LeavesBaseInDPO,
			What:   "DPOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
			Source: "trainer/dpo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.28.0 and 0.29.0",
			Shown:  "traces of DPOTrainer with trl 1.16",
		},
		{
			Library: "trl", From: "1.4", Switch: LeavesBaseInKTO,
			What:   "KTOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
			Source: "experimental/kto/kto_trainer.py, later trainer/kto_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 1.3.0 and 1.4.0",
			Shown:  "traces of KTOTrainer with trl 1.16",
		},
		{
			Library: "trl", From: "1.7", Switch: ChunksSFTLoss,
			What: "SFTTrainer of trl from 1.7 on computes its loss in chunks, without logits, where " +
				"loss_type is not given",
			Source: "trainer/sft_config.py (loss_type), 1.7 and 1.16", Shown: "traces of SFTTrainer with trl 1.16",
		},
		{
			Library: "trl", After: "1.13", From: "1.15", Switch: FusesTRLHead,
			What: "trl from 1.15 on computes log-probabilities in SFTTrainer, DPOTrainer and " +
				"GRPOTrainer without logits",
			Source: "trainer/utils.py (add_fused_lm_head), 1.16.0",
			Shown:  "traces of SFTTrainer and DPOTrainer with trl 1.16",
		},
	}
}
