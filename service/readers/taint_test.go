package readers

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// readScript reads a script in /job beside files.
func readScript(t *testing.T, script string, files map[string]string) *Answer {
	t.Helper()
	answer, err := Read(t.Context(), Source{Files: []string{"/job/job.sh"}, Dir: "/job", HasModel: func(string) bool {
		return true
	}, ReadFile: func(name string) ([]byte, error) {
		if name == "/job/job.sh" {
			return []byte(script), nil
		}
		if text, ok := files[strings.TrimPrefix(name, "/job/")]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

const factoryFile = `model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
dataset: d
template: llama3
cutoff_len: 1024
output_dir: o
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
`

// A word that the environment may change is a doubt, wherever it stands, unless it moves no memory.
func TestTaint(t *testing.T) {
	const head = "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0\n"
	for _, tt := range []struct {
		name, script, file string
		want               string // a part of a doubt; "" for none at all
		passed             bool   // what fits may be passed
	}{
		{"nothing is open", "llamafactory-cli train c.yaml", "", "", true},
		{"empty unless set", "llamafactory-cli train c.yaml ${EXTRA:-}", "", "job.sh:3: ${EXTRA:-} may add arguments", false},
		{"empty if set and empty", "llamafactory-cli train c.yaml ${EXTRA-}", "", "${EXTRA-} may add arguments", false},
		{"an argument", "llamafactory-cli train c.yaml ${1:-}", "", "${1:-} may add arguments", false},
		{"the first", "llamafactory-cli train c.yaml $1", "", "$1 may add arguments", false},
		{"all arguments", `llamafactory-cli train c.yaml "$@"`, "", "may add arguments", false},
		{"a list behind =", `llamafactory-cli train c.yaml run_name=$@`, "", "may add arguments", false},
		{"GPUs that may be hidden", "export CUDA_VISIBLE_DEVICES=$1\nllamafactory-cli train c.yaml", "",
			"may hide all GPUs", true},
		{"GPUs of another maker hidden", "HIP_VISIBLE_DEVICES= llamafactory-cli train c.yaml", "", "hides all GPUs", true},
		{"a step without GPUs", "srun --gres=none llamafactory-cli train c.yaml", "", "gives the step no GPU", true},
		{"a step with none of a kind", "srun --gres gpu:a100:0 llamafactory-cli train c.yaml", "", "gives the step no GPU",
			true},
		{"a step with some", "srun --gres=gpu:10 llamafactory-cli train c.yaml", "", "", true},
		{"an image without GPUs", "apptainer exec x.sif llamafactory-cli train c.yaml", "", "without --nv", true},
		{"a program of the user's", "./llamafactory-cli train c.yaml", "", "may do more", true},
		{"less than no step", "llamafactory-cli train c.yaml", "num_train_epochs: -1\n", "is -1: nothing is trained", true},
		{"assigned if empty", ": \"${X:=}\"\nllamafactory-cli train c.yaml $X", "", "$X may add arguments", false},
		{"in a list", "a=(c.yaml ${X:-})\nllamafactory-cli train \"${a[@]}\"", "", "may add arguments", false},
		{"before the program", "${PROFILER:-} llamafactory-cli train c.yaml", "", "${PROFILER:-} may be another program", false},
		{"within a wrapper", "srun ${OPTS:-} llamafactory-cli train c.yaml", "", "${OPTS:-} may be another program", false},
		{"a value with a default", "llamafactory-cli train c.yaml cutoff_len=${L:-512}", "", "cutoff_len is known only", false},
		{"an option with a default", "llamafactory-cli train c.yaml ${O:-seed=1}", "", "seed=1 is known only", false},
		{"fixed after all", "EXTRA=\nllamafactory-cli train c.yaml ${EXTRA:-}", "", "", true},
		{"a name", "llamafactory-cli train c.yaml run_name=$NAME output_dir=$OUT seed=${SEED:-1}", "", "", true},
		{"a loop", "for x in $LIST; do A=\"$A $x\"; done\nllamafactory-cli train c.yaml $A", "", "may add arguments", false},
		{"two values", "if [ $Q ]; then b=1; else b=2; fi\nllamafactory-cli train c.yaml per_device_train_batch_size=$b", "", "",
			true},
		{"how long", "llamafactory-cli train c.yaml num_train_epochs=$E", "", "may be 0", true},
		{"no step", "llamafactory-cli train c.yaml", "num_train_epochs: 0\n", "is 0: nothing is trained", true},
		{"an unknown key", "llamafactory-cli train c.yaml", "my_key: 3\n", "my_key is not understood", true},
		{"one that is not followed", "llamafactory-cli train c.yaml", "neftune_noise_alpha: 5\n",
			"neftune_noise_alpha may change what a GPU holds", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := readScript(t, head+tt.script+"\n", map[string]string{"c.yaml": factoryFile + tt.file})
			if len(answer.Jobs) != 1 {
				t.Fatalf("%d jobs, refused: %v", len(answer.Jobs), answer.Refusals)
			}
			job := answer.Jobs[0]
			var all strings.Builder
			for _, d := range job.Doubts {
				all.WriteString(d.String() + "\n")
			}
			if tt.want == "" && all.Len() > 0 || !strings.Contains(all.String(), tt.want) {
				t.Errorf("want a doubt with %q, got:\n%s", tt.want, all.String())
			}
			if job.MayBeDenied() != (tt.want == "") || job.MayBePassed() != tt.passed {
				t.Errorf("may be denied: %t, may be passed: %t\n%s", job.MayBeDenied(), job.MayBePassed(), all.String())
			}
		})
	}
}

// What launchers are told about where a job runs says nothing of what it holds.
func TestTaintOfLaunchers(t *testing.T) {
	const program = " train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 " +
		"--max_seq_length 512 --output_dir $OUT --run_name $NAME --report_to $TO --seed $RANDOM"
	for _, tt := range []struct{ launch, want string }{
		{"torchrun --nproc_per_node=2 --nnodes=2 --rdzv_endpoint=$MASTER_ADDR:29500 --rdzv_id $ID --node_rank=$SLURM_NODEID", ""},
		{"accelerate launch --num_processes 4 --main_process_ip $IP --main_process_port $PORT --machine_rank $R", ""},
		{"deepspeed --num_gpus 4 --hostfile $HOSTS --master_port $PORT", ""},
		{"torchrun --nproc_per_node=$N", "nproc_per_node is known only"},
		{"torchrun --nproc_per_node=2 --master_port $@", "may add arguments"},
		{`A=("$@"); torchrun --nproc_per_node=2 --master_port "${A[@]}"`, "may add arguments"},
		{"accelerate launch --mixed_precision $MP", "mixed_precision is known only"},
		{"torchrun --standalone $MORE --nproc_per_node 2", "$MORE may add arguments"},
	} {
		answer := readScript(t, "#!/bin/bash\n"+tt.launch+program+"\n", map[string]string{"train.py": "from transformers " +
			"import HfArgumentParser, Trainer, TrainingArguments\n"})
		if len(answer.Jobs) != 1 {
			t.Errorf("%s: %d jobs, refused: %v", tt.launch, len(answer.Jobs), answer.Refusals)
			continue
		}
		var all []string
		for _, d := range answer.Jobs[0].Doubts {
			if strings.Contains(d.Why, "known only") || strings.Contains(d.Why, "may add") {
				all = append(all, d.String())
			}
		}
		if tt.want == "" && len(all) > 0 || !strings.Contains(strings.Join(all, "\n"), tt.want) {
			t.Errorf("%s: want %q, got:\n%s", tt.launch, tt.want, strings.Join(all, "\n"))
		}
	}
}

// A decision between two values is a range of two jobs, and one between words and none as well.
func TestWays(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         []string // parts of the documents that it may be at most
	}{
		{"values", "if [ $Q ]; then b=1; else b=2; fi\nllamafactory-cli train c.yaml per_device_train_batch_size=$b",
			[]string{`"micro_batch":1`, `"micro_batch":2`}},
		{"one more word", "e=\n[ \"${Q:-0}\" = 1 ] && e='finetuning_type=lora'\nllamafactory-cli train c.yaml $e",
			[]string{`"precision"`, `"lora"`}},
		{"set or not", "llamafactory-cli train c.yaml ${Q:+cutoff_len=64}", []string{`"sequence_length":1024`,
			`"sequence_length":64`}},
		{"three", "case $S in a) l=8;; b) l=16;; *) l=32;; esac\nllamafactory-cli train c.yaml cutoff_len=$l",
			[]string{`"sequence_length":8`, `"sequence_length":16`, `"sequence_length":32`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := readScript(t, "#!/bin/bash\n"+tt.script+"\n", map[string]string{"c.yaml": factoryFile})
			if len(answer.Jobs) != 1 {
				t.Fatalf("%d jobs, refused: %v", len(answer.Jobs), answer.Refusals)
			}
			span := answer.Jobs[0].Range()
			if len(span.Most) != len(tt.want) || len(span.Least) != len(tt.want) {
				t.Fatalf("%d at most, %d at least, want %d", len(span.Most), len(span.Least), len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(string(span.Most[i].Document), want) {
					t.Errorf("document %d is %s, want %s", i, span.Most[i].Document, want)
				}
			}
		})
	}
}

// TestTaintOfListsBehindOptions: a list is a value and further arguments behind it, also in quotes, and whatever option
// it stands behind.
func TestTaintOfListsBehindOptions(t *testing.T) {
	for _, last := range []string{`--seed "$@"`, "--seed $*", "--run_name=$@", "--logging_dir ${ARGS[@]}", `--seed "${@:2}"`} {
		answer := readScript(t, "#!/bin/bash\npython run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 "+
			"--block_size 512 --do_train --dataset_name d --output_dir o "+last+"\n", nil)
		if len(answer.Jobs) != 1 {
			t.Errorf("%s: %d jobs, refused: %v", last, len(answer.Jobs), answer.Refusals)
			continue
		}
		job := answer.Jobs[0]
		if job.MayBeDenied() {
			t.Errorf("%s: the job may be denied; its doubts are %v", last, job.Doubts)
		}
	}
}
