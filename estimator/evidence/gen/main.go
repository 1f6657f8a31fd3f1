// Command gen writes the cells that traces prove, and docs/lab/evidence.md, from the traces of the repository.
//
//	go run ./estimator/evidence/gen -root .
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	m, err := read(root)
	if err != nil {
		return err
	}
	for path, text := range m.files() {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
