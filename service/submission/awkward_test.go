package submission

import (
	"strings"
	"testing"
)

// TestAwkwardScripts holds batch scripts of jobs that run, because what decides their size is said where only a shell,
// a launcher or the job itself sees it. Read word by word each has the large launch in it; none may be refused.
func TestAwkwardScripts(t *testing.T) {
	words := strings.TrimPrefix(trainerLaunch, "python ")
	small := strings.Replace(trainerLaunch, "--per_device_train_batch_size 64", "--per_device_train_batch_size $N", 1)
	for name, tt := range map[string]struct {
		script string
		files  files
	}{
		"an array's index picks the batch":     {"B=(1 2 64)\nN=${B[$SLURM_ARRAY_TASK_ID]}\n" + small, nil},
		"an array's index picks the line":      {"N=$(sed -n \"${SLURM_ARRAY_TASK_ID}p\" sizes.txt)\n" + small, nil},
		"a batch by arithmetic on the task":    {"N=$((SLURM_ARRAY_TASK_ID + 1))\n" + small, nil},
		"a configuration by the task":          {"python train.py config/$SLURM_ARRAY_TASK_ID.py", nanoFiles},
		"a batch by a table":                   {"declare -A S=([a]=1 [b]=64)\nN=${S[$1]}\n" + small, nil},
		"a batch by mapfile":                   {"mapfile -t L < sizes.txt\nN=${L[0]}\n" + small, nil},
		"a batch by read":                      {"read -r N < size.txt\n" + small, nil},
		"a batch by eval":                      {"eval \"N=$(cat size.txt)\"\n" + small, nil},
		"a batch by let":                       {"let N=$NTASKS*2\n" + small, nil},
		"a batch by printf":                    {"printf -v N '%d' \"$(cat size.txt)\"\n" + small, nil},
		"a batch by nameref":                   {"declare -n N=$WHICH\n" + small, nil},
		"a batch by an environment file":       {"set -a; source ./job.env; set +a\n" + small, nil},
		"srun with a text of its own":          {"srun bash -c 'N=$SLURM_PROCID; " + small + "'", nil},
		"a launcher with its own file":         {"accelerate launch " + words, nil},
		"uv, and a launcher with its own file": {"uv run accelerate launch " + words, nil},
		"conda run, a program of the user's": {"conda run -n x --no-capture-output " +
			strings.Replace(trainerLaunch, "run_clm.py", "lora.py", 1), nil},
		"apptainer, a program of the image": {"apptainer exec --nv -B /data x.sif " +
			strings.Replace(trainerLaunch, "run_clm.py", "/opt/lora.py", 1), nil},
		"enroot, a program of the image": {"enroot start --mount=/data x " +
			strings.Replace(trainerLaunch, "run_clm.py", "/opt/lora.py", 1), nil},
		"a function that nobody calls":  {"big() {\n" + trainerLaunch + "\n}\nsmall() { echo; }\nsmall", nil},
		"a function by its name":        {"big() {\n" + trainerLaunch + "\n}\n\"$1\"", nil},
		"a function that adds adapters": {"run() { \"$@\" --use_peft True; }\nrun " + trainerLaunch, nil},
		"an alias that adds adapters": {"shopt -s expand_aliases\nalias python='python -m lora_everything'\n" +
			trainerLaunch, nil},
		"a make that is not read": {"make -C runs small\nif [ \"$BIG\" = 1 ]; then " + trainerLaunch + "; fi", nil},
		"sbatch inside":           {"sbatch --wrap '" + strings.ReplaceAll(small, "'", "") + "'", nil},
		"the same script again": {"if [ -z \"$INNER\" ]; then INNER=1 sbatch $0; else " + trainerLaunch +
			"; fi", nil},
		"a here-document with a variable": {"cat > config/big.py <<EOF\nbatch_size = $N\nEOF\n" + nanoLaunch, nanoFiles},
		"a here-document for python": {"python - <<EOF > config/big.py\nprint('batch_size = 1')\nEOF\n" + nanoLaunch,
			nanoFiles},
		"a template by envsubst":                {"envsubst < big.tmpl > config/big.py\n" + nanoLaunch, nanoFiles},
		"a configuration by jq and tee":         {"jq -r .py all.json | tee config/big.py\n" + nanoLaunch, nanoFiles},
		"a configuration by a link":             {"ln -sf small.py config/big.py\n" + nanoLaunch, nanoFiles},
		"a configuration by rsync":              {"rsync host:small.py config/big.py\n" + nanoLaunch, nanoFiles},
		"a checkout of another state":           {"git checkout small -- config/big.py\n" + nanoLaunch, nanoFiles},
		"a patch before it":                     {"patch -p1 < small.patch\n" + nanoLaunch, nanoFiles},
		"a pipeline of words":                   {"xargs " + trainerLaunch + " < words.txt", nil},
		"words from a file":                     {trainerLaunch + " $(cat words.txt)", nil},
		"the larger only when it fits":          {"python probe.py && " + trainerLaunch, nil},
		"the larger after a smaller one failed": {"python small.py || " + trainerLaunch, nil},
		"a loop over sizes":                     {"for N in $(seq 1 $MAX); do " + small + "; done", nil},
		"a loop until it fits":                  {"N=64\nuntil " + small + "; do N=$((N/2)); done", nil},
		"a path with other programs first":      {"export PYTHONPATH=$PWD/patched\n" + trainerLaunch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if found, err := findKnown(tt.script, tt.files); may(found, err) {
				t.Errorf("may be refused: %s", found.Document)
			}
		})
	}
}
