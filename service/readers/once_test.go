package readers

import (
	"slices"
	"testing"
)

// What is made of a file once is the same for every command: each reads as it would alone, whatever was read before.
func TestCommandsReadAlone(t *testing.T) {
	files := map[string]string{
		"own.py": `import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=4)
p.add_argument("--bf16", action="store_true")
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2")
x = tokenizer(text, max_length=256)
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=args.batch, bf16=args.bf16)).train()
`,
		"train.py": `from transformers import HfArgumentParser, TrainingArguments
parser = HfArgumentParser((TrainingArguments,))
`,
		"c.yaml": factoryFile,
	}
	commands := []string{"python own.py", "python own.py --batch 7 --bf16", "llamafactory-cli train c.yaml",
		"llamafactory-cli train c.yaml finetuning_type=lora lora_rank=16", "python own.py --batch 2",
		"python train.py --model_name_or_path gpt2 --max_seq_length 64 --per_device_train_batch_size 3",
		"python train.py --model_name_or_path gpt2 --block_size 32 --bf16", "llamafactory-cli train c.yaml my_own=3 cutoff_len=64"}
	script := "#!/bin/bash\n"
	var want []Job
	for _, command := range commands {
		answer := readScript(t, "#!/bin/bash\n"+command+"\n", files)
		if len(answer.Jobs) != 1 {
			t.Fatalf("%s: %d jobs, refused: %v", command, len(answer.Jobs), answer.Refusals)
		}
		want = append(want, answer.Jobs[0])
	}
	for _, command := range slices.Concat(commands, commands) { // the second time everything was read before
		script += command + "\n"
	}
	got := readScript(t, script, files).Jobs
	ignored := func(j Job) (keys []string) {
		for _, i := range j.Ignored {
			keys = append(keys, i.Key)
		}
		return keys
	}
	find := func(w Job) bool {
		return slices.ContainsFunc(got, func(g Job) bool {
			return string(g.Document) == string(w.Document) && len(g.Doubts) == len(w.Doubts) &&
				len(g.Questions) == len(w.Questions) && slices.Equal(ignored(g), ignored(w))
		})
	}
	for i, w := range want {
		if !find(w) {
			t.Errorf("%s reads otherwise behind others: alone it is %s, %d doubts", commands[i], w.Document, len(w.Doubts))
		}
	}
	if len(got) < len(want) {
		t.Errorf("%d jobs of %d commands", len(got), len(want))
	}
}
