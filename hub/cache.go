package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CacheDir is where huggingface_hub keeps what it downloads (huggingface_hub/constants.py): HF_HUB_CACHE, or hub below
// HF_HOME, or below .cache/huggingface of the home directory. It is empty where the environment does not say.
func CacheDir(lookup func(string) (string, bool)) string {
	for _, place := range []struct {
		variable string
		below    []string
	}{{"HF_HUB_CACHE", nil}, {"HUGGINGFACE_HUB_CACHE", nil}, {"HF_HOME", []string{"hub"}},
		{"XDG_CACHE_HOME", []string{"huggingface", "hub"}}, {"HOME", []string{".cache", "huggingface", "hub"}},
		{"USERPROFILE", []string{".cache", "huggingface", "hub"}}} {
		if dir, ok := lookup(place.variable); ok && dir != "" {
			home, _ := lookup("HOME")
			if rest, is := strings.CutPrefix(dir, "~/"); is && home != "" {
				dir = filepath.Join(home, rest)
			}
			return filepath.Join(append([]string{dir}, place.below...)...)
		}
	}
	return ""
}

// Cached finds the configuration in a cache, as from_pretrained would without a network: refs/REVISION names the
// commit, snapshots/COMMIT has its files. The error is fs.ErrNotExist where the cache has nothing of that model.
func Cached(dir string, n Name) (*Config, error) {
	if dir == "" {
		return nil, fmt.Errorf("no cache: %w", fs.ErrNotExist)
	}
	repo := filepath.Join(dir, "models--"+strings.ReplaceAll(n.Repo, "/", "--"))
	id := n.Revision
	if !commit.MatchString(id) {
		text, err := readBounded(filepath.Join(repo, "refs", filepath.FromSlash(n.Revision)), maxNoteBytes)
		if err != nil {
			return nil, err
		}
		id = strings.TrimSpace(string(text))
		if !commit.MatchString(id) {
			return nil, fmt.Errorf("refs/%s in %s names no commit: %.60q", n.Revision, repo, id)
		}
	}
	file := filepath.Join(repo, "snapshots", id, "config.json")
	text, err := readBounded(file, maxConfigBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && is(filepath.Join(repo, "snapshots", id, "adapter_config.json")):
		return nil, fmt.Errorf("%s has adapters and no config.json: name the model that they were trained on, and their "+
			"rank (--lora-rank)", filepath.Dir(file))
	case err != nil:
		return nil, err
	}
	return &Config{Text: text, From: fmt.Sprintf("%s in the local Hugging Face cache", file)}, nil
}

func is(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// readBounded reads a regular file of at most so many bytes.
func readBounded(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened: opening a pipe may never return
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = tooLong(name)
	}
	return text, err
}
