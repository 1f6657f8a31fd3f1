// Command gen derives the built-in catalog from the collected data and writes it
// twice: as JSON for use without a database, and as SQL that seeds one.
//
//	go run ./migrations/gen
package main

import (
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
	files, err := generate(filepath.Join(root, "data"))
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

// dialects are the folders that get seeds; the same SQL does for all of them.
var dialects = []string{"sqlite", "postgres"}

// generate returns every generated file by its path below the migrations folder.
func generate(data string) (map[string][]byte, error) {
	gpus, err := deriveGPUs(data)
	if err != nil {
		return nil, fmt.Errorf("derive the GPU catalog: %w", err)
	}
	models, err := deriveModels(data)
	if err != nil {
		return nil, fmt.Errorf("derive the model catalog: %w", err)
	}
	if err := revise(models, filepath.Join(data, "..", dialects[0]), releasedModelSeeds); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, t := range []struct {
		name, seed, revision string
		rows                 []row
	}{
		{"gpus", gpuSeed, gpuRevision, gpus},
		{"models", modelSeed, modelRevision, models},
	} {
		if files["catalog/"+t.name+".json"], err = snapshot(t.rows); err != nil {
			return nil, err
		}
		for _, dialect := range dialects {
			files[dialect+"/"+t.seed] = seed(t.name, t.rows, t.revision)
		}
	}
	return files, nil
}
