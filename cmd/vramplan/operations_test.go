package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every setting of serve is in the table of docs/operations.md with its variable
// and its default, and nothing else is; the variables of the other commands are
// named somewhere in docs.
func TestEverySettingIsDocumented(t *testing.T) {
	text := docs(t, "../../docs/operations.md")
	all := text + docs(t, "../../docs/api.md") + docs(t, "../../docs/command-line.md") + docs(t, "../../docs/hooks.md")
	table := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\| `?([^|`]*?)`? \\|").FindAllStringSubmatch(text, -1) {
		if table[row[1]] != nil {
			t.Errorf("--%s is there twice", row[1])
		}
		table[row[1]] = row[2:]
	}
	var cli commands
	parser, err := kong.New(&cli, options(newTerminal(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, nil),
		func(int) {})...)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			setting := flag.Tag.Get("setting")
			if setting == "" {
				continue
			}
			if command.Name != "serve" {
				if !strings.Contains(all, setting) {
					t.Errorf("%s of vramplan %s is not documented", setting, command.Name)
				}
				continue
			}
			row := table[flag.Name]
			delete(table, flag.Name)
			if row == nil || row[0] != setting {
				t.Errorf("--%s (%s) has the row %q", flag.Name, setting, row)
				continue
			}
			if got := row[1]; got != flag.Default && !(flag.Default == "" && (got == "off" || got == "none")) {
				t.Errorf("--%s has the default %q, documented is %q", flag.Name, flag.Default, got)
			}
		}
	}
	for flag := range table {
		t.Errorf("--%s is documented and not there", flag)
	}
}

func docs(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
