package release

// trlChanges are those of trl, whose trainers have defaults of their own.
func trlChanges() []Change {
	return []Change{
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
