package shell

import (
	"path"
	"strings"
)

// wrapper is a program that runs another one, which its words name after its own options.
type wrapper struct {
	// with are the options that take a word of their own; others stand alone or have a "=".
	with string
	// skip is the number of words between the options and the program (timeout 60 PROGRAM).
	skip int
	// verbs have to come first (singularity exec IMAGE PROGRAM).
	verbs string
	// assigns allows NAME=VALUE in front of the program (env).
	assigns bool
}

// wrappers are the programs that are looked through. An option of one that is not here does no harm unless it takes a
// word of its own; that word would then be taken for the program.
var wrappers = map[string]wrapper{
	"env":    {with: "-u -C -S --unset --chdir", assigns: true},
	"nohup":  {},
	"exec":   {with: "-a"},
	"setsid": {}, "unbuffer": {}, "catchsegv": {}, "ts": {},
	"command": {}, "builtin": {},
	"time":    {with: "-f -o --format --output"},
	"nice":    {with: "-n --adjustment"},
	"ionice":  {with: "-c -n -p --class --classdata"},
	"stdbuf":  {with: "-i -o -e"},
	"timeout": {with: "-k -s --kill-after --signal", skip: 1},
	"numactl": {with: "-N -m -C -i -p -l --cpunodebind --membind --physcpubind --interleave --preferred"},
	"taskset": {with: "", skip: 1},
	"chrt":    {with: "", skip: 1},
	"sudo":    {with: "-u -g -C -h -p", assigns: true},
	"srun": {with: "-n -N -c -p -A -J -t -o -e -i -w -x -G -C -D -m -d -q -M -r -T -W -Z -k --ntasks --nodes " +
		"--cpus-per-task --partition --account --job-name --time --output --error --input --nodelist --exclude --gpus " +
		"--gres --gpus-per-node " +
		"--gpus-per-task --gpu-bind --cpu-bind --mem --mem-per-cpu --mem-per-gpu --ntasks-per-node --ntasks-per-gpu " +
		"--constraint --chdir --distribution --dependency --qos --jobid --mpi --export --container-image " +
		"--container-mounts --container-workdir --container-name --kill-on-bad-exit --wait --het-group --pack-group --network " +
		"--comment --threads-per-core --signal --open-mode --propagate --reservation --hint --mail-type --mail-user " +
		"--relative"},
	"mpirun": {with: "-n -np -c -H -host --host -hostfile --hostfile -x -mca --mca -bind-to --bind-to -map-by " +
		"--map-by -N -npernode --npernode -ppn -genv -env", skip: 0},
	"mpiexec": {with: "-n -np -c -H -host --host -hostfile --hostfile -x -mca --mca -bind-to --bind-to -map-by " +
		"--map-by -N -npernode --npernode -ppn -genv -env"},
	"singularity": {verbs: "exec run", with: singularityOptions, skip: 1},
	"apptainer":   {verbs: "exec run", with: singularityOptions, skip: 1},
	"docker":      {verbs: "run exec", with: dockerOptions, skip: 1},
	"podman":      {verbs: "run exec", with: dockerOptions, skip: 1},
	"nerdctl":     {verbs: "run exec", with: dockerOptions, skip: 1},
	"uv": {verbs: "run", with: "--with --python -p --project --directory --env-file --extra --group " +
		"--index-url --with-requirements"},
	"poetry":     {verbs: "run", with: "-C --directory -P --project"},
	"pipenv":     {verbs: "run"},
	"pdm":        {verbs: "run"},
	"conda":      {verbs: "run", with: "-n -p --name --prefix --cwd"},
	"mamba":      {verbs: "run", with: "-n -p --name --prefix --cwd"},
	"micromamba": {verbs: "run", with: "-n -p --name --prefix --cwd"},
	"nsys": {verbs: "profile", with: "-o -t -w -c -f -s -x --output --trace --capture-range " +
		"--force-overwrite --sample --stats --cuda-memory-usage"},
	"ncu":      {with: "-o --set --section"},
	"enroot":   {verbs: "start", with: "-c --conf -e --env -m --mount", skip: 1},
	"dotenv":   {verbs: "run", with: "-f --file"},
	"xvfb-run": {with: "-s -n -f -e --server-args"},
}

