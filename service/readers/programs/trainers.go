package programs

// The calls that configure the Trainer, and the trainers of other objectives.
var (
	ArgumentCalls = []string{"SFTConfig", "UnslothTrainingArguments", "DPOConfig", "ORPOConfig", "CPOConfig",
		"KTOConfig", "RewardConfig", "GRPOConfig", "RLOOConfig", "TrainingArguments", "Seq2SeqTrainingArguments"}
	OtherTrainers = []string{"DPOTrainer", "GRPOTrainer", "ORPOTrainer", "KTOTrainer", "PPOTrainer", "RewardTrainer",
		"CPOTrainer", "GKDTrainer", "OnlineDPOTrainer", "RLOOTrainer"}
)
