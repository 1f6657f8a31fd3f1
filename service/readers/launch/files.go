package launch

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Beside is the folder of the file that a place is in, "" for where the job runs.
func (l *Launch) Beside(at setting.Span) string {
	if at.File == "" {
		return l.Dir
	}
	return path.Dir(l.Files.Full(at.File))
}

// LoadName opens and decodes a configuration by its name.
func (l *Launch) LoadName(name string, dirs ...string) (*setting.Settings, string, error) {
	full, text, err := l.Open(name, dirs...)
	if text == nil && err != nil {
		return nil, full, err
	}
	if err != nil {
		l.AsItLies(full, err)
	}
	s, decodeErr := l.Files.Settings(full, text)
	if decodeErr != nil {
		return nil, full, decodeErr
	}
	return s, full, nil
}

// AsItLies notes that a file is read although the script may change it before the program does.
func (l *Launch) AsItLies(full string, err error) {
	l.Notes = append(l.Notes, strings.ReplaceAll(err.Error(), full, l.Files.Shown(full))+
		": it is read as it lies there")
}
