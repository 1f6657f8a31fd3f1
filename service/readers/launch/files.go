package launch

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// OpenProgram opens a program where the job runs, and beside the script that starts it: many scripts are started in
// their own directory, whatever directory was named.
func (l *Launch) OpenProgram(name string) (full string, text []byte, err error) {
	return l.Open(name, l.Beside(l.At))
}

// GPUs is the world, with what the user said.
func (l *Launch) GPUs() Count {
	if n := l.Files.Source.GPUs; n > 0 {
		return Count{N: n, Known: true,
			From: setting.Value{Any: n, Origin: setting.Origin{Kind: setting.Said, Key: "--gpus"}}}
	}
	return l.World()
}

// Fixed is a world that a setting gives.
func (l *Launch) Fixed(c Count) { l.Counted = func() Count { return c } }

// Base is the last part of a program's name.
func (l *Launch) Base() string { return path.Base(l.Program.Text) }

// LastName is the last part of the program's or the module's name, without its ending.
func (l *Launch) LastName() string {
	name := strings.TrimSuffix(path.Base(l.Program.Text), ".py")
	return name[strings.LastIndexByte(name, '.')+1:]
}

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
