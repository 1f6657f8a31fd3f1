package launch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// Because says why a number is not known, and where.
func Because(c Count) string {
	if at := c.At.Where(); at != "" {
		return c.Why + " (" + at + ")"
	}
	return c.Why
}

// Count is a number of processes or GPUs; why says why it is not known.
type Count struct {
	N     int64
	Known bool
	From  setting.Value
	How   string
	Why   string
	At    setting.Span
}

// CountOf is the number that a value says.
func CountOf(v setting.Value) Count {
	if v.Unknown != "" {
		return Count{Why: fmt.Sprintf("%s is not known: %s", v.Origin.Key, v.Unknown), At: v.Origin.At}
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > 1<<20 {
		return Count{Why: fmt.Sprintf("%s is %q", v.Origin.Key, v.String()), At: v.Origin.At}
	}
	return Count{N: n, Known: true, From: v}
}

// World says over how many GPUs the job is spread: launcher, accelerate's file, Slurm, CUDA_VISIBLE_DEVICES, in this
// order.
func (l *Launch) World() Count {
	if l.Counted != nil {
		return l.Counted()
	}
	switch l.Launcher {
	case "torchrun", "tune":
		return l.torchrunWorld()
	case "accelerate":
		return l.accelerateWorld()
	case "deepspeed":
		return l.deepspeedWorld()
	case "composer":
		if v, ok := l.Own.Get("n", "nproc", "world_size"); ok {
			return CountOf(v)
		}
		return l.Visible("gpus", "composer takes all GPUs of the node")
	}
	if l.Program.Text == "" {
		return Count{Why: "no command says on how many GPUs"}
	}
	if n, ok := l.slurmTasks(); ok {
		return n
	}
	if l.ranks != nil {
		return l.orScheduled(CountOf(*l.ranks), "gpus")
	}
	if l.pods {
		if v, ok := l.slurm.Get("processes"); ok {
			return CountOf(v)
		}
	}
	return Count{N: 1, Known: true, How: "one process"}
}

// torchrunWorld is nproc_per_node × nnodes; both are 1 where they are not given.
func (l *Launch) torchrunWorld() Count {
	per, nodes := Count{N: 1, Known: true}, Count{N: 1, Known: true}
	if v, ok := l.torchrunOption("nproc_per_node", "nproc_per_gpu"); ok {
		switch v.String() {
		case "gpu", "auto":
			per = l.Visible("gpus_on_node", "--nproc_per_node=gpu takes all GPUs of the node")
		default:
			per = l.orScheduled(CountOf(v), "gpus_on_node")
		}
	}
	if v, ok := l.torchrunOption("nnodes"); ok {
		nodes = l.orScheduled(nodeRange(v), "nodes")
	}
	return Times(per, nodes)
}

// torchrunOption is an option of torchrun's, or the variable that it takes in its place (torch 2.9
// torch/distributed/argparse_util.py: PET_ before the first name).
func (l *Launch) torchrunOption(keys ...string) (setting.Value, bool) {
	if v, ok := l.Own.Get(keys...); ok {
		return v, true
	}
	name := "PET_" + strings.ToUpper(keys[0])
	w, ok := l.Env(name)
	if !ok || w.Known() && w.Text == "" {
		return setting.Value{}, false
	}
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v, true
}

// nodeRange reads 2, 1:4 or 2:2 as torchrun does; a range is not known.
func nodeRange(v setting.Value) Count {
	if low, high, ok := strings.Cut(v.String(), ":"); ok && v.Unknown == "" {
		if low != high {
			return Count{Why: fmt.Sprintf("%s is the range %s", v.Origin.Key, v.String()), At: v.Origin.At}
		}
		v.Any, v.Text = low, low
	}
	return CountOf(v)
}

// orScheduled takes what the scheduler was asked for where a variable of its environment stands.
func (l *Launch) orScheduled(c Count, key string) Count {
	if c.Known || l.slurm == nil {
		return c
	}
	if v, ok := l.slurm.Get(key); ok {
		if n := CountOf(v); n.Known {
			return n
		}
	}
	return c
}

// Times is the product of two numbers.
func Times(a, b Count) Count {
	switch {
	case !a.Known:
		return a
	case !b.Known:
		return b
	case b.N == 1 && !b.From.Origin.At.Known():
		return a
	}
	return Count{N: a.N * b.N, Known: true, How: fmt.Sprintf("%d a node × %d nodes", a.N, b.N)}
}

// accelerateWorld is num_processes, which counts the processes of all machines.
func (l *Launch) accelerateWorld() Count {
	if l.Accelerate != nil {
		if v, ok := l.Accelerate.Get("num_processes"); ok {
			n := CountOf(v)
			if !n.Known && l.slurm != nil {
				if v, ok := l.slurm.Get("gpus"); ok {
					return CountOf(v)
				}
			}
			return n
		}
		if v, ok := l.Accelerate.Get("gpu_ids"); ok && v.Unknown == "" && v.String() != "all" {
			return listed(v, "gpu_ids")
		}
	}
	return l.Visible("gpus", "accelerate launch takes all GPUs of the host where no --num_processes is given")
}

// deepspeedWorld is --num_gpus × --num_nodes or --include; without them all GPUs of all hosts.
func (l *Launch) deepspeedWorld() Count {
	if v, ok := l.Own.Get("include", "i"); ok {
		if v.Unknown != "" {
			return CountOf(v)
		}
		n := int64(0)
		for _, host := range strings.Split(v.String(), "@") {
			_, slots, ok := strings.Cut(host, ":")
			if !ok {
				return Count{Why: fmt.Sprintf("%s names hosts without their GPUs", v.Origin.Key), At: v.Origin.At}
			}
			n += int64(len(strings.Split(slots, ",")))
		}
		return Count{N: n, Known: true, How: v.Origin.Key + " " + v.String(), From: v}
	}
	per := l.Visible("gpus", "the deepspeed launcher takes all GPUs where neither --num_gpus nor --include is given")
	if v, ok := l.Own.Get("num_gpus"); ok {
		per = l.orScheduled(CountOf(v), "gpus_on_node")
	}
	nodes := Count{N: 1, Known: true}
	if v, ok := l.Own.Get("num_nodes"); ok {
		nodes = l.orScheduled(CountOf(v), "nodes")
	} else if l.Own.Any("hostfile", "H") {
		v, _ := l.Own.Get("hostfile", "H")
		return Count{Why: "the hostfile says how many GPUs there are", At: v.Origin.At}
	}
	return Times(per, nodes)
}

// Visible is the number of GPUs that CUDA_VISIBLE_DEVICES leaves, or what the scheduler gives: in all, or on a node;
// otherwise why says who
// takes all of them.
func (l *Launch) Visible(key, why string) Count {
	if w, ok := l.Env("CUDA_VISIBLE_DEVICES"); ok && w.Known() && w.Text != "" {
		v := w.Value
		v.Origin.Kind, v.Origin.Key = setting.Environment, "CUDA_VISIBLE_DEVICES"
		return listed(v, "CUDA_VISIBLE_DEVICES")
	}
	if l.slurm != nil {
		if v, ok := l.slurm.Get(key); ok {
			return CountOf(v)
		}
	}
	return Count{Why: why, At: l.At}
}

// listed counts the devices of a list: 0,1,2,3.
func listed(v setting.Value, name string) Count {
	n := int64(0)
	for _, d := range strings.Split(v.String(), ",") {
		if strings.TrimSpace(d) != "" {
			n++
		}
	}
	if n == 0 {
		return Count{Why: name + " is empty", At: v.Origin.At}
	}
	v.Origin.How = fmt.Sprintf("%s names %d", name, n)
	return Count{N: n, Known: true, From: v, How: v.Origin.How}
}

// slurmTasks is the number of processes that srun starts itself, one a task.
func (l *Launch) slurmTasks() (Count, bool) {
	srun := false
	for _, w := range l.Wrappers {
		srun = srun || w == "srun"
	}
	if !srun || l.slurm == nil {
		return Count{}, false
	}
	v, ok := l.slurm.Get("ntasks")
	if !ok {
		return Count{}, false
	}
	return CountOf(v), true
}

// slurmOf are the options of a component that begin #SBATCH lines, as far as they count GPUs; nil where there are none.
func slurmOf(file string, c slurm.Component) *setting.Settings {
	if c == nil {
		return nil
	}
	s := setting.New()
	for _, w := range c {
		if name, ok := slurmKeys[w.Name]; ok {
			s.Set(name, setting.Value{Any: w.Value, Text: w.Value,
				Origin: setting.Origin{Kind: setting.File, Key: w.Name,
					At: setting.Span{File: file, Start: w.Start, End: w.Start, Line: w.Line}}})
		}
	}
	slurmTotals(s)
	return s
}

// slurmKeys are sbatch's options, long and short (sbatch manual, Slurm 25.05).
var slurmKeys = map[string]string{
	"--nodes": "nodes", "-N": "nodes", "--ntasks": "ntasks", "-n": "ntasks", "--ntasks-per-node": "ntasks_per_node",
	"--gres": "gres", "--gpus": "gpus_all", "-G": "gpus_all", "--gpus-per-node": "gpus_per_node",
	"--gpus-per-task": "gpus_per_task", "--chdir": "chdir", "-D": "chdir",
}

// slurmTotals adds the number of GPUs a node and in all, and of tasks.
func slurmTotals(s *setting.Settings) {
	number := func(key string) (int64, setting.Value, bool) {
		v, ok := s.Get(key)
		if !ok {
			return 0, v, false
		}
		text := v.String()
		if key == "gres" {
			rest, isGPU := strings.CutPrefix(text, "gpu")
			if !isGPU {
				return 0, v, false
			}
			text = strings.TrimPrefix(rest, ":")
		}
		if i := strings.LastIndexByte(text, ':'); i >= 0 {
			text = text[i+1:]
		}
		text, _, _ = strings.Cut(text, "-")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil && key == "gres" {
			n, err = 1, nil
		}
		return n, v, err == nil && n > 0
	}
	nodes, _, ok := number("nodes")
	if !ok {
		nodes = 1
	}
	put := func(key string, n int64, v setting.Value) {
		v.Any, v.Text = n, strconv.FormatInt(n, 10)
		s.Set(key, v)
	}
	if v, ok := s.Get("nodes"); ok {
		put("nodes", nodes, v)
	}
	tasks, tv, ok := number("ntasks")
	if per, v, okPer := number("ntasks_per_node"); okPer && !ok {
		tasks, tv, ok = per*nodes, v, true
	}
	if !ok {
		tasks = nodes
	} else {
		put("ntasks", tasks, tv)
	}
	for _, key := range []string{"gpus_per_node", "gres"} {
		if n, v, ok := number(key); ok {
			put("gpus_on_node", n, v)
			put("gpus", n*nodes, v)
			return
		}
	}
	if n, v, ok := number("gpus_all"); ok {
		put("gpus", n, v)
		put("gpus_on_node", max(1, n/nodes), v)
		return
	}
	if n, v, ok := number("gpus_per_task"); ok {
		put("gpus", n*tasks, v)
		put("gpus_on_node", max(1, n*tasks/nodes), v)
	}
}

// Environment is a variable as a setting.
func Environment(w argv.Word, name string) setting.Value {
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v
}
