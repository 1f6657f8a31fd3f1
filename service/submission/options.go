package submission

import (
	"regexp"
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

// fill takes from more what o does not have. The GPU of a job is asked for in one way or
// another: where the command line does, the script's ways do not count.
func (o *Options) fill(more Options) {
	if o.GRES == "" && o.GPUs == "" && o.GPUsPerNode == "" && o.GPUsPerTask == "" {
		o.GRES, o.GPUs, o.GPUsPerNode, o.GPUsPerTask = more.GRES, more.GPUs, more.GPUsPerNode, more.GPUsPerTask
	}
	for _, f := range []struct{ to, from *string }{{&o.Constraint, &more.Constraint}, {&o.Partition, &more.Partition},
		{&o.Comment, &more.Comment}, {&o.Directory, &more.Directory}, {&o.Nodes, &more.Nodes},
		{&o.Tasks, &more.Tasks}} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
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

// scriptOptions reads the #SBATCH lines of a script. Like sbatch it stops at the
// first command, and like there a later line wins.
func scriptOptions(script []byte) Options {
	var o Options
	for line := range splitLines(script) {
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok {
			if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
				break
			}
			continue
		}
		o.read(fields(rest))
	}
	return o
}

func (o *Options) read(words []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "#") {
			return // a comment behind the options
		}
		name, value, given := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "--") && len(word) > 2 { // -pgpu
			name, value, given = word[:2], word[2:], true
		}
		field := o.field(name)
		if field == nil {
			continue
		}
		if !given && i+1 < len(words) {
			i++
			value = words[i]
		}
		*field = value
	}
}

// overridePrefix begins a reason to run a job whatever vramplan says of it.
const overridePrefix = "vramplan:override="

// Override is the reason that the job's comment gives for running in any case.
func (o *Options) Override() string {
	_, reason, _ := strings.Cut(o.Comment, overridePrefix)
	return strings.TrimSpace(reason)
}

// Site is what an operator says of a cluster: which cards are behind the names in
// use there. Each name stands for one card of the catalog or for several that a job may get.
type Site struct {
	// Partitions tells the cards of a partition.
	Partitions map[string][]string `json:"partitions,omitempty" validate:"omitempty,max=4096"`
	// GPUs tells the cards behind a GRES type or a node feature.
	GPUs map[string][]string `json:"gpus,omitempty" validate:"omitempty,max=4096"`
}

// Cards are the names of the cards that the scheduler may give, most telling option first: the type in
// --gres and --gpus, a card in --constraint, the partition's. known says whether a word is the name of a
// card. It returns nil where none of them tells.
func (o *Options) Cards(site Site, known func(string) bool) []string {
	for _, option := range []string{o.GRES, o.GPUs, o.GPUsPerNode, o.GPUsPerTask} {
		if types := gpuTypes(option); len(types) > 0 {
			return site.cards(types)
		}
	}
	features := site.features(o.Constraint, known)
	if len(features) > 0 {
		return site.cards(features)
	}
	var cards []string
	for _, p := range strings.Split(o.Partition, ",") { // the job may start in any of them
		of, told := site.Partitions[p]
		if !told {
			return nil
		}
		cards = append(cards, of...)
	}
	return cards
}

// Asked says whether the options ask for a GPU at all.
func (o *Options) Asked() bool {
	return o.GPUs != "" || o.GPUsPerNode != "" || o.GPUsPerTask != "" || len(gpuEntries(o.GRES)) > 0
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

// features are the cards that a constraint asks for. Of alternatives all have to be cards: a node with another
// feature may have any.
func (s *Site) features(constraint string, known func(string) bool) []string {
	var features []string
	for group := range strings.SplitSeq(constraint, "&") {
		var cards []string
		for alternative := range strings.SplitSeq(group, "|") {
			card := ""
			for _, word := range featureWords.FindAllString(alternative, maxFeatures) {
				if _, mapped := s.GPUs[word]; mapped || known(word) {
					card = word
				}
			}
			if card == "" {
				cards = nil
				break
			}
			cards = append(cards, card)
		}
		features = append(features, cards...)
	}
	return features
}

// featureWords are the names in an expression such as "[a100*2|v100]&nvlink".
var featureWords = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_.:-]*`)

const maxFeatures = 64

func (s *Site) cards(names []string) []string {
	var cards []string
	for _, name := range names {
		if mapped, ok := s.GPUs[name]; ok {
			cards = append(cards, mapped...)
		} else {
			cards = append(cards, sliceName(name))
		}
	}
	return cards
}

// gpuTypes finds the types in a value of --gres ("gpu:a100:2,shard:1") or --gpus ("a100:2").
func gpuTypes(option string) []string {
	var types []string
	for _, entry := range gpuEntries(option) {
		if kind := entry[0]; kind != "" {
			types = append(types, kind)
		}
	}
	return types
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

// migSuffix is a slice of a card as Slurm's types name it: a100_1g.5gb.
var migSuffix = regexp.MustCompile(`^(.+?)[_-]([1-7]g\.[0-9]+gb)$`)

// sliceName puts the name of a slice into the catalog's form.
func sliceName(name string) string {
	m := migSuffix.FindStringSubmatch(name)
	if m == nil || strings.HasSuffix(strings.ToLower(m[1]), "mig") {
		return name
	}
	return m[1] + "-mig-" + m[2]
}
