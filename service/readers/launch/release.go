package launch

import (
	"regexp"
	"strings"
)

// pinned are the lines of a requirements.txt that name one release.
var pinned = map[string]*regexp.Regexp{"torch": pin("torch"), "transformers": pin("transformers"), "trl": pin("trl")}

func pin(tool string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*["']?` + tool + `(?:\[[\w, -]*\])?\s*[=~]==?\s*([0-9]+(?:\.[0-9]+)+)`)
}

// Release is the release of a package that the user said (versions.trl), or that a requirements.txt beside the job
// pins; "" where nothing does.
func (l *Launch) Release(tool string) string {
	for _, said := range l.Files.Source.Set {
		if strings.TrimPrefix(said.Path, "training.") == "versions."+tool {
			return strings.Trim(said.Value, `"`)
		}
	}
	if _, text, err := l.Open("requirements.txt"); err == nil {
		if m := pinned[tool].FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	return ""
}
