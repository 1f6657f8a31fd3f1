package diagnose

import (
	"fmt"
	"strings"
)

// ClassOf is the class of a tensor of a job: its component and its name are those of an estimate, its phase where it is
// made.
func ClassOf(component, name, phase string) Class {
	switch {
	case component == "logits_and_loss":
		return ClassLogits
	case strings.Contains(name, "attention scores"), strings.Contains(name, "attention probabilities"),
		strings.Contains(name, "attention mask"):
		return ClassAttentionScores
	case component == "optimizer_state":
		return ClassOptimizerState
	case component == "gradients":
		return ClassGradients
	case component == "weights":
		return ClassWeightsLoad
	case component == "precision_copies":
		return ClassPrecisionCopies
	case phase == "optimizer":
		return ClassOptimizerTemporary
	}
	return ClassActivations
}

// Model is a model of a catalog, by the numbers that sizes of its tensors are made of.
type Model struct {
	Name                                               string
	Parameters, Layers, Hidden, FFN, Heads, Vocabulary int64
}

// The batches and sequences that people train with, by which a size without a job is explained.
var (
	usualBatches = []int64{1, 2, 4, 8, 16, 32, 64}
	usualTokens  = []int64{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
)

// How wide a window of sizes may be, as a share of the size, for a match to say something. There are some 540 sizes of
// whole models over twelve powers of two: in a window of a share w one lies by chance with about 540 / (12 × ln 2) × w,
// a tenth at 0.0015. Logits are only told where nearly all that match are logits.
const (
	narrowFlat   = 0.0015
	narrowOthers = 0.011
)

// InModels lists tensors of models that have the size of the first request of the text: those of the whole model in one
// piece, and those of the usual batches and sequences in two and four bytes. Most sizes have many, so this tells the
// sort at the most.
func (t *Text) InModels(models []Model) []Candidate {
	if len(t.Messages) == 0 {
		return nil
	}
	w, ok := t.Messages[0].Requests()
	if !ok || w.High < 16*mib || t.Messages[0].requested.decimals < 2 ||
		float64(w.High-w.Low) > narrowOthers*float64(w.High) {
		return nil // smaller or rougher sizes say nothing: every model has a tensor of them
	}
	var list []Candidate
	seen := map[Candidate]int{}
	add := func(c Candidate) {
		if !w.Contains(c.Bytes) {
			return
		}
		key := c
		key.Model, key.How = "", "" // the same numbers in another model are listed once, and counted
		at, known := seen[key]
		switch {
		case !known:
			seen[key], c.models = len(list), 1
			c.last = c.Model
			list = append(list, c)
		case list[at].last != c.Model:
			list[at].models++
			list[at].last = c.Model
		}
	}
	for i := range models {
		m := &models[i]
		for _, width := range []int64{2, 4} {
			if w.Low >= gib && float64(w.High-w.Low) <= narrowFlat*float64(w.High) {
				add(Candidate{What: "all parameters in one buffer",
					How:   fmt.Sprintf("%d parameters × %d B", m.Parameters, width),
					Bytes: m.Parameters * width, Class: ClassWeightsFlat, Model: m.Name})
			}
			for _, rows := range []int64{m.Hidden, m.FFN, m.Vocabulary} {
				add(Candidate{What: "a weight", How: fmt.Sprintf("%d × %d × %d B", rows, m.Hidden, width),
					Bytes: rows * m.Hidden * width, Class: ClassWeightsLoad, Model: m.Name})
			}
			for _, b := range usualBatches {
				for _, n := range usualTokens {
					add(Candidate{What: "logits", How: fmt.Sprintf("%d × %d tokens × %d × %d B", b, n, m.Vocabulary,
						width),
						Bytes: b * n * m.Vocabulary * width, Class: ClassLogits, Model: m.Name})
					add(Candidate{What: "an activation of the MLP", How: fmt.Sprintf("%d × %d × %d × %d B", b, n, m.FFN,
						width),
						Bytes: b * n * m.FFN * width, Class: ClassActivations, Model: m.Name})
					add(Candidate{What: "attention scores", How: fmt.Sprintf("%d × %d heads × %d × %d × %d B", b,
						m.Heads, n, n, width),
						Bytes: b * m.Heads * n * n * width, Class: ClassAttentionScores, Model: m.Name})
				}
			}
		}
	}
	return list
}

// Question is what would tell more, and the flag or field that says it.
type Question struct {
	Ask  string `json:"ask"`
	Flag string `json:"flag"`
}

// Questions are what would tell more about a cause.
func (t *Text) Questions(c *Cause, job Job) []Question {
	if c.Class == ClassNone || c.Certainty == Exact {
		return nil
	}
	var list []Question
	if len(t.Messages) == 0 && len(t.Summaries) == 0 && len(t.Cards) == 0 {
		return []Question{{"What did the run print? A message of PyTorch with its traceback, a log, memory_summary() " +
			"or nvidia-smi is understood.", "text"}}
	}
	if !job.Known && c.Plannable() {
		list = append(list, Question{"Which model, micro-batch, sequence length and optimizer was it? Then the tensor " +
			"can be named, and a plan made.", "job"})
	}
	if !strings.Contains(t.whole(), "Traceback (most recent call last)") && c.Certainty == Untold {
		list = append(list, Question{"Where did it fail? The traceback above the message says what " +
			"asked for the memory.", "text"})
	}
	if c.Class == ClassOtherProcess || c.Class == ClassContext {
		list = append(list, Question{"Who holds the card? nvidia-smi, printed while nothing of yours runs, says it.",
			"text"})
	}
	return list
}

func (t *Text) whole() string {
	var b strings.Builder
	for _, l := range t.lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Plannable says whether a change of the job could help at all.
func (c *Cause) Plannable() bool {
	switch c.Class {
	case ClassNone, ClassOtherProcess, ClassDriverRefused, ClassHost, ClassResume, ClassInference, ClassHeld,
		ClassKernel:
		return false
	}
	return true
}
