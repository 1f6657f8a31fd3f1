// Package source opens what is handed over to be read: files by the names that scripts and configurations give them,
// once each and within limits.
package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// Limits of one reading. Real chains have four files of some kilobytes.
const (
	// MaxFiles is the most files that are opened.
	MaxFiles = 32
	// MaxTotalBytes is the most that is read of all files together.
	MaxTotalBytes = 4 << 20
	maxScripts    = 16 // scripts that are looked through for the one that starts a configuration
	MaxJobs       = 64
)

// Source is what there is to read.
type Source struct {
	// Files are the names of those that were handed over: batch scripts, configurations. Relative names begin in Dir.
	Files []string
	// Scripts says that the files are batch scripts, whatever they are called.
	Scripts bool
	// Dir is where relative names begin, and where the job is started.
	Dir string
	// Command is a command line, word by word, that starts the job.
	Command []string
	// Line is a command line as a shell takes it, in place of Command.
	Line string
	// ReadFile opens a file; without it there is nothing but the command line. A file that is not there is an error
	// that is fs.ErrNotExist.
	ReadFile func(name string) ([]byte, error)
	// List names the files of a directory; it may be nil. Scripts that start a configuration are looked for with it.
	List func(dir string) []string
	// GPUs is on how many GPUs the job runs, where the user said so.
	GPUs int64
	// Set are fields of the document that the user said: path in the document (training.sequence_length), value.
	Set []Said
	// Ignore are words that the user said do not change what the job takes.
	Ignore []string
	// HasModel reports whether the catalog has a model; nil knows none, and asks about none.
	HasModel func(name string) bool
	// Programs are the training programs that are known by what they consist of; nil for those of this package.
	Programs Programs
	// ModelType is model_type of a model of the catalog; nil knows of none, and "" is one that has no such word.
	ModelType func(name string) string
	// Configuration is the config.json of a model that the catalog does not have, and where it is from; nil, and no
	// configuration, where nobody knows.
	Configuration func(name string) (config json.RawMessage, from string)
	// Pictures says how a model of the catalog is trained with pictures; nil knows of none.
	Pictures func(name string) Pictures
	// Lookup gives variables of the environment that the job gets with it; nil where nobody knows them.
	Lookup func(name string) (string, bool)
	// Cards are the cards that Slurm may give for some of its words; nil, and no cards, where nobody knows.
	Cards func(slurm.Options) []string
	// HasGPU reports whether the catalog has a card; nil takes every name.
	HasGPU func(name string) bool
}

// Said is one field that the user gave: a path with points, and a value that may be JSON.
type Said struct{ Path, Value string }

// Files opens the files of a source, once each and within the limits.
type Files struct {
	Source Source
	Texts  map[string][]byte
	total  int
	opened []string
	// Mounts are files of a container that stand in another one, by their names in it.
	Mounts map[string]string
	// made is what was made of files once, for all commands.
	made map[any]any
}

// New is a source of which nothing has been opened.
func New(s Source) *Files {
	return &Files{Source: s, Texts: map[string][]byte{}, made: map[any]any{}}
}

// DisplacedFiles are files that were read in the place of others of the same last name, which are not there.
type DisplacedFiles [][2]string

// Add notes that a file was read in the place of another one.
func (d *DisplacedFiles) Add(name, found string) {
	if pair := [2]string{name, found}; len(*d) < MaxFiles && !slices.Contains(*d, pair) {
		*d = append(*d, pair)
	}
}

// Missing is the error of a file that is not there, by the name that the user wrote.
type Missing string

func (m Missing) Error() string { return string(m) + " is not there" }

// Is makes it fs.ErrNotExist.
func (m Missing) Is(target error) bool { return target == fs.ErrNotExist }

var errTooMuch = errors.New("more files, or larger ones, than are read")

