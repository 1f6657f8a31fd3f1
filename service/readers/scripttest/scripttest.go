// Package scripttest draws batch scripts that start trainings, for tests: scripts in which every word is fixed, and
// the same scripts with a part that only the environment decides, beside every script that this may come to.
package scripttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// Script is a batch script with the files beside it.
type Script struct {
	Text  string
	Files map[string]string
}

// Job is a training whose words are all fixed: LLaMA-Factory's, which takes settings from a file and from its command
// line, where the latter win.
type Job struct {
	keys   []string
	values map[string]string
	// before is what the command line has in front of the program.
	before string
}

// models are of sizes from one that fits everywhere to one that fits nowhere.
var models = []string{"Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "meta-llama/Meta-Llama-3-8B-Instruct",
	"mistralai/Mistral-7B-v0.1"}

// Cards are those on which scripts are judged.
var Cards = []string{"rtx-3060-12gb", "rtx-4090", "a100-sxm4-80gb"}

// DrawJob draws a training. Its rows are packed and padded, so that their length is fixed too.
func DrawJob(t *rapid.T) Job {
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	j := Job{values: map[string]string{}}
	j.set("model_name_or_path", rapid.SampledFrom(models).Draw(t, "model"))
	j.set("stage", "sft")
	j.set("do_train", "true")
	j.set("dataset", "alpaca")
	j.set("template", "default")
	j.set("output_dir", "out")
	j.set("finetuning_type", pick("type", "full", "lora"))
	if j.values["finetuning_type"] == "lora" && rapid.Bool().Draw(t, "quantised") {
		j.set("quantization_bit", "4")
	}
	j.set("cutoff_len", pick("length", "256", "1024", "2048"))
	j.set("per_device_train_batch_size", pick("micro", "1", "2", "8"))
	j.set("gradient_accumulation_steps", pick("accumulation", "1", "8"))
	j.set("bf16", "true")
	j.set("packing", "true")
	j.set("flash_attn", pick("attention", "sdpa", "fa2"))
	j.set("enable_liger_kernel", pick("kernels", "false", "true"))
	j.set("disable_gradient_checkpointing", pick("kept", "false", "true"))
	j.before = pick("before", "", "", "srun ", "nohup ", "env WANDB_MODE=offline ", "time ")
	return j
}

func (j *Job) set(key, value string) {
	if _, given := j.values[key]; !given {
		j.keys = append(j.keys, key)
	}
	j.values[key] = value
}

// command is what starts the job, without further words.
func (j Job) command() string { return j.before + "llamafactory-cli train c.yaml" }

// with is the script with lines in front of the command, and words behind it.
func (j Job) with(lines string, words ...string) Script {
	return j.script(lines + strings.TrimSpace(j.command()+" "+strings.Join(words, " ")) + "\n")
}

// script is one of these lines.
func (j Job) script(lines string) Script {
	var file strings.Builder
	for _, key := range j.keys {
		fmt.Fprintf(&file, "%s: %s\n", key, j.values[key])
	}
	return Script{Files: map[string]string{"c.yaml": file.String(), "requirements.txt": "transformers==5.23.0\n"},
		Text: "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0\n" + lines}
}

// Known is the script of a job in which nothing is open, with some words on the command line.
func (j Job) Known(t *rapid.T) Script {
	given := Job{keys: slices.Clone(j.keys), values: maps.Clone(j.values), before: j.before}
	var words []string
	var lines string
	for _, key := range []string{"cutoff_len", "per_device_train_batch_size", "seed", "run_name"} {
		value, isSet := j.values[key]
		if !isSet {
			value = "7"
		}
		switch rapid.IntRange(0, 3).Draw(t, "where "+key) {
		case 1:
			words = append(words, key+"="+value)
		case 2: // a variable that the script itself fixes
			name := strings.ToUpper(key)
			lines += fmt.Sprintf("%s=%s\n", name, value)
			words = append(words, fmt.Sprintf("%s=${%s:-9}", key, name))
		case 3: // a list, and a branch whose condition is fixed
			lines += fmt.Sprintf("MORE=()\nif [ 1 = 1 ]; then MORE+=(%s=%s); fi\n", key, value)
			words = append(words, `"${MORE[@]}"`)
			return given.with(lines, words...)
		}
	}
	return given.with(lines, words...)
}

