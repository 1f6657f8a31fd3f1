// Command gen writes openapi/openapi.json from the annotations of the handlers.
//
//	go run ./openapi/gen            # the document, from annotations and recorded answers
//	go run ./openapi/gen -examples  # records the answers of the examples anew first
//
// swag reads annotations and Go types and writes OpenAPI 2.0; kin-openapi turns
// that into 3.0; the overlay in this package adds what neither can know: short
// forms, which fields are always there, problems, examples, unversioned paths,
// and what makes it 3.1. None of this is linked into the program.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	record := flag.Bool("examples", false, "record the answers of the examples anew")
	root := flag.String("root", "", "the repository; found from the working directory if not given")
	flag.Parse()
	if err := run(*root, *record); err != nil {
		fmt.Fprintln(os.Stderr, "openapi/gen:", err)
		os.Exit(1)
	}
}

func run(root string, record bool) error {
	if root == "" {
		var err error
		if root, err = repository(); err != nil {
			return err
		}
	}
	if record {
		if err := recordExamples(filepath.Join(root, "openapi", "gen", "examples.json")); err != nil {
			return err
		}
	}
	document, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "openapi", "openapi.json"), document, 0o644)
}

// repository is the nearest folder with a go.mod, from the working directory up.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("no go.mod in the working directory or above it")
		}
		at = up
	}
}

// generate makes the document.
func generate(root string) ([]byte, error) {
	doc, err := annotated(root)
	if err != nil {
		return nil, err
	}
	examples, err := readExamples(filepath.Join(root, "openapi", "gen", "examples.json"))
	if err != nil {
		return nil, err
	}
	if err := overlay(doc, examples); err != nil {
		return nil, err
	}
	return doc.encode()
}
