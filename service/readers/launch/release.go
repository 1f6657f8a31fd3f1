package launch

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// pinned finds the line or the element of a list that names one release of a package: transformers==4.36.2 in a
// requirements.txt, "transformers==4.36.2" in a pyproject.toml or a setup.py, - pip packages of an environment.yml.
func pinned(tool string) *regexp.Regexp {
	return regexp.MustCompile(`(?im)^[^#\n]*?(?:^|["'\s\[,])` + strings.ReplaceAll(regexp.QuoteMeta(tool), "-", "[-_]") +
		`(?:\[[\w, -]*\])?\s*[=~]==?\s*["']?([0-9]+(?:\.[0-9]+)+)`)
}

// pins are the files beside a job that pin its packages, in the order in which they count.
var pins = []string{"requirements.txt", "requirements-train.txt", "requirements/train.txt", "requirements/base.txt",
	"pyproject.toml", "setup.py", "setup.cfg", "environment.yml", "environment.yaml"}

// Release is the release of a package that the user said (versions.trl), or that a file beside the job pins; "" where
// nothing does.
func (l *Launch) Release(tool string) string {
	for _, said := range l.Files.Source.Set {
		if strings.TrimPrefix(said.Path, "training.") == "versions."+tool {
			return strings.Trim(said.Value, `"`)
		}
	}
	return l.Pinned(tool).Text
}

// Pinned is the release of a package that a file beside the job pins; its text is "" where none does.
func (l *Launch) Pinned(tool string) setting.Value {
	find := pinned(tool)
	for _, name := range pins {
		full, text, err := l.Open(name, l.Beside(l.At))
		if err != nil {
			continue
		}
		if m := find.FindSubmatchIndex(text); m != nil {
			found := string(text[m[2]:m[3]])
			return setting.Value{Any: found, Text: found, Origin: setting.Origin{Kind: setting.File, Key: tool,
				At: setting.Span{File: l.Files.Shown(full), Start: m[2], End: m[3],
					Line: 1 + bytes.Count(text[:m[2]], []byte("\n"))}}}
		}
	}
	return setting.Value{}
}
