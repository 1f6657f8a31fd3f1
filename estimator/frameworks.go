package estimator

import "sort"

// loop is what a framework's training loop does where the job does not say.
type loop struct {
	// holdLogits: a variable keeps the model's output through backward and into the next forward; holdFloat32: as
	// a float32 copy.
	holdLogits, holdFloat32 bool
	// ownModules: the framework writes its models itself, without a key/value cache in training. They are replayed
	// as transformers writes them, with wider bounds.
	ownModules bool
}

// frameworks are the loops by name. Sources: nanoGPT train.py; transformers 4.57 Trainer.training_step (trl, axolotl,
// llama-factory, ms-swift, unsloth and xtuner run it or keep the loss alone, as it does); accelerate 1.x
// (convert_outputs_to_fp32); torchtune recipes/full_finetune_single_device.py and torchtitan train.py (both delete the logits
// before backward); litgpt finetune/lora.py (the list of logits stays in a variable); composer's Trainer, which llm-foundry
// runs, keeps state.outputs; Lightning's training_step returns the loss.
var frameworks = map[string]loop{
	"nanogpt":       {holdLogits: true},
	"pytorch":       {holdLogits: true},
	"accelerate":    {holdLogits: true, holdFloat32: true},
	"hf-trainer":    {},
	"trl":           {},
	"axolotl":       {},
	"llama-factory": {},
	"ms-swift":      {},
	"unsloth":       {},
	"xtuner":        {},
	"lightning":     {},
	"deepspeed":     {},
	"llm-foundry":   {holdLogits: true},
	"litgpt":        {holdLogits: true, ownModules: true},
	"torchtune":     {ownModules: true},
	"torchtitan":    {ownModules: true},
	"megatron":      {ownModules: true},
	"nanotron":      {ownModules: true},
}

func frameworkNames() []string {
	names := make([]string, 0, len(frameworks))
	for n := range frameworks {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
