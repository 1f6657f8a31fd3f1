package submission

import (
	"slices"
	"strings"
	"testing"
)

// TestMoreAwkwardScripts holds further jobs that run. In half of them the shell is not what it seems to be when the
// launch is reached; in the other half something else has written the configuration of a tool, or its environment makes
// another job of it. Read word by word each has the large launch in it; none may be refused.
func TestMoreAwkwardScripts(t *testing.T) {
	small := strings.Replace(trainerLaunch, "--per_device_train_batch_size 64", "--per_device_train_batch_size $N", 1)
	for name, script := range map[string]string{
		"a default that the environment wins over": "N=${N:-64}\n" + small,
		"a default that is assigned":               ": \"${N:=64}\"\n" + small,
		"options of the script":                    "N=64\nwhile getopts b: o; do N=$OPTARG; done\n" + small,
		"a smaller one by a test":                  "N=64\n[ -n \"$SMALL\" ] && N=1\n" + small,
		"a smaller one by what the card is": "N=64\ncase $(nvidia-smi -L) in *A100*) ;; *) N=1;; esac\n" +
			small,
		"a smaller one by a program":          "N=$(python pick.py)\n" + small,
		"a smaller one by a comparison":       "N=64\ntest \"$SLURM_GPUS_ON_NODE\" -lt 8 && N=1\n" + small,
		"a smaller one by select":             "select N in 1 64; do break; done\n" + small,
		"a smaller one by a coprocess":        "coproc python pick.py\nread -u ${COPROC[0]} N\n" + small,
		"a smaller one by a function":         "pick() { N=$1; }\nN=64\npick \"$1\"\n" + small,
		"a smaller one by unset":              "N=64\nunset N\nN=${BATCH}\n" + small,
		"a function that is called python":    "python() { command python small.py; }\n" + trainerLaunch,
		"another program under the same name": "hash -p ./mypython python\n" + trainerLaunch,
		"nothing is executed":                 "set -n\n" + trainerLaunch,
		"it is over before":                   "python small.py\nexit $?\n" + trainerLaunch,
		"another program takes its place":     "exec python small.py\n" + trainerLaunch,
		"a text that nobody runs":             ": <<'END'\n" + trainerLaunch + "\nEND\npython small.py",
		"a text that is written to a file": "cat > later.sh <<'END'\n" + trainerLaunch +
			"\nEND\npython small.py",
		"a branch that is never taken": "if false; then " + trainerLaunch + "; fi\npython small.py",
		"a loop that is never entered": "while false; do " + trainerLaunch + "; done\npython small.py",
		"a launch that is only shown":  "echo " + trainerLaunch + "\npython small.py",
		"a launch that is only checked": "bash -n -c '" + strings.ReplaceAll(trainerLaunch, "'", "") +
			"'",
		"a launch in a variable that nobody uses":      "BIG=\"" + trainerLaunch + "\"\npython small.py",
		"a launch by a variable's words":               "$PREFIX " + trainerLaunch,
		"a negated launch":                             "! " + trainerLaunch + "\npython small.py",
		"a launch whose failing is handled afterwards": trainerLaunch + "\nrc=$?\n[ $rc -eq 0 ] || python small.py",
	} {
		t.Run(name, func(t *testing.T) {
			found, err := findKnown(script, nil)
			small := slices.ContainsFunc(found.Others, func(r Reading) bool {
				return strings.Contains(string(r.Document), `"micro_batch":1,`)
			})
			if may(found, err) && !small {
				t.Errorf("may be refused: %s", found.Document)
			}
		})
	}
	large := files{"full.yaml": factoryYAML}
	for name, before := range map[string]string{
		"yq":                            "yq -i '.finetuning_type = \"lora\"' full.yaml",
		"perl":                          "perl -pi -e 's/full/lora/' full.yaml",
		"ed":                            "ed full.yaml < changes.ed",
		"ex":                            "ex -sc '%s/full/lora/|x' full.yaml",
		"awk":                           "awk '{sub(/full/,\"lora\")}1' full.yaml > x && mv x full.yaml",
		"tee":                           "sed s/full/lora/ base.yaml | tee full.yaml",
		"install":                       "install -m 644 small.yaml full.yaml",
		"dd":                            "dd if=small.yaml of=full.yaml",
		"curl":                          "curl -so full.yaml https://example.org/small.yaml",
		"wget":                          "wget -q -O full.yaml https://example.org/small.yaml",
		"a bucket":                      "aws s3 cp s3://runs/small.yaml full.yaml",
		"a repository's state":          "git checkout small -- full.yaml",
		"an archive":                    "tar xf configs.tar full.yaml",
		"a link":                        "ln -sf small.yaml full.yaml",
		"more lines":                    "echo 'lora_rank: 8' >> full.yaml",
		"a here-document":               "cat > full.yaml <<EOF\nfinetuning_type: $KIND\nEOF",
		"python":                        "python make.py > full.yaml",
		"another directory":             "cd $RUN",
		"an environment of the engine":  "export USE_V1=1",
		"an environment of ModelScope":  "export USE_UNSLOTH=$U\nsource env.sh",
		"a launcher in the environment": "export ACCELERATE_USE_FSDP=1",
		"other modules":                 "export PYTHONPATH=$PWD/mine",
	} {
		t.Run(name+" before LLaMA-Factory", func(t *testing.T) {
			script := strings.Replace(factoryLaunch, "llamafactory-cli", before+"\nllamafactory-cli", 1)
			if found, err := findTool(script, large); may(found, err) {
				t.Errorf("may be refused: %s", found.Document)
			}
		})
	}
}
