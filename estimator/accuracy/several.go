package main

import (
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
)

// Several holds estimates against published runs that several GPUs shared.
type Several struct {
	*Published
	refusals []refusal
}

// refusal is a reason for which runs are not answered, and how many.
type refusal struct {
	fields string
	runs   int
}

// readSeveral scores them; root is the repository.
func readSeveral(root string) (*Several, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/several/*.jsonl"))
	list, presets, err := ReadObservations(files, filepath.Join(root, "migrations/data/models.json"))
	if err != nil {
		return nil, err
	}
	s := &Several{Published: ScorePublished(list, presets)}
	runs := map[string]int{}
	for reason, n := range s.Refused {
		runs[refusedFields(reason)] += n
	}
	for fields, n := range runs {
		s.refusals = append(s.refusals, refusal{fields, n})
	}
	sort.Slice(s.refusals, func(i, k int) bool {
		a, b := s.refusals[i], s.refusals[k]
		return a.runs > b.runs || a.runs == b.runs && a.fields < b.fields
	})
	return s, nil
}

// refusedFields are the fields that an error names.
func refusedFields(reason string) string {
	var fields []string
	for _, word := range strings.Fields(reason) {
		if f, ok := strings.CutPrefix(strings.TrimSuffix(word, ":"), "/training/"); ok && strings.HasSuffix(word, ":") {
			fields = append(fields, f)
		}
	}
	return strings.Join(fields, ", ")
}

// PrintRefusals writes which fields keep runs from being answered.
func (s *Several) PrintRefusals(w io.Writer) {
	fmt.Fprintf(w, "| refused for | runs |\n|---|---|\n")
	for _, r := range s.refusals {
		fmt.Fprintf(w, "| %s | %d |\n", r.fields, r.runs)
	}
}

// Promises about these runs, in percent: what the median series may be off by in allocated bytes.
const severalAllocatedHalf = 2

// Broken says which promises do not hold.
func (s *Several) Broken() []string {
	var out []string
	if got := at(bySeries(s.Allocated), .5); got > severalAllocatedHalf {
		out = append(out, fmt.Sprintf("runs on several GPUs: half of the series are within %.1f %% of what is "+
			"allocated, promised are %d %%", got, severalAllocatedHalf))
	}
	for _, c := range s.Contradicted {
		out = append(out, "runs on several GPUs: contradicted: "+c)
	}
	return out
}

// document writes the part of the page about these runs.
func (s *Several) document(w io.Writer) {
	fmt.Fprintf(w, `
## Published runs on several GPUs
%[2]d runs whose state several GPUs shared (FSDP, ZeRO, and Megatron-LM's layers, pipelines and optimizer), as their sources describe them: the files in
%[1]sestimator/accuracy/testdata/several%[1]s. None of those in %[1]ssharded.jsonl%[1]s
was looked at while the replay of FSDP was written, but for how llm-foundry gathers parameters, that its models keep no key/value cache, and adapters under FSDP1. Those in
%[1]smegatron.jsonl%[1]s were looked at after Megatron-LM's layers had been written from their sources; what was mended by them is that the fused loss holds one float32 tensor more, and how
releases of 2021 sum gradients. %[3]d are answered, %.0[4]f %%; litgpt's adapters among them were answered after their rows had been looked at.

`, "`", s.Runs, s.Answered, 100*float64(s.Answered)/float64(s.Runs))
	s.Print(w)
	fmt.Fprint(w, `
The largest errors are those of SantaCoder, a model that its source gives in numbers, and of Mixtral under GPTQ, whose checkpoint has fewer scales. Where
the inputs of checkpointed layers stay under FSDP1 was found by these runs, and then in a trace with their release of transformers. Readings that are active
bytes, which depend on the time that a card takes, are not compared.

`)
	s.PrintRefusals(w)
}
