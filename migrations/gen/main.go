// Command gen derives the built-in catalog from the collected data, and numbers its editions.
//
//	go run ./migrations/gen
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "migrations", "the migrations folder")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	lacks, err := lacking(filepath.Join(root, "data"))
	if err != nil {
		return err
	}
	for _, l := range lacks {
		fmt.Fprintln(os.Stderr, l)
	}
	if len(lacks) > 0 {
		return errors.New("the rows above are not whole: nothing was written")
	}
	files, err := generate(filepath.Join(root, "data"), embedded())
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return fmt.Errorf("write a generated file: %w", err)
		}
	}
	return nil
}

// generate returns every generated file by its path below the migrations folder.
func generate(data string, before *edition) (map[string][]byte, error) {
	gpus, err := deriveGPUs(data)
	if err != nil {
		return nil, fmt.Errorf("derive the GPU catalog: %w", err)
	}
	models, err := deriveModels(data)
	if err != nil {
		return nil, fmt.Errorf("derive the model catalog: %w", err)
	}
	e, err := before.next(gpus, models)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"catalog/gpus.json": e.gpus, "catalog/models.json": e.models, "edition.go": e.source()}, nil
}
