package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/result"
)

// diffusionNotes say what of a script is seldom expected.
func (r *work) diffusionNotes(t *Training) []Note {
	var notes []Note
	s, ok := scriptFor(t, r.arch.Family)
	if !ok {
		return nil
	}
	if s.readsOnce {
		notes = append(notes, Note{Code: "text-encoders-stay", Text: s.name + " keeps its text encoders on the GPU " +
			"through training, though it reads its prompt before"})
	} else if s.keepsTexts {
		notes = append(notes, Note{Code: "text-encoders-stay", Text: s.name + " keeps its text encoders on the GPU " +
			"through training, and reads the prompts in each step"})
	}
	if s.readsFirst {
		notes = append(notes, Note{Code: "text-encoders-leave", Text: s.name + " has its text encoders on the GPU until " +
			"they have read the prompt, and lets go of them before training"})
	}
	if t.Objective.Latents == "cached" && !s.encodesFirst {
		per := 4 * pipelines.LatentElements(&r.arch, r.shape.Height, r.shape.Width) * r.recipe.Compute.Size()
		notes = append(notes, Note{Code: "latents-cache-grows", Text: fmt.Sprintf("the script keeps the encoded "+
			"pictures on the GPU, %s for each picture of the data set; those of one micro-batch are in the figures",
			Bytes(per))})
	}
	return notes
}

// leavingWords say what is there beside the model before training alone.
func (r *resolved) leavingWords() string {
	if !r.readFirst {
		return ""
	}
	return ", and text encoders of " + result.Grouped(r.readerParameters()) + " × " + result.InBytes(r.recipe.Compute) +
		", which read the prompt and go before training"
}
