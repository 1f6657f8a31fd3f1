package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

type manCommand struct {
	Directory string `placeholder:"DIR" help:"Write a page for the program and one for each command into this directory; all of them are printed if not given."`
}

// Run writes manual pages, of the same words as --help.
func (c *manCommand) Run(t *terminal, app *kong.Kong) error {
	pages := append([]*kong.Node{app.Model.Node}, app.Model.Leaves(true)...)
	if c.Directory == "" {
		out := bufio.NewWriter(t.stdout)
		for _, node := range pages {
			writeManual(out, app.Model, node)
		}
		return out.Flush()
	}
	if err := os.MkdirAll(c.Directory, 0o755); err != nil {
		return err
	}
	for _, node := range pages {
		if err := manualFile(filepath.Join(c.Directory, manualName(node)+".1"), app.Model, node); err != nil {
			return err
		}
	}
	return nil
}

func manualFile(path string, app *kong.Application, node *kong.Node) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	writeManual(out, app, node)
	return out.Flush()
}

// manualName is the page of a command: vramplan-keys-create.
func manualName(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return manualName(node.Parent) + "-" + node.Name
}

// writeManual writes one page in the macros of man(7). What goes wrong is the writer's to keep.
func writeManual(w io.Writer, app *kong.Application, node *kong.Node) {
	name := manualName(node)
	help := node.Help
	if node.Parent == nil {
		help, _, _ = strings.Cut(app.Help, "\n")
	}
	fmt.Fprintf(w, ".TH %s 1 \"\" \"vramplan\" \"User Commands\"\n", roff(strings.ToUpper(name)))
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.TrimSuffix(help, ".")))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(node.FullPath()))
	if node.Parent == nil {
		fmt.Fprint(w, ".I command\n")
	}
	fmt.Fprint(w, "[\\fIflags\\fR]\n")
	for _, argument := range node.Positional {
		fmt.Fprintf(w, "[\\fI%s\\fR]\n", roff(argument.Name))
	}
	if node.Parent == nil {
		_, more, _ := strings.Cut(app.Help, "\n")
		fmt.Fprintf(w, ".SH DESCRIPTION\n%s\n.SH COMMANDS\n", roff(strings.TrimSpace(more)))
		for _, leaf := range app.Leaves(true) {
			fmt.Fprintf(w, ".TP\n.BR %s (1)\n%s\n", roff(manualName(leaf)), roff(leaf.Help))
		}
	}
	fmt.Fprint(w, ".SH OPTIONS\n")
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			words := f.Help
			if setting := f.Tag.Get("setting"); setting != "" {
				words = strings.TrimSuffix(words, ".") + " ($" + setting + ")."
			}
			if f.Enum != "" {
				words += " One of " + strings.ReplaceAll(f.Enum, ",", ", ") + "."
			}
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(f.String()), roff(words))
		}
	}
	if manualName(node) == "vramplan-check" {
		fmt.Fprint(w, ".SH EXIT STATUS\n0 the job fits, 1 it does not, 2 bad input, 3 no answer, 4 it is tight (with "+
			"\\-\\-strict).\n")
	}
}

// roff is text that the formatter takes as it is.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = "\\&" + line
		}
	}
	return strings.Join(lines, "\n")
}
