package submission

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// directory is where a command leads the commands after it; ok is false for other commands
// than cd. An unknown directory is empty.
func (c command) directory(s Source) (dir string, ok bool) {
	if len(c.words) == 0 || c.words[0].text != "cd" && c.words[0].text != "pushd" {
		return "", false
	}
	if len(c.words) != 2 || !c.words[1].known || s.Dir == "" {
		return "", true
	}
	return s.path(c.words[1].text), true
}

// job reads a command that trains: it names a Python program, and that one is nanoGPT's or
// takes the Trainer's arguments.
func (c command) job(s Source) (job map[string]any, from string, err error) {
	at := -1
	for i, w := range c.words {
		if w.known && strings.HasSuffix(w.text, ".py") && !strings.HasPrefix(w.text, "-") {
			at = i
			break
		}
	}
	if at < 0 {
		return nil, "", ErrNoJob
	}
	p := program{source: s, name: c.words[at].text, args: c.words[at+1:], processes: processes(c.words[:at], s.Options)}
	job, from, err = p.nanoGPT()
	if errors.Is(err, ErrNoJob) {
		job, from, err = p.trainer()
	}
	if err == nil && p.processes > 1 {
		job["training"].(map[string]any)["distributed"] = map[string]any{"world_size": p.processes, "data": "ddp"}
	}
	return job, from, err
}

// program is a Python program that a script starts.
type program struct {
	source    Source
	name      string
	args      []word
	processes int
}

// read gives the text of a file that the program would read; nil where there is none.
func (p program) read(name string) ([]byte, error) {
	if p.source.Dir == "" && !filepath.IsAbs(name) {
		return nil, unclear("nobody knows in which directory %s lies", clip(name))
	}
	text, err := p.source.ReadFile(p.source.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unclear("%s cannot be read: %v", clip(name), err)
	}
	return text, nil
}

// processes is how many the launcher in front of the program starts; 1 where it starts only one. A
// number that cannot be told is taken for 2: what matters is that there are several.
func processes(launcher []word, o Options) int {
	several := false
	for i, w := range launcher {
		name, value, given := strings.Cut(strings.ReplaceAll(w.text, "_", "-"), "=")
		switch name {
		case "--nproc-per-node", "--num-processes", "--num-gpus":
			if !given && i+1 < len(launcher) {
				value = launcher[i+1].text
			}
			if n, err := strconv.Atoi(value); err == nil && n >= 1 && n <= 1<<20 {
				return n
			}
			several = true // "gpu", "auto" or a variable
		case "deepspeed", "accelerate": // all GPUs, or what a file in the home directory says
			several = true
		}
	}
	if several && o.Count() != 1 {
		return 2
	}
	return 1
}