// harmless are words that move no memory, as lines in front of the command and words of it. Their variables are the
// environment's.
var harmless = []struct{ lines, words string }{
	{"", "run_name=$NAME"}, {"", "output_dir=$SCRATCH/out"}, {"", "seed=$RANDOM"}, {"", "logging_steps=${EVERY:-10}"},
	{"", "report_to=$WHERE"}, {"export WANDB_PROJECT=$USER\n", ""}, {"", "dataset=${DATA:-alpaca}"},
	{"echo \"begins on $(hostname)\"\n", ""}, {"", "save_steps=$SAVE"}, {"", "learning_rate=${LR:-1e-4}"},
	{"export MASTER_PORT=$((10000 + SLURM_JOB_ID % 1000))\n", ""}, {"for f in *.log; do echo \"$f\"; done\n", ""},
	{"", "dataloader_num_workers=$SLURM_CPUS_PER_TASK"}, {"", "warmup_ratio=0.1"},
}

// Harmless is the script of a job with words that move no memory.
func (j Job) Harmless(t *rapid.T) Script {
	var lines string
	var words []string
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(harmless)-1), 1, 4, rapid.ID[int]).Draw(t, "harmless") {
		lines += harmless[i].lines
		if harmless[i].words != "" {
			words = append(words, harmless[i].words)
		}
	}
	return j.with(lines, words...)
}

// changes are words that change what a job needs.
var changes = []string{"finetuning_type=lora", "finetuning_type=lora quantization_bit=4", "per_device_train_batch_size=1",
	"per_device_train_batch_size=16", "cutoff_len=128", "cutoff_len=4096", "model_name_or_path=Qwen/Qwen2.5-0.5B",
	"disable_gradient_checkpointing=true", "enable_liger_kernel=true", "finetuning_type=full", "optim=sgd",
	"pure_bf16=true bf16=false", "seed=1", "stage=dpo", "stage=kto pref_beta=0.2"}

