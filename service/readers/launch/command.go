package launch

import (
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Command is one launch line of a script.
type Command struct {
	Words []argv.Word
	// Wrappers are the programs in front that were stripped: srun, env, singularity …
	Wrappers []string
	Env      func(name string) (argv.Word, bool)
	At       setting.Span
	// Dir is the directory in which it runs.
	Dir string
	// Maybe says why the command may not run; empty where it surely does.
	Maybe string
	// Lost says why nobody knows in which directory it runs; empty where that is known.
	Lost string
	// Open reads a file as the command would find it; the text and its name.
	Open func(name string, dirs ...string) (string, []byte, error)
	// slurm is what the batch script asks the scheduler for.
	slurm *setting.Settings
	// Asked are the same in Slurm's words, a component each, and components the numbers of those; none where nobody
	// knows.
	Asked      []slurm.Options
	Components []int
	// pods is true where that is Kubernetes and not Slurm.
	pods bool
	// ranks is the number of processes that mpirun starts; nil where it starts none, or does not say.
	ranks *setting.Value
	// Files is where configurations are looked for.
	Files *source.Files
	// Displaced are files that were not where the command would find them.
	Displaced *source.DisplacedFiles
	// Taken is what was assumed of the programs in front, which is in doubt by itself.
	Taken []string
	// Doubts are those about the command as a whole: whether it runs, and in which environment.
	Doubts []draft.Doubt
	// Ways are the commands that it may be instead, by decisions that only the environment knows.
	Ways []Command
}