const singularityOptions = "-B --bind -H --home -W --workdir --pwd --env --env-file --overlay -o --scratch -S " +
	"--mount --cwd --network --security -c_ --app"

// dockerOptions are those of docker run and docker exec that take a word (docker 28 cli/command/container/opts.go).
const dockerOptions = "-a --attach --add-host --annotation --blkio-weight --cap-add --cap-drop --cgroup-parent --cgroupns " +
	"--cidfile -c --cpu-shares --cpuset-cpus --cpuset-mems --cpus --device --dns --domainname --entrypoint -e --env " +
	"--env-file --expose --gpus --group-add --health-cmd -h --hostname --ip --ipc --isolation --kernel-memory -l --label " +
	"--label-file --link --log-driver --log-opt --mac-address -m --memory --memory-reservation --memory-swap --mount " +
	"--name --network --net --network-alias --oom-score-adj --pid --pids-limit --platform -p --publish --pull --restart " +
	"--runtime --security-opt --shm-size --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs --ulimit -u --user " +
	"--userns --uts -v --volume --volume-driver --volumes-from -w --workdir --detach-keys"

// twoWords are options of wrappers that take two words.
var twoWords = map[string]bool{"-mca": true, "--mca": true, "-genv": true, "-env": true}

// Unwrap takes the programs away that only run another one: srun, env, nohup, singularity exec, … by gives the words
// of each. It stops at the first word that is not sure. Launchers such as torchrun and accelerate stay.
func (c *Command) Unwrap() (program []Word, by [][]Word) {
	words := c.Words
	for len(words) > 0 && len(by) < 8 {
		if words[0].mayBeGone() { // $PROFILER python …, where nothing says that there is one
			by, words = append(by, words[:1]), words[1:]
			continue
		}
		if words[0].Certainty < Sure {
			break
		}
		w, ok := wrappers[path.Base(words[0].Text)]
		if !ok {
			break
		}
		n, ok := w.length(words)
		if !ok {
			break
		}
		by, words = append(by, words[:n]), words[n:]
	}
	return words, by
}

// mayBeGone reports whether a word is none at all unless the environment says otherwise.
func (w Word) mayBeGone() bool { return w.Many && w.Certainty == Assumed && w.Text == "" }

// length is the number of words in front of the wrapped program.
func (w wrapper) length(words []Word) (int, bool) {
	i := 1
	if w.verbs != "" {
		for i < len(words) && strings.HasPrefix(words[i].Text, "-") {
			i++
		}
		if i == len(words) || !has(w.verbs, words[i].Text) {
			return 0, false
		}
		i++
	}
	for ; i < len(words); i++ {
		text := words[i].Text
		name, _, given := strings.Cut(text, "=")
		switch {
		case text == "--":
			return i + 1 + w.skip, i+1+w.skip <= len(words)
		case w.assigns && given && !strings.HasPrefix(text, "-"):
		case strings.HasPrefix(text, "-"):
			if has(w.with, name) && !given {
				i++
				if twoWords[name] {
					i++
				}
			}
		case words[i].mayBeGone():
		case words[i].Certainty < Sure && words[i].Many && w.optional(words[i+1:]): // srun $ARGS python …
		default:
			return i + w.skip, i+w.skip <= len(words)
		}
	}
	return 0, false // nothing is wrapped
}

// optional reports whether a word that only the environment knows is taken for options: where the program comes next,
// or where more options follow. What follows is a word of the wrapper's own otherwise, such as the image of a
// container.
func (w wrapper) optional(rest []Word) bool {
	return len(rest) > 0 && (w.skip == 0 || strings.HasPrefix(rest[0].Text, "-"))
}

// Loose are the words of a wrapper that only the environment knows and that may be options of it: $ARGS in srun $ARGS.
func Loose(words []Word) (loose []Word) {
	w := wrappers[path.Base(words[0].Text)]
	for i, word := range words[1:] {
		if word.Certainty < Sure && word.Many && !word.mayBeGone() && !strings.HasPrefix(word.Text, "-") &&
			!has(w.with, words[i].Text) {
			loose = append(loose, word)
		}
	}
	return loose
}

func has(list, word string) bool {
	for one := range strings.FieldsSeq(list) {
		if one == word {
			return true
		}
	}
	return false
}
