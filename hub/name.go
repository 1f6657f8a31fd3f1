// Package hub finds the configuration of a model by its name on the Hugging Face Hub: in the local cache, where
// huggingface_hub keeps what was downloaded, and on a Hub, where somebody asks for that. It reads config.json and
// nothing else, and writes nothing.
package hub

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Name is a model's name on the Hub, with the revision that is meant.
type Name struct {
	// Repo is "organisation/model", or "model" alone for the oldest ones.
	Repo string
	// Revision is a branch, a tag or a commit; "main" where none is given.
	Revision string
}

// String writes a name as ParseName reads it.
func (n Name) String() string {
	if n.Revision == mainRevision {
		return n.Repo
	}
	return n.Repo + "@" + n.Revision
}

const mainRevision = "main"

// What huggingface_hub takes (utils/_validators.py, validate_repo_id): letters, digits and -_. in each part, no two
// dashes or points in a row, none of them at an end, 96 characters.
var (
	repoPart = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/+-]*[A-Za-z0-9])?$`)
	commit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ParseName reads "organisation/model" or "organisation/model@revision"; ok is false where nothing on the Hub can be
// called so.
func ParseName(text string) (n Name, ok bool) {
	repo, rev, given := strings.Cut(text, "@")
	if !given {
		rev = mainRevision
	}
	parts := strings.Split(repo, "/")
	if len(repo) > 96 || len(parts) > 2 || len(rev) > 96 || !revision.MatchString(rev) || strings.Contains(rev, "..") ||
		strings.Contains(rev, "//") {
		return Name{}, false
	}
	for _, part := range parts {
		if !repoPart.MatchString(part) || strings.Contains(part, "--") || strings.Contains(part, "..") ||
			strings.HasSuffix(part, ".git") {
			return Name{}, false
		}
	}
	return Name{Repo: repo, Revision: rev}, true
}

// Config is a model's configuration, and where it is from.
type Config struct {
	// Text is the file as it is.
	Text json.RawMessage
	// From says in words where it was found.
	From string
}

// maxConfigBytes is what is read of a config.json: as much as a job document may have. The longest of some thousand
// published ones, with 21,843 labels of pictures, have 0.9 MB.
const maxConfigBytes = 1 << 20

// maxNoteBytes is what is read of a file that names a commit.
const maxNoteBytes = 256

// shortCommit is as many digits as people compare.
func shortCommit(c string) string { return c[:min(len(c), 12)] }

func tooLong(what string) error {
	return fmt.Errorf("%s has more than %d bytes, which no configuration has", what, maxConfigBytes)
}
