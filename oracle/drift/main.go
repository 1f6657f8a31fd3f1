// Command drift says which rows of the table of releases the traces of a stack show, and what moved that no row says.
//
//	go run ./oracle/drift -library transformers -stack "transformers 5.0.0" traces.jsonl
//
// The file is what oracle/trace.py --events wrote on the stack, of jobs that stand in oracle/corpus.ndjson. The rows
// that are asked about are those of one library whose change came between two traced stacks: of each, the replay is
// made with it and without it, and the trace says which is nearer. The answer is a JSON document, one of
// oracle/drift/result.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/vramplan/vramplan/estimator/release"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("drift", flag.ContinueOnError)
	flags.SetOutput(stderr)
	library := flags.String("library", "transformers", "whose rows are asked about")
	stack := flags.String("stack", "", "what the stack is called in the answer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	rows := between(release.Changes(), *library)
	if flags.NArg() != 1 || *stack == "" || len(rows) == 0 {
		fmt.Fprintln(stderr, "drift: one file of traces, its stack's name and a library with rows between stacks are needed")
		return 2
	}
	found, err := ask(flags.Arg(0), rows)
	if err != nil {
		fmt.Fprintln(stderr, "drift:", err)
		return 2
	}
	found.Stack = *stack
	out := json.NewEncoder(stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(found); err != nil {
		fmt.Fprintln(stderr, "drift:", err)
		return 2
	}
	return 0
}

// between are the rows of a library of which it is not known in which release they came.
func between(changes []release.Change, library string) []release.Switch {
	var rows []release.Switch
	for i := range changes {
		if c := &changes[i]; c.Library == library && c.After != "" && c.To == "" {
			rows = append(rows, c.Switch)
		}
	}
	return rows
}
