package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestPagesNameWhatIsThere: a file, a heading, a target of make, a test or a flag of vramplan that a page names is
// there. Pages outlive what they name, and a reader who looks for it in vain trusts the rest less.
func TestPagesNameWhatIsThere(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := pagesIn(t, root)
	if len(pages) < 12 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	flags, targets, tests := everyFlag(t), makeTargets(t, root), testNames(t, root)
	for name, text := range pages {
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(link[1], "://") {
				linkLeadsSomewhere(t, root, name, link[1], pages)
			}
		}
		for _, quoted := range code.FindAllStringSubmatch(text, -1) {
			if file := quoted[1]; file != "" {
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s names the file %s, which is not there", name, file)
				}
			}
		}
		for _, target := range makes.FindAllStringSubmatch(text, -1) {
			if !targets[target[1]] {
				t.Errorf("%s names make %s, which is no target", name, target[1])
			}
		}
		for _, run := range runs.FindAllStringSubmatch(text, -1) {
			if !anyMatches(t, name, run[2], tests) {
				t.Errorf("%s names the test %s, which matches none", name, run[2])
			}
		}
		for _, command := range commandLines.FindAllString(text, -1) {
			command, _, _ = strings.Cut(command, " | ")
			command, _, _ = strings.Cut(command, " -- ") // the words of another program
			for _, flag := range flagWords.FindAllStringSubmatch(command, -1) {
				if !flags[flag[1]] {
					t.Errorf("%s names --%s in %q, which is no flag of vramplan", name, flag[1], command)
				}
			}
		}
	}
}

var (
	links = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// A file of the repository in code is named by its path, from a folder at the top on.
	code = regexp.MustCompile("`((?:api|clients|cmd|deploy|docs|estimator|hooks|migrations|openapi|oracle|recorder|" +
		"reliability|service)/[A-Za-z0-9_./-]*\\.[a-z]+)`")
	// A target stands in code, alone or behind an indentation.
	makes = regexp.MustCompile("(?m)(?:`|^ {4,})make ([a-z][a-z-]*)")
	runs  = regexp.MustCompile(`go test (\./\S+) (?:-[a-z]+ )*-(?:run|bench) '?([A-Za-z][A-Za-z0-9_]*)`)
	// A call of vramplan is a line of it, or the rest of the code that it stands in.
	commandLines = regexp.MustCompile("(?m)(?:`|^(?:\\$ )?(?:bin/)?|[|] )vramplan [a-z]+ [^`\n\\\\]*(?:\\\\\n[^`\n]*)*")
	flagWords    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	headings     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// pagesIn are the pages of the repository by their paths in it.
func pagesIn(t *testing.T, root string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || d.Name() == "node_modules" ||
			strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		pages[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// linkLeadsSomewhere holds a link of a page against the file and the heading that it names.
func linkLeadsSomewhere(t *testing.T, root, page, link string, pages map[string]string) {
	t.Helper()
	path, anchor, _ := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			t.Errorf("%s links to %s, which is not there", page, link)
			return
		}
	}
	if anchor == "" {
		return
	}
	for _, heading := range headings.FindAllStringSubmatch(pages[target], -1) {
		plain := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading[1])), "")
		if strings.ReplaceAll(plain, " ", "-") == anchor {
			return
		}
	}
	t.Errorf("%s links to %s, and %s has no such heading", page, link, target)
}

// everyFlag are the flags of all commands.
func everyFlag(t *testing.T) map[string]bool {
	t.Helper()
	var cli commands
	silent := newTerminal(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, nil)
	parser, err := kong.New(&cli, options(silent, func(int) {})...)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	var add func(*kong.Node)
	add = func(n *kong.Node) {
		for _, f := range n.Flags {
			flags[f.Name] = true
			for _, alias := range f.Aliases {
				flags[alias] = true
			}
			if f.Tag.Negatable != "" {
				flags["no-"+f.Name] = true
			}
		}
		for _, child := range n.Children {
			add(child)
		}
	}
	add(parser.Model.Node)
	return flags
}

// makeTargets are those of the Makefile.
func makeTargets(t *testing.T, root string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(text), -1) {
		targets[m[1]] = true
	}
	return targets
}

// testNames are the functions of all tests and benchmarks.
func testNames(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// anyMatches reports whether a pattern of -run or -bench finds a test.
func anyMatches(t *testing.T, page, pattern string, names []string) bool {
	t.Helper()
	if pattern == "XXX" {
		return true // asks for benchmarks alone
	}
	p, err := regexp.Compile(pattern)
	if err != nil {
		t.Errorf("%s: %v", page, err)
		return true
	}
	for _, name := range names {
		if p.MatchString(name) {
			return true
		}
	}
	return false
}