// Read opens a file by its full name.
func (f *Files) Read(name string) ([]byte, error) {
	if text, ok := f.Texts[name]; ok {
		if text == nil {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return text, nil
	}
	if f.Source.ReadFile == nil {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if len(f.opened) >= MaxFiles {
		return nil, errTooMuch
	}
	text, err := f.Source.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Texts[name] = nil
		return nil, err
	case err != nil:
		return nil, err
	case len(text) > decode.MaxBytes || f.total+len(text) > MaxTotalBytes:
		return nil, errTooMuch
	}
	if text == nil {
		text = []byte{}
	}
	f.total += len(text)
	f.Texts[name] = text
	f.opened = append(f.opened, name)
	return text, nil
}

// Find looks for a file that a script or a configuration names: where it says, then beside the file that names it, then
// by its last name there and where the job starts. People hand over files without the tree around them.
func (f *Files) Find(name string, dirs ...string) (full string, text []byte, ok bool) {
	for _, candidate := range f.Candidates(name, dirs) {
		if text, err := f.Read(candidate); err == nil {
			return candidate, text, true
		}
	}
	return "", nil, false
}

// Candidates are the names under which a file may lie.
func (f *Files) Candidates(name string, dirs []string) []string {
	if name == "" || strings.ContainsAny(name, "\x00\n") {
		return nil
	}
	var out []string
	add := func(s string) {
		for _, o := range out {
			if o == s {
				return
			}
		}
		out = append(out, s)
	}
	dirs = append(dirs, f.Source.Dir)
	for _, last := range []bool{false, true} {
		n := name
		if last {
			n = path.Base(name)
		}
		if path.IsAbs(n) {
			add(path.Clean(n))
			continue
		}
		for _, d := range dirs {
			if d != "" || !path.IsAbs(n) {
				add(path.Join(d, n))
			}
		}
	}
	for _, given := range f.Source.Files {
		if path.Base(given) == path.Base(name) {
			add(f.Full(given))
		}
	}
	return out
}

// Full is the name under which a handed-over file is opened.
func (f *Files) Full(name string) string {
	if path.IsAbs(name) || f.Source.Dir == "" {
		return path.Clean(name)
	}
	return path.Join(f.Source.Dir, name)
}

// Shown is a file's name as the user would write it.
func (f *Files) Shown(name string) string {
	if within, ok := f.Mounts[name]; ok {
		return within
	}
	if dir := f.Source.Dir; dir != "" && dir != "." {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/"); ok {
			return rest
		}
	}
	return name
}

// Mount lays a text of another file under a name of its own.
func (f *Files) Mount(name, within string, text []byte) {
	if _, ok := f.Texts[name]; ok || f.total+len(text) > MaxTotalBytes {
		return
	}
	if f.Mounts == nil {
		f.Mounts = map[string]string{}
	}
	f.Mounts[name], f.Texts[name] = within, text
	f.total += len(text)
}

// Unmount takes all mounted texts away.
func (f *Files) Unmount() {
	for name := range f.Mounts {
		f.total -= len(f.Texts[name])
		delete(f.Texts, name)
	}
	f.Mounts = nil
}

// Scripts are the batch scripts in the directories around a file.
func (f *Files) Scripts(around string) []string {
	if f.Source.List == nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, dir := range []string{path.Dir(around), f.Source.Dir} {
		if dir == "" || seen[dir] {
			continue
		}
		seen[dir] = true
		names := f.Source.List(dir)
		sort.Strings(names)
		for _, n := range names {
			if IsScriptName(n) && len(out) < maxScripts {
				out = append(out, path.Join(dir, n))
			}
		}
	}
	return out
}

// IsScriptName reports whether a name is that of a batch script.
func IsScriptName(name string) bool {
	switch path.Ext(name) {
	case ".sh", ".slurm", ".sbatch", ".bash", ".job", ".pbs", ".lsf", ".sub":
		return true
	}
	return false
}

// Shadowed reports whether a name on the Hub is a directory where the job starts.
func (f *Files) Shadowed(name string) bool {
	if name == "" || f.Source.Dir == "" || strings.HasPrefix(name, "/") || f.Source.ReadFile == nil {
		return false
	}
	_, err := f.Source.ReadFile(filepath.Join(f.Source.Dir, filepath.FromSlash(name), "config.json"))
	return err == nil
}

// Programs are training programs that are known by what they consist of: the fingerprints of their releases, by name.
type Programs map[string]map[string]bool
