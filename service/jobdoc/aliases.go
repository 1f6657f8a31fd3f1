package jobdoc

import (
	"reflect"
	"sync"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// The tables below turn the spellings of common tools into the contract's
// values. Their keys are folded: lower case, dashes for underscores. A spelling
// that means different things in different tools is left out on purpose:
// nanoGPT's dtype "bfloat16" is autocast over float32 weights, torchtitan's and
// Megatron's is the type of the weights, so it is refused rather than guessed.

// Lightning: lightning.ai/docs/pytorch/stable/common/precision_basic.html
// (precision="bf16-mixed", "16-true", …); Composer and LLM Foundry: amp_bf16.
var precisionAliases = map[string]string{
	"bf16-mixed": "amp-bf16",
	"mixed-bf16": "amp-bf16",
	"16-mixed":   "amp-fp16",
	"fp16-mixed": "amp-fp16",
	"mixed-fp16": "amp-fp16",
	"bf16-true":  "bf16",
	"16-true":    "fp16",
	"fp16-true":  "fp16",
	"32-true":    "fp32",
	"32":         "fp32",
	"float32":    "fp32",
}

// optimizerAliases are the spellings of the table of optimizers: what the Trainer and people call them, and their
// classes in Python. They may also say how the optimizer is implemented. What is a name of the contract itself
// is none.
var optimizerAliases = func() map[string]optim.Spelled {
	all := map[string]optim.Spelled{}
	for _, words := range []map[string]optim.Spelled{optim.TrainerWords(), optim.ClassPaths()} {
		for word, o := range words {
			all[fold(word)] = o
		}
	}
	for _, o := range optim.Optimizers() {
		for _, alias := range o.Aliases {
			all[alias.Spelling] = optim.Spelled{Name: alias.Name, Implementation: alias.Implementation}
		}
	}
	for _, o := range optim.Optimizers() {
		delete(all, o.Name)
	}
	return all
}()

var implementationAliases = map[string]string{
	"forloop":       "for-loop",
	"single-tensor": "for-loop",
	"multi-tensor":  "foreach",
	"bnb":           "bitsandbytes",
}

// transformers' attn_implementation; LLM Foundry's attn_impl.
var attentionAliases = map[string]string{
	"flash-attention":              "flash",
	"flash-attention-2":            "flash",
	"flash-attention-3":            "flash",
	"flash-attn":                   "flash",
	"fa2":                          "flash",
	"fa3":                          "flash",
	"scaled-dot-product-attention": "sdpa",
}

var lossAliases = map[string]string{
	"cross-entropy":              "standard",
	"liger":                      "fused-linear",
	"fused-linear-cross-entropy": "fused-linear",
	"cut-cross-entropy":          "fused-linear",
	"cce":                        "fused-linear",
}

var dtypeAliases = map[string]string{
	"float32": "fp32", "float": "fp32", "32": "fp32",
	"bfloat16": "bf16",
	"float16":  "fp16", "half": "fp16",
}

// peft and bitsandbytes: load_in_8bit is LLM.int8().
var basePrecisionAliases = map[string]string{
	"float32": "fp32", "bfloat16": "bf16", "float16": "fp16",
	"8bit": "int8", "llm-int8": "int8", "gptq": "gptq-int4",
}

// DeepSpeed's stages; FSDP's sharding_strategy.
var dataAliases = map[string]string{
	"distributed-data-parallel": "ddp",
	"zero-1":                    "zero1", "zero-stage-1": "zero1",
	"zero-2": "zero2", "zero-stage-2": "zero2",
	"zero-3": "zero3", "zero-stage-3": "zero3",
	"full-shard": "fsdp",
}

var frameworkAliases = map[string]string{
	"hf": "hf-trainer", "huggingface": "hf-trainer", "transformers": "hf-trainer", "trainer": "hf-trainer",
	"torch": "pytorch", "nano-gpt": "nanogpt", "megatron-lm": "megatron", "lit-gpt": "litgpt",
	"llmfoundry": "llm-foundry", "llamafactory": "llama-factory", "swift": "ms-swift",
	"pytorch-lightning": "lightning",
}

// transformers' ACT2FN names of the tanh approximation.
var mlpAliases = map[string]string{"gelu-pytorch-tanh": "gelu_new", "gelu-fast": "gelu_new", "gelu-tanh": "gelu_new"}

var normAliases = map[string]string{"layer-norm": "layernorm", "rms-norm": "rmsnorm"}

var positionAliases = map[string]string{"rotary": "rope", "absolute": "learned"}

var headAliases = map[string]string{"causal-lm": "language-model", "lm": "language-model", "mlm": "masked-lm",
	"sequence-classification": "classification", "ner": "token-classification", "tokens": "token-classification",
	"qa": "question-answering"}

// Class names of trl, and the usual names of what they do.
var objectiveAliases = map[string]string{
	"lm": "language-model", "causal-lm": "language-model", "supervised-fine-tuning": "sft", "reward-modeling": "reward",
	"rm": "reward",
}

// contrastiveAliases are the names of sentence-transformers' losses.
var contrastiveAliases = map[string]string{
	"multiple-negatives-ranking-loss": "mnrl", "multiplenegativesrankingloss": "mnrl", "infonce": "mnrl",
	"cached-multiple-negatives-ranking-loss": "cached-mnrl", "cachedmultiplenegativesrankingloss": "cached-mnrl",
	"matryoshka-loss": "matryoshka-mnrl", "matryoshkaloss": "matryoshka-mnrl", "triplet-loss": "triplet",
	"tripletloss": "triplet", "cosent-loss": "cosent", "cosentloss": "cosent", "angle-loss": "angle",
	"angleloss": "angle", "cosine-similarity-loss": "cosine-similarity", "cosinesimilarityloss": "cosine-similarity",
	"contrastive-loss": "contrastive", "contrastiveloss": "contrastive", "mse-loss": "mse", "mseloss": "mse",
	"online-contrastive-loss": "online-contrastive", "onlinecontrastiveloss": "online-contrastive",
	"multiple-negatives-symmetric-ranking-loss": "symmetric-mnrl",
	"multiplenegativessymmetricrankingloss":     "symmetric-mnrl",
}

// poolingAliases are the keys and words of sentence-transformers' Pooling.
var poolingAliases = map[string]string{"last-token": "lasttoken", "mean-pooling": "mean", "cls-token": "cls"}

// vocabulary is the values of one enum and the other spellings of them.
type vocabulary struct {
	values  map[string]bool
	aliases map[string]string // folded → value
}

func (v *vocabulary) canonical(s *string) {
	if *s == "" || v.values[*s] || len(*s) > maxCompared {
		return
	}
	if value, ok := v.aliases[fold(*s)]; ok {
		*s = value
	}
}

// vocabularyOf takes the values from the field's validate tag, which has the contract's.
func vocabularyOf[T any](field string, aliases map[string]string) *vocabulary {
	f := schemaOf(reflect.TypeFor[T]()).field(field)
	choices := f.choices
	if f.elem != nil {
		choices = f.elem.choices
	}
	v := &vocabulary{values: map[string]bool{}, aliases: map[string]string{}}
	for spelling, value := range aliases {
		v.aliases[spelling] = value
	}
	for _, value := range choices {
		v.values[value] = true
		v.aliases[fold(value)] = value
	}
	return v
}

// vocabularies are all enums of a job.
type vocabularies struct {
	precision, optimizer, implementation, checkpointing, attention, attentionMask, loss, lossHead, bias,
	logits, kernels, state, adapter, base, data, framework, mlp, norm, normPosition, position, head, objective,
	reference, packing, rollout, beside *vocabulary
	contrastive, pooling, trained, latents, texts *vocabulary
}

var words = sync.OnceValue(func() *vocabularies {
	optimizers := make(map[string]string, len(optimizerAliases))
	for spelling, alias := range optimizerAliases {
		optimizers[spelling] = alias.Name
	}
	return &vocabularies{
		precision:      vocabularyOf[estimator.Training]("precision", precisionAliases),
		optimizer:      vocabularyOf[estimator.Optimizer]("name", optimizers),
		implementation: vocabularyOf[estimator.Optimizer]("implementation", implementationAliases),
		checkpointing:  vocabularyOf[estimator.Checkpointing]("mode", nil),
		attention:      vocabularyOf[estimator.Training]("attention", attentionAliases),
		attentionMask:  vocabularyOf[estimator.Training]("attention_mask", nil),
		loss:           vocabularyOf[estimator.Loss]("kind", lossAliases),
		lossHead:       vocabularyOf[estimator.Loss]("head", nil),
		bias:           vocabularyOf[estimator.LoRA]("bias", nil),
		logits:         vocabularyOf[estimator.Training]("logits_dtype", dtypeAliases),
		kernels:        vocabularyOf[estimator.Training]("kernels", nil),
		state:          vocabularyOf[estimator.States]("weights", dtypeAliases),
		adapter:        vocabularyOf[estimator.LoRA]("adapter_dtype", dtypeAliases),
		base:           vocabularyOf[estimator.LoRA]("base_precision", basePrecisionAliases),
		data:           vocabularyOf[estimator.Distributed]("data", dataAliases),
		framework:      vocabularyOf[estimator.Training]("framework", frameworkAliases),
		mlp:            vocabularyOf[model.Dimensions]("mlp", mlpAliases),
		norm:           vocabularyOf[model.Dimensions]("norm", normAliases),
		normPosition:   vocabularyOf[model.Dimensions]("norm_position", nil),
		position:       vocabularyOf[model.Dimensions]("position", positionAliases),
		head:           vocabularyOf[model.Head]("kind", headAliases),
		objective:      vocabularyOf[estimator.Objective]("kind", objectiveAliases),
		reference:      vocabularyOf[estimator.Objective]("reference", nil),
		packing:        vocabularyOf[estimator.Objective]("packing_strategy", nil),
		contrastive:    vocabularyOf[estimator.Objective]("loss", contrastiveAliases),
		pooling:        vocabularyOf[estimator.Objective]("pooling", poolingAliases),
		trained:        vocabularyOf[estimator.Objective]("train", nil),
		latents:        vocabularyOf[estimator.Objective]("latents", nil),
		texts:          vocabularyOf[estimator.Objective]("text_embeddings", nil),
		rollout:        vocabularyOf[estimator.Objective]("rollout", nil),
		beside:         vocabularyOf[estimator.Objective]("reference_dtype", dtypeAliases),
	}
})

// Normalize replaces the other spellings in a job by the contract's values.
// What it does not know it leaves as it is, for [Check] to refuse.
func Normalize(j *estimator.Job) {
	w, t := words(), &j.Training
	w.precision.canonical((*string)(&t.Precision))
	w.attention.canonical(&t.Attention)
	w.attentionMask.canonical(&t.AttentionMask)
	w.logits.canonical(&t.LogitsDtype)
	w.framework.canonical(&t.Framework)
	for i := range t.Kernels {
		w.kernels.canonical(&t.Kernels[i])
	}
	if o := t.Optimizer; o != nil {
		// A field that is given always wins over what an alias implies.
		if alias, ok := optimizerAliases[fold(o.Name)]; ok && o.Implementation == "" {
			o.Implementation = alias.Implementation
		}
		w.optimizer.canonical(&o.Name)
		w.implementation.canonical(&o.Implementation)
	}
	if c := t.GradientCheckpointing; c != nil {
		w.checkpointing.canonical(&c.Mode)
	}
	if o := t.Objective; o != nil {
		w.objective.canonical(&o.Kind)
		w.reference.canonical(&o.Reference)
		w.packing.canonical(&o.PackingStrategy)
		w.contrastive.canonical(&o.Loss)
		w.pooling.canonical(&o.Pooling)
		w.trained.canonical(&o.Train)
		w.latents.canonical(&o.Latents)
		w.texts.canonical(&o.TextEmbeddings)
		w.rollout.canonical(&o.Rollout)
		w.beside.canonical(&o.ReferenceDtype)
		w.beside.canonical(&o.TeacherDtype)
	}
	if l := t.Loss; l != nil {
		w.loss.canonical(&l.Kind)
		w.lossHead.canonical(&l.Head)
	}
	if s := t.States; s != nil {
		for _, dtype := range []*string{&s.Weights, &s.Gradients, &s.MasterWeights, &s.MasterGradients, &s.Optimizer} {
			w.state.canonical(dtype)
		}
	}
	if l := t.LoRA; l != nil {
		w.adapter.canonical(&l.AdapterDtype)
		w.base.canonical(&l.BasePrecision)
		w.bias.canonical(&l.Bias)
	}
	if d := t.Distributed; d != nil {
		w.data.canonical(&d.Data)
	}
	if d := j.Model.Dimensions; d != nil {
		w.mlp.canonical(&d.MLP)
		w.norm.canonical(&d.Norm)
		w.normPosition.canonical(&d.NormPosition)
		w.position.canonical(&d.Position)
	}
	if h := j.Model.Head; h != nil {
		w.head.canonical(&h.Kind)
	}
}
