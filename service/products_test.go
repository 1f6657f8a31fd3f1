package service_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// product is something that costs two sizes times each other at most.
type product struct {
	name string
	// first and second are sizes that are allowed; both are doubled, until they are refused.
	first, second int
	doublings     int
	// growth is what doubling both may cost at most.
	growth float64
	ask    func(s *service.Service, first, second int) error
}

// manyCommands is a program of so many calls that so many lines start.
func manyCommands(s *service.Service, commands, calls int) error {
	files := map[string]string{
		"job.sh": strings.Repeat("python train.py\n", commands),
		"train.py": "from transformers import TrainingArguments\n" +
			strings.Repeat("TrainingArguments(per_device_train_batch_size=4)\n", calls),
	}
	_, err := s.Read(context.Background(), jobdoc.Reading{Files: files})
	return err
}

// manyWords is the same with a word that is another one in every line, and that the program hands on.
func manyWords(s *service.Service, commands, calls int) error {
	var lines strings.Builder
	for i := range commands {
		fmt.Fprintf(&lines, "python train.py --batch %d\n", i+1)
	}
	_, err := s.Read(context.Background(), jobdoc.Reading{Files: map[string]string{
		"job.sh": lines.String(),
		"train.py": "import argparse\nfrom transformers import TrainingArguments\np = argparse.ArgumentParser()\n" +
			"p.add_argument(\"--batch\", type=int, default=4)\nargs = p.parse_args()\n" +
			strings.Repeat("TrainingArguments(per_device_train_batch_size=args.batch)\n", calls),
	}})
	return err
}

// manyFiles are so many commands with one configuration of so many settings.
func manyFiles(s *service.Service, commands, settings int) error {
	var file strings.Builder
	file.WriteString("model_name_or_path: gpt2\nstage: sft\ndo_train: true\nper_device_train_batch_size: 1\n")
	for i := range settings {
		fmt.Fprintf(&file, "key_%d: %d\n", i, i)
	}
	_, err := s.Read(context.Background(), jobdoc.Reading{Files: map[string]string{
		"job.sh": strings.Repeat("llamafactory-cli train c.yaml\n", commands), "c.yaml": file.String()}})
	return err
}

// manyBranches is a script of so many branches on what nobody knows, behind so many variables.
func manyBranches(s *service.Service, branches, variables int) error {
	var b strings.Builder
	for i := range variables {
		fmt.Fprintf(&b, "V%d=%d\n", i, i)
	}
	for i := range branches {
		fmt.Fprintf(&b, "if [ \"$A\" = %d ]; then X%d=1; else X%d=2; fi\n", i, i, i)
	}
	b.WriteString("python train.py --per_device_train_batch_size 4\n")
	_, err := s.Read(context.Background(), jobdoc.Reading{Files: map[string]string{"job.sh": b.String()}})
	return err
}

// manyMessages is a text of so many failures with so many lines between.
func manyMessages(s *service.Service, messages, lines int) error {
	var b strings.Builder
	for i := range messages {
		b.WriteString(strings.Repeat("  File \"train.py\", line 1, in forward\n", lines))
		fmt.Fprintf(&b, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU 0 has a total capacity "+
			"of 24.00 GiB of which 100.00 MiB is free.\n", 2*i+2)
	}
	_, err := s.Diagnose(context.Background(), service.DiagnosisRequest{Text: b.String()})
	return err
}

func estimated(s *service.Service, document string) error {
	job, err := jobdoc.Decode([]byte(document))
	if err != nil {
		return err
	}
	_, err = s.Estimate(context.Background(), job, service.EstimateOptions{})
	return err
}

// manyExperts is a mixture of so many experts in so many layers, in the stack in which each has tensors of its own.
func manyExperts(s *service.Service, experts, layers int) error {
	return estimated(s, fmt.Sprintf(`{"model": {"hf_config": {"model_type": "qwen3_moe", "num_hidden_layers": %d, "hidden_size": 64,
		"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64, "num_experts": %d, "num_experts_per_tok": 2,
		"moe_intermediate_size": 64, "intermediate_size": 64, "vocab_size": 1000}}, "training": {"micro_batch": 1,
		"sequence_length": 128, "versions": {"torch": "2.9.1", "transformers": "4.57.6"}}}`, layers, experts))
}

// manyCards is a job of so many micro-steps on so many cards of the user's own.
func manyCards(s *service.Service, cards, steps int) error {
	var list []string
	for i := range cards {
		list = append(list, fmt.Sprintf(`{"name": "card %d", "memory_bytes": %d}`, i, int64(24+i)<<30))
	}
	return estimated(s, fmt.Sprintf(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "gradient_accumulation": %d},
		"gpus": [%s]}`, steps, strings.Join(list, ", ")))
}

// TestProductsAreBounded: twice as much of two things at once takes at most four times as much, twice as much where
// many have one thing in common, or is refused by name.
// What is counted is what is allocated, which is the same on every machine; docs/lab/reliability.md has the times.
func TestProductsAreBounded(t *testing.T) {
	for _, p := range []product{
		// a program is decoded once, so that both together cost their sum
		{"commands × calls of the program", 8, 50, 3, 2, manyCommands},
		{"commands with words of their own × calls", 8, 50, 3, 4, manyWords},
		{"commands × settings of their file", 8, 50, 3, 4, manyFiles},
		{"branches × variables", 8, 32, 4, 4, manyBranches},
		{"messages × lines between", 8, 4, 3, 4, manyMessages},
		{"experts × layers", 8, 4, 3, 4, manyExperts},
		{"cards × micro-steps", 4, 4, 3, 4, manyCards},
	} {
		t.Run(p.name, func(t *testing.T) {
			s := service.New(service.EmbeddedCatalog(), service.WithCache(0))
			_ = p.ask(s, p.first, p.second) // what is made once is made
			cost := func(first, second int) (bytes, objects float64, err error) {
				bytes, objects = math.Inf(1), math.Inf(1)
				var before, after runtime.MemStats
				for range 3 { // the least of three: pools are emptied by the collector
					runtime.ReadMemStats(&before)
					err = p.ask(s, first, second)
					runtime.ReadMemStats(&after)
					bytes = min(bytes, float64(after.TotalAlloc-before.TotalAlloc))
					objects = min(objects, float64(after.Mallocs-before.Mallocs))
				}
				return bytes, objects, err
			}
			bytes, objects, err := cost(p.first, p.second)
			if err != nil {
				t.Fatalf("%d × %d: %v", p.first, p.second, err)
			}
			// Against the smallest, since buffers grow by steps: what grows as a product stays below, what grows by one
			// size more is beyond it after three doublings.
			times := 1.
			for range p.doublings {
				p.first, p.second, times = 2*p.first, 2*p.second, p.growth*times
				b, o, err := cost(p.first, p.second)
				if _, refused := errors.AsType[*invalid.Error](err); refused {
					return
				}
				if err != nil {
					t.Fatalf("%d × %d: %v", p.first, p.second, err)
				}
				if b > 1.1*times*bytes || o > 1.1*times*objects {
					t.Errorf("%d × %d takes %.1f times the bytes and %.1f times the objects of the smallest, more than %v",
						p.first, p.second, b/bytes, o/objects, times)
				}
			}
		})
	}
}
