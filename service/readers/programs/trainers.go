package programs

// The calls that configure the Trainer, and the trainers of other objectives.
var (
	ArgumentCalls = []string{"SFTConfig", "UnslothTrainingArguments", "DPOConfig", "ORPOConfig", "CPOConfig",
		"KTOConfig", "RewardConfig", "GRPOConfig", "RLOOConfig", "TrainingArguments", "Seq2SeqTrainingArguments"}
	OtherTrainers = []string{"DPOTrainer", "GRPOTrainer", "ORPOTrainer", "KTOTrainer", "PPOTrainer", "RewardTrainer",
		"CPOTrainer", "GKDTrainer", "OnlineDPOTrainer", "RLOOTrainer"}
)

// Kind is a kind of training that trl has a trainer for and that the estimator replays.
type Kind struct {
	// Config is the class of its arguments, and trainer the one that runs them.
	Config, Trainer string
	// Pairs: what is trained on has a prompt and a completion; the others have sequences.
	Pairs bool
	// Reference: it is measured by another model, or by the trained one without its adapters.
	Reference bool
	// Writes: the completions are written while it trains.
	Writes bool
}

// Kinds are the kinds by the names of trl's programs. Sources: trl 0.26 and 1.16, trl/scripts, trl/trainer and
// trl/experimental.
var Kinds = map[string]Kind{
	"dpo":    {Config: "DPOConfig", Trainer: "DPOTrainer", Pairs: true, Reference: true},
	"orpo":   {Config: "ORPOConfig", Trainer: "ORPOTrainer", Pairs: true},
	"cpo":    {Config: "CPOConfig", Trainer: "CPOTrainer", Pairs: true},
	"kto":    {Config: "KTOConfig", Trainer: "KTOTrainer", Pairs: true, Reference: true},
	"reward": {Config: "RewardConfig", Trainer: "RewardTrainer"},
	"grpo":   {Config: "GRPOConfig", Trainer: "GRPOTrainer", Pairs: true, Writes: true},
	"rloo":   {Config: "RLOOConfig", Trainer: "RLOOTrainer", Pairs: true, Writes: true},
}