// idioms are ways of a script to leave a part to the environment. In lines and words A stands for one change, B for
// another; each of either is what it may come to: the words of the command. bounded is true where these are all.
// Without words the command is in the lines, as CMD.
var idioms = []struct {
	name, lines, words string
	either             []string
	bounded            bool
}{
	{"more arguments", "", "${EXTRA:-}", []string{"", "A", "B"}, false},
	{"more arguments, unless set", "", "${EXTRA-}", []string{"", "A", "B"}, false},
	{"one that is not set", "", "$EXTRA", []string{"", "A", "B"}, false},
	{"an argument", "", "${1:-}", []string{"", "A", "B"}, false},
	{"all arguments", "", `"$@"`, []string{"", "A", "B"}, false},
	{"assigned if empty", ": \"${EXTRA:=}\"\n", "$EXTRA", []string{"", "A", "B"}, false},
	{"assigned a default", ": \"${EXTRA:=A}\"\n", "$EXTRA", []string{"A", "B", ""}, false},
	{"a default", "", "${EXTRA:-A}", []string{"A", "B", ""}, false},
	{"in a list", "ARGS=(seed=3 ${EXTRA:-})\n", `"${ARGS[@]}"`, []string{"seed=3", "seed=3 A", "seed=3 B"}, false},
	{"of a program", "EXTRA=$(cat args.txt)\n", "$EXTRA", []string{"", "A", "B"}, false},
	{"a file that is sourced", "source site.sh\n", "$EXTRA", []string{"", "A", "B"}, false},
	{"a loop", "for w in $LIST; do EXTRA=\"$EXTRA $w\"; done\n", "$EXTRA", []string{"", "A", "B"}, false},
	{"a loop that assigns", "EXTRA=''\nwhile read -r line; do EXTRA=$line; done < args.txt\n", "$EXTRA",
		[]string{"", "A", "B"}, false},
	{"an alternative", "", "${QUICK:+A}", []string{"", "A"}, true},
	{"a branch", "EXTRA='B'\nif [ -n \"$QUICK\" ]; then EXTRA='A'; fi\n", "$EXTRA", []string{"A", "B"}, true},
	{"two branches", "if [ \"${SIZE:-big}\" = big ]; then EXTRA='A'; else EXTRA='B'; fi\n", "$EXTRA", []string{"A", "B"},
		true},
	{"and", "EXTRA=''\n[ \"${QUICK:-0}\" = 1 ] && EXTRA='A'\n", "$EXTRA", []string{"", "A"}, true},
	{"double brackets", "EXTRA=''\n[[ $HOSTNAME == a* ]] && EXTRA='A'\n", "$EXTRA", []string{"", "A"}, true},
	{"or", "EXTRA='B'\n[ -z \"$QUICK\" ] || EXTRA='A'\n", "$EXTRA", []string{"A", "B"}, true},
	{"a case", "case $SIZE in\nsmall) EXTRA='A';;\n*) EXTRA='B';;\nesac\n", "$EXTRA", []string{"A", "B"}, true},
	{"a list that grows", "ARGS=(seed=3)\nif [ -e /data ]; then ARGS+=(A); fi\n", `"${ARGS[@]}"`,
		[]string{"seed=3", "seed=3 A"}, true},
	{"of a branch, through another", "if [ \"$QUICK\" ]; then X='A'; else X='B'; fi\nEXTRA=\"seed=3 $X\"\n", "$EXTRA",
		[]string{"seed=3 A", "seed=3 B"}, true},
	{"a text that is run", "eval \"CMD ${EXTRA:-}\"\n", "", []string{"", "A", "B"}, false},
	{"a text for another shell", "bash -c \"CMD $EXTRA\"\n", "", []string{"", "A", "B"}, false},
	{"a function", "train() { CMD \"$@\"; }\ntrain ${EXTRA:-}\n", "", []string{"", "A", "B"}, false},
	{"a function's variable", "train() { local more=${1:-}; CMD $more; }\ntrain \"$EXTRA\"\n", "", []string{"", "A", "B"},
		false},
	{"arguments of its own", "set -- ${EXTRA:-}\nCMD \"$@\"\n", "", []string{"", "A", "B"}, false},
	{"arguments by a branch", "set --\nif [ \"$QUICK\" ]; then set -- A; fi\nCMD \"$@\"\n", "", []string{"", "A"}, false},
	{"a command in a variable", "RUN='CMD'\n$RUN ${EXTRA:-}\n", "", []string{"", "A", "B"}, false},
	{"a subshell", "(cd . && CMD ${EXTRA:-})\n", "", []string{"", "A", "B"}, false},
	{"a loop around it", "for i in 1 2; do CMD ${EXTRA:-} && break; done\n", "", []string{"", "A", "B"}, false},
	{"a command for each", "case $SIZE in\nsmall) CMD 'A';;\nesac\n", "", []string{"A"}, false},
	{"what a branch sources", "EXTRA=''\n[ -f site.sh ] && . ./site.sh\nCMD $EXTRA\n", "", []string{"", "A", "B"}, false},
	{"an element", "ARGS=(${EXTRA:-seed=1})\nCMD ${ARGS[0]}\n", "", []string{"seed=1", "A", "B"}, false},
	{"a part of a name", "CMD run_name=x${EXTRA:+ A}\n", "", []string{"run_name=x", "run_name=x A"}, true},
	{"two decisions", "if [ \"$Q\" ]; then X='A'; else X=''; fi\nif [ \"$R\" ]; then Y='B'; else Y=''; fi\n", "$X $Y",
		[]string{"", "A", "B", "A B"}, true},
}

// Open is a script with a part that only the environment decides, and every script that it was found to come to. All
// are of one job.
type Open struct {
	Script
	Name   string
	Either []Script
	// Bounded says that Either is all that it may come to.
	Bounded bool
}

// Open draws one.
func (j Job) Open(t *rapid.T) Open {
	idiom := rapid.SampledFrom(idioms).Draw(t, "idiom")
	two := rapid.SliceOfNDistinct(rapid.SampledFrom(changes), 2, 2, rapid.ID[string]).Draw(t, "changes")
	fill := func(s string) string {
		return strings.NewReplacer("A'", two[0]+"'", "B'", two[1]+"'", "=A}", "="+two[0]+"}", ":-A}", ":-"+two[0]+"}",
			":+A}", ":+"+two[0]+"}", "(A)", "("+two[0]+")", "-- A;", "-- "+two[0]+";", "CMD 'A'", "CMD "+two[0],
			":+ A}", ":+ "+two[0]+"}").Replace(s)
	}
	o := Open{Script: j.with(fill(idiom.lines), fill(idiom.words)), Name: idiom.name, Bounded: idiom.bounded}
	if idiom.words == "" {
		o.Script = j.script(strings.ReplaceAll(fill(idiom.lines), "CMD", j.command()))
	}
	for _, words := range idiom.either {
		var resolved []string
		for word := range strings.FieldsSeq(words) {
			switch word {
			case "A":
				word = two[0]
			case "B":
				word = two[1]
			}
			resolved = append(resolved, word)
		}
		o.Either = append(o.Either, j.with("", resolved...))
	}
	return o
}
