// Package slurm reads the words of Slurm's sbatch, salloc and srun that say which GPUs a job gets. Nothing is asked
// of Slurm, and nothing is run.
package slurm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options are those of Slurm's sbatch, salloc and srun that say which GPUs a job gets.
type Options struct {
	GRES, GPUs, GPUsPerNode, GPUsPerTask string
	Constraint, Partition, Comment       string
	// Nodes and Tasks are --nodes and --ntasks, by which some of the GPUs count several times.
	Nodes, Tasks string
	// Directory is --chdir, where the job starts.
	Directory string
}

// Over gives the options of two places of which o is the nearer one, such as the command line over the script: Slurm
// takes each option by itself, and of one that stands in both places that of the nearer.
func (o Options) Over(farther Options) Options {
	for _, f := range []struct{ to, from *string }{{&o.GRES, &farther.GRES}, {&o.GPUs, &farther.GPUs},
		{&o.GPUsPerNode, &farther.GPUsPerNode}, {&o.GPUsPerTask, &farther.GPUsPerTask},
		{&o.Constraint, &farther.Constraint}, {&o.Partition, &farther.Partition}, {&o.Comment, &farther.Comment},
		{&o.Directory, &farther.Directory}, {&o.Nodes, &farther.Nodes}, {&o.Tasks, &farther.Tasks}} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	return o
}

// field is where the value of an option of sbatch goes; nil for other options.
func (o *Options) field(name string) *string {
	switch name {
	case "--gres":
		return &o.GRES
	case "--gpus", "-G":
		return &o.GPUs
	case "--gpus-per-node":
		return &o.GPUsPerNode
	case "--gpus-per-task":
		return &o.GPUsPerTask
	case "--constraint", "-C":
		return &o.Constraint
	case "--partition", "-p":
		return &o.Partition
	case "--comment":
		return &o.Comment
	case "--nodes", "-N":
		return &o.Nodes
	case "--ntasks", "-n":
		return &o.Tasks
	case "--chdir", "-D":
		return &o.Directory
	}
	return nil
}

// overridePrefix begins a reason to run a job whatever vramplan says of it.
const overridePrefix = "vramplan:override="

// Override is the reason that the job's comment gives for running in any case.
func (o *Options) Override() string {
	_, reason, _ := strings.Cut(o.Comment, overridePrefix)
	return strings.TrimSpace(reason)
}

// requests are the options that ask for GPUs.
func (o *Options) requests() []string { return []string{o.GRES, o.GPUs, o.GPUsPerNode, o.GPUsPerTask} }

// NoGPU says that the options ask for no GPU in so many words: by counts of zero, or by --gres=none, and by nothing
// that asks for one.
func (o *Options) NoGPU() bool {
	said := false
	for _, request := range o.requests() {
		for _, entry := range gpuEntries(request) {
			if !isZero(entry[1]) {
				return false
			}
			said = true
		}
		said = said || request == "none"
	}
	return said
}

// Types are the types of GPUs that are asked for, by whichever option.
func (o *Options) Types() []string {
	var types []string
	for _, request := range o.requests() {
		for _, entry := range gpuEntries(request) {
			if entry[0] != "" && !isZero(entry[1]) && !slices.Contains(types, entry[0]) {
				types = append(types, entry[0])
			}
		}
	}
	return types
}

// Asks is what decides the card, as an option with its value, and the first name in it.
func (o *Options) Asks() (option, name string) {
	types := o.Types()
	for i, request := range o.requests() {
		for _, entry := range gpuEntries(request) {
			if len(types) > 0 && entry[0] == types[0] {
				return "--" + []string{"gres", "gpus", "gpus-per-node", "gpus-per-task"}[i] + "=" + request, types[0]
			}
		}
	}
	if o.Constraint != "" {
		return "--constraint=" + o.Constraint, o.Constraint
	}
	return "--partition=" + o.Partition, o.Partition
}

func isZero(count string) bool { return count != "" && strings.Trim(count, "0kKmMgG") == "" }

// Asked says whether the options ask for a GPU at all.
func (o *Options) Asked() bool {
	return !o.NoGPU() && (o.GPUs != "" || o.GPUsPerNode != "" || o.GPUsPerTask != "" || len(gpuEntries(o.GRES)) > 0)
}

// Count is how many GPUs the job gets in all, as far as the options tell; 0 where they do not.
func (o *Options) Count() int {
	nodes, tasks := leading(o.Nodes), leading(o.Tasks)
	return max(GPUCount(o.GPUs), GPUCount(o.GRES)*nodes, GPUCount(o.GPUsPerNode)*nodes, GPUCount(o.GPUsPerTask)*tasks)
}

// leading is the number at the beginning of "4", "4-8" or "4:2", and 1 where there is none.
func leading(s string) int {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil || n < 1 {
		return 1
	}
	return min(n, 1<<20)
}

// gpuEntries splits a request into its GPUs, each a type and a count, of which either may be empty.
func gpuEntries(option string) [][2]string {
	var entries [][2]string
	for entry := range strings.SplitSeq(option, ",") {
		entry, _, _ = strings.Cut(entry, "(") // what follows are sockets
		for _, prefix := range []string{"gres:", "gres/"} {
			entry = strings.TrimPrefix(entry, prefix)
		}
		parts := strings.FieldsFunc(entry, func(r rune) bool { return r == ':' || r == '=' })
		switch {
		case len(parts) == 0:
			continue
		case parts[0] == "gpu":
			parts = parts[1:]
		case len(parts) > 1 && !isCount(parts[1]) || isOtherResource(parts[0]):
			continue
		}
		var found [2]string
		for _, p := range parts {
			if isCount(p) {
				found[1] = p
			} else if found[0] == "" {
				found[0] = p
			}
		}
		entries = append(entries, found)
	}
	return entries
}

// isOtherResource knows the names of generic resources that are no GPU types.
func isOtherResource(name string) bool {
	switch name {
	case "mps", "shard", "nic", "craynetwork", "license", "fs", "none", "help", "tmpdisk", "lustre":
		return true
	}
	return false
}

var count = regexp.MustCompile(`^[0-9]+[kKmMgG]?$`)

func isCount(s string) bool { return count.MatchString(s) }

// GPUCount is how many GPUs a request such as "gpu:a100:4" or "4" is for; 0 where it does not tell.
func GPUCount(option string) int {
	total := 0
	for _, entry := range gpuEntries(option) {
		n, err := strconv.Atoi(entry[1])
		if entry[1] == "" {
			n = 1
		} else if err != nil || n > 1<<20 {
			return 0
		}
		total += n
	}
	return total
}
