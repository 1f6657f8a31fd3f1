package launch

import (
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Alone is the launch of a file that was handed over without a command.
func Alone(f *source.Files) *Launch {
	return &Launch{Command: Command{
		Files: f, Dir: f.Source.Dir, Env: func(string) (argv.Word, bool) { return argv.Word{}, false },
		Open: func(name string, dirs ...string) (string, []byte, error) {
			full, text, ok := f.Find(name, dirs...)
			if !ok {
				return "", nil, source.Missing(name)
			}
			return full, text, nil
		},
	}, Own: setting.New()}
}
