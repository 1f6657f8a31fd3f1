package script

import "github.com/vramplan/vramplan/service/readers/programs"

// otherProgram is a program of another kind, by the trainer that it calls.
type otherProgram struct {
	reader, say string
	line        int
}

// otherTrainerClasses are trainers of other kinds, by their classes, with what to use for them.
var otherTrainerClasses = []struct{ reader, class, say string }{
	{"sentence-transformers", "SentenceTransformerTrainer", sayContrastive},
	{"sentence-transformers", "SparseEncoderTrainer", sayContrastive},
	{"sentence-transformers", "CrossEncoderTrainer", "a cross-encoder of sentence-transformers is trained, which the " +
		"readers do not turn into a job"},
}

const sayContrastive = "sentence-transformers trains an encoder on pairs, which the readers do not turn into a job: " +
	"say it in flags (vramplan estimate --objective contrastive --contrastive-loss mnrl --micro-batch N " +
	"--sequence-length N --model NAME) or in a job document (training.objective.kind contrastive)"

func otherKind(code *programs.Program) (otherProgram, bool) {
	for _, o := range otherTrainerClasses {
		if c, ok := code.Call(o.class); ok {
			return otherProgram{o.reader, o.say, c.Line}, true
		}
	}
	return otherProgram{}, false
}
