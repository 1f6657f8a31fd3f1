package readers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// count is a number of processes or GPUs; why says why it is not known.
type count struct {
	n     int64
	known bool
	from  setting.Value
	how   string
	why   string
	at    setting.Span
}

func known(v setting.Value) count {
	if v.Unknown != "" {
		return count{why: fmt.Sprintf("%s is not known: %s", v.Origin.Key, v.Unknown), at: v.Origin.At}
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > 1<<20 {
		return count{why: fmt.Sprintf("%s is %q", v.Origin.Key, v.String()), at: v.Origin.At}
	}
	return count{n: n, known: true, from: v}
}

// world says over how many GPUs the job is spread: launcher, accelerate's file, Slurm, CUDA_VISIBLE_DEVICES, in this
// order.
func (l *launch) world() count {
	if l.counted != nil {
		return l.counted()
	}
	switch l.launcher {
	case "torchrun", "tune":
		return l.torchrunWorld()
	case "accelerate":
		return l.accelerateWorld()
	case "deepspeed":
		return l.deepspeedWorld()
	case "composer":
		if v, ok := l.own.Get("n", "nproc", "world_size"); ok {
			return known(v)
		}
		return l.visible("gpus", "composer takes all GPUs of the node")
	}
	if l.program.Text == "" {
		return count{why: "no command says on how many GPUs"}
	}
	if n, ok := l.slurmTasks(); ok {
		return n
	}
	if l.ranks != nil {
		return l.orScheduled(known(*l.ranks), "gpus")
	}
	if l.pods {
		if v, ok := l.slurm.Get("processes"); ok {
			return known(v)
		}
	}
	return count{n: 1, known: true, how: "one process"}
}

// torchrunWorld is nproc_per_node × nnodes; both are 1 where they are not given.
func (l *launch) torchrunWorld() count {
	per, nodes := count{n: 1, known: true}, count{n: 1, known: true}
	if v, ok := l.torchrunOption("nproc_per_node", "nproc_per_gpu"); ok {
		switch v.String() {
		case "gpu", "auto":
			per = l.visible("gpus_on_node", "--nproc_per_node=gpu takes all GPUs of the node")
		default:
			per = l.orScheduled(known(v), "gpus_on_node")
		}
	}
	if v, ok := l.torchrunOption("nnodes"); ok {
		nodes = l.orScheduled(nodeRange(v), "nodes")
	}
	return times(per, nodes)
}

// torchrunOption is an option of torchrun's, or the variable that it takes in its place (torch 2.9
// torch/distributed/argparse_util.py: PET_ before the first name).
func (l *launch) torchrunOption(keys ...string) (setting.Value, bool) {
	if v, ok := l.own.Get(keys...); ok {
		return v, true
	}
	name := "PET_" + strings.ToUpper(keys[0])
	w, ok := l.env(name)
	if !ok || w.known() && w.Text == "" {
		return setting.Value{}, false
	}
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v, true
}

// nodeRange reads 2, 1:4 or 2:2 as torchrun does; a range is not known.
func nodeRange(v setting.Value) count {
	if low, high, ok := strings.Cut(v.String(), ":"); ok && v.Unknown == "" {
		if low != high {
			return count{why: fmt.Sprintf("%s is the range %s", v.Origin.Key, v.String()), at: v.Origin.At}
		}
		v.Any, v.Text = low, low
	}
	return known(v)
}

// orScheduled takes what the scheduler was asked for where a variable of its environment stands.
func (l *launch) orScheduled(c count, key string) count {
	if c.known || l.slurm == nil {
		return c
	}
	if v, ok := l.slurm.Get(key); ok {
		if n := known(v); n.known {
			return n
		}
	}
	return c
}

func times(a, b count) count {
	switch {
	case !a.known:
		return a
	case !b.known:
		return b
	case b.n == 1 && !b.from.Origin.At.Known():
		return a
	}
	return count{n: a.n * b.n, known: true, how: fmt.Sprintf("%d a node × %d nodes", a.n, b.n)}
}

// accelerateWorld is num_processes, which counts the processes of all machines.
func (l *launch) accelerateWorld() count {
	if l.accelerate != nil {
		if v, ok := l.accelerate.Get("num_processes"); ok {
			n := known(v)
			if !n.known && l.slurm != nil {
				if v, ok := l.slurm.Get("gpus"); ok {
					return known(v)
				}
			}
			return n
		}
		if v, ok := l.accelerate.Get("gpu_ids"); ok && v.Unknown == "" && v.String() != "all" {
			return listed(v, "gpu_ids")
		}
	}
	return l.visible("gpus", "accelerate launch takes all GPUs of the host where no --num_processes is given")
}

// deepspeedWorld is --num_gpus × --num_nodes or --include; without them all GPUs of all hosts.
func (l *launch) deepspeedWorld() count {
	if v, ok := l.own.Get("include", "i"); ok {
		if v.Unknown != "" {
			return known(v)
		}
		n := int64(0)
		for _, host := range strings.Split(v.String(), "@") {
			_, slots, ok := strings.Cut(host, ":")
			if !ok {
				return count{why: fmt.Sprintf("%s names hosts without their GPUs", v.Origin.Key), at: v.Origin.At}
			}
			n += int64(len(strings.Split(slots, ",")))
		}
		return count{n: n, known: true, how: v.Origin.Key + " " + v.String(), from: v}
	}
	per := l.visible("gpus", "the deepspeed launcher takes all GPUs where neither --num_gpus nor --include is given")
	if v, ok := l.own.Get("num_gpus"); ok {
		per = l.orScheduled(known(v), "gpus_on_node")
	}
	nodes := count{n: 1, known: true}
	if v, ok := l.own.Get("num_nodes"); ok {
		nodes = l.orScheduled(known(v), "nodes")
	} else if l.own.Any("hostfile", "H") {
		v, _ := l.own.Get("hostfile", "H")
		return count{why: "the hostfile says how many GPUs there are", at: v.Origin.At}
	}
	return times(per, nodes)
}

// visible is the number of GPUs that CUDA_VISIBLE_DEVICES leaves, or what the scheduler gives: in all, or on a node;
// otherwise why says who
// takes all of them.
func (l *launch) visible(key, why string) count {
	if w, ok := l.env("CUDA_VISIBLE_DEVICES"); ok && w.known() && w.Text != "" {
		v := w.Value
		v.Origin.Kind, v.Origin.Key = setting.Environment, "CUDA_VISIBLE_DEVICES"
		return listed(v, "CUDA_VISIBLE_DEVICES")
	}
	if l.slurm != nil {
		if v, ok := l.slurm.Get(key); ok {
			return known(v)
		}
	}
	return count{why: why, at: l.at}
}

// listed counts the devices of a list: 0,1,2,3.
func listed(v setting.Value, name string) count {
	n := int64(0)
	for _, d := range strings.Split(v.String(), ",") {
		if strings.TrimSpace(d) != "" {
			n++
		}
	}
	if n == 0 {
		return count{why: name + " is empty", at: v.Origin.At}
	}
	v.Origin.How = fmt.Sprintf("%s names %d", name, n)
	return count{n: n, known: true, from: v, how: v.Origin.How}
}

// slurmTasks is the number of processes that srun starts itself, one a task.
func (l *launch) slurmTasks() (count, bool) {
	srun := false
	for _, w := range l.wrappers {
		srun = srun || w == "srun"
	}
	if !srun || l.slurm == nil {
		return count{}, false
	}
	v, ok := l.slurm.Get("ntasks")
	if !ok {
		return count{}, false
	}
	return known(v), true
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
