package objectives

import (
	"encoding/json"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// Contrastive is the kind of training in which texts are told apart by their embeddings.
const Contrastive = "contrastive"

// SentenceTransformers is the framework whose trainer runs it.
const SentenceTransformers = "sentence-transformers"

// ContrastiveFields are those of the objective that it reads.
var ContrastiveFields = []string{"texts", "loss", "mini_batch", "pooling", "matryoshka_dims"}

// embeddingLoss is a loss of sentence-transformers: what is computed, and how many columns of texts it reads.
type embeddingLoss struct {
	loss objective.EmbeddingLoss
	// texts are the columns where the job does not say, least and most those that are accepted; most 0 is any number.
	texts, least, most int64
	// reads says the same in words.
	reads string
}

// What losses read. Source: sentence_transformers/sentence_transformer/losses (Inputs in the documentation of each
// class), 5.7.
const (
	readsPositives = "2 columns and more: an anchor, a positive and negatives"
	readsPairs     = "2 columns: the texts of a pair, and a label"
)

// embeddingLosses are those that are replayed, by the names of the job document.
var embeddingLosses = map[string]embeddingLoss{
	"mnrl":               {objective.LossRanking, 2, 2, 0, readsPositives},
	"cached-mnrl":        {objective.LossRanking, 2, 2, 0, readsPositives},
	"matryoshka-mnrl":    {objective.LossRanking, 2, 2, 0, readsPositives},
	"symmetric-mnrl":     {objective.LossSymmetric, 2, 2, 0, readsPositives},
	"triplet":            {objective.LossTriplet, 3, 3, 3, "3 columns: an anchor, a positive and a negative"},
	"cosine-similarity":  {objective.LossCosine, 2, 2, 2, readsPairs},
	"contrastive":        {objective.LossContrastive, 2, 2, 2, readsPairs},
	"online-contrastive": {objective.LossContrastive, 2, 2, 2, readsPairs},
	"cosent":             {objective.LossCoSENT, 2, 2, 2, readsPairs},
	"angle":              {objective.LossAngle, 2, 2, 2, readsPairs},
	"mse":                {objective.LossDistance, 2, 1, 0, "1 column and more, and an embedding for a label"},
}

// BaseModel is the model as AutoModel loads it, without the head that its config.json names.
func BaseModel(j job.Job) job.Job {
	var config map[string]json.RawMessage
	if j.Model.HFConfig == nil || json.Unmarshal(j.Model.HFConfig, &config) != nil {
		return j // what is wrong with it is said where it is read
	}
	delete(config, "architectures")
	if without, err := json.Marshal(config); err == nil {
		j.Model.HFConfig = without
	}
	return j
}

// contrasts is an objective of the kind contrastive.
func (r Pursuer) contrasts(t *job.Training, errs *invalid.List) step.Objective {
	const pointer = fields.ObjectivePointer
	o := t.Objective
	fields.Unread(ContrastiveFields, Contrastive, o, errs)
	refuse := func(is bool, pointer, format string, args ...any) {
		if is {
			errs.Add(pointer, "unsupported", format, args...)
		}
	}
	refuse(t.Framework != SentenceTransformers, "/training/framework", "the objective contrastive is replayed as "+
		"sentence-transformers' trainer runs it, and not as %.40s's; sentence-transformers is accepted", t.Framework)
	r.contrastiveConflicts(t, refuse)
	kind := o.Loss
	loss, known := embeddingLosses[kind]
	refuse(!known, pointer+"/loss", "the loss %.40q is not modelled; %s are", kind, fields.Listed(embeddingLosses))
	columns := o.Texts
	if columns < loss.least || loss.most > 0 && columns > loss.most {
		errs.Add(pointer+"/texts", "out_of_range", "texts is %d; the loss %s reads %s", o.Texts, kind, loss.reads)
	}
	c := objective.Contrastive{Rows: t.MicroBatch, Tokens: r.Shape.Tokens, Width: r.Arch.Hidden, Columns: columns,
		Caches: r.ReadsCache(), Loss: loss.loss}
	if kind == "cached-mnrl" {
		c.MiniBatch = o.MiniBatch
	}
	if o.MiniBatch != 0 && c.MiniBatch == 0 {
		errs.Add(pointer+"/mini_batch", "conflict", "mini_batch belongs to the loss cached-mnrl, and the loss is %s",
			kind)
	}
	switch o.Pooling {
	case "cls":
		c.Pooling = objective.PoolFirst
	case "lasttoken":
		c.Pooling = objective.PoolLast
	}
	r.matryoshka(o, kind, &c, errs)
	const mostMiniBatches, mostLayers = 1 << 12, 1 << 14
	if c.MiniBatch > 0 && t.MicroBatch/c.MiniBatch > mostMiniBatches {
		errs.Add(pointer+"/mini_batch", "out_of_range", "micro_batch is %d and mini_batch %d; a batch of up to %d "+
			"mini-batches is modelled", t.MicroBatch, c.MiniBatch, mostMiniBatches)
	}
	if c.Passes()*r.Arch.Layers > mostLayers {
		errs.Add(pointer+"/texts", "out_of_range", "%d layers are run %d times in a micro-step; up to %d layers in "+
			"all are modelled", r.Arch.Layers, c.Passes(), mostLayers)
	}
	r.Sequences = columns
	return c
}

// matryoshka is to which lengths embeddings are cut: given, or the whole, a half and a quarter.
func (r Pursuer) matryoshka(o *job.Objective, kind string, c *objective.Contrastive, errs *invalid.List) {
	const pointer = fields.ObjectivePointer + "/matryoshka_dims"
	if kind != "matryoshka-mnrl" {
		if len(o.MatryoshkaDims) > 0 {
			errs.Add(pointer, "conflict", "matryoshka_dims belongs to the loss matryoshka-mnrl, and the loss is %s", kind)
		}
		return
	}
	dims := o.MatryoshkaDims
	if len(dims) == 0 {
		dims = []int64{r.Arch.Hidden, r.Arch.Hidden / 2, r.Arch.Hidden / 4}
	}
	before := r.Arch.Hidden
	for i, d := range dims {
		if d < 1 || r.Arch.Family != "" && d > before {
			errs.Add(pointer, "out_of_range", "matryoshka_dims has %d in place %d; lengths fall from at most %d, the "+
				"model's, to at least 1", d, i+1, r.Arch.Hidden)
			return
		}
		if before = d; i < objective.MaxDims {
			c.Dims[i] = d
		}
	}
}

// contrastiveConflicts are what is not modelled together with the trainer.
func (r Pursuer) contrastiveConflicts(t *job.Training, refuse func(is bool, pointer, format string, args ...any)) {
	refuse(t.Distributed != nil && t.Distributed.WorldSize > 1, "/training/distributed",
		"the objective contrastive is modelled on one GPU; leave one of them out")
	refuse(r.Compilation.Compiles(), "/training/compile",
		"torch.compile is not modelled together with the objective contrastive; leave one of them out")
	refuse(t.Evaluation != nil, "/training/evaluation",
		"an evaluation pass is not modelled together with the objective contrastive; leave one of them out")
	refuse(t.Loss != nil && t.Loss.Kind != "standard" && t.Loss.Kind != "", "/training/loss",
		"the objective contrastive has losses of its own, in training.objective.loss; leave the field out")
	refuse(t.HoldLogits != nil, "/training/hold_logits", "the objective contrastive has no logits; leave the field out")
	refuse(t.LogitsDtype != "", "/training/logits_dtype",
		"the objective contrastive has no logits; leave the field out")
	refuse(t.AttentionMask == "explicit", "/training/attention_mask",
		"padding is not modelled together with the objective contrastive yet; leave the field out")
	refuse(t.Objective.PromptTokens != 0 || t.Objective.CompletionTokens != 0, fields.ObjectivePointer,
		"prompt_tokens and completion_tokens do not belong to the objective contrastive; sequence_length is the "+
			"length of a text")
	if r.Arch.Family != "" {
		family := r.Arch.Family
		refuse(!r.Arch.Embed(), "/model", "the objective contrastive is modelled for BERT, RoBERTa, DistilBERT, MPNet, "+
			"ModernBERT and decoders written like Llama, and not for %s", family)
	}
}
