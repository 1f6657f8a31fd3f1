// Command adapters holds the parameters that adapters train against what peft counted.
//
//	go run ./estimator/adapters [-all] counted.jsonl …
//
// The files are what oracle/adapters.py writes: jobs with what peft trains of them, or what it says where it stops.
// Jobs that are refused here and not there are counted, and listed with -all; they are no failure, since what is not
// modelled is refused.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("adapters", flag.ContinueOnError)
	flags.SetOutput(stderr)
	all := flags.Bool("all", false, "list the jobs that are refused here and not by peft, too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "adapters: no files of counted jobs")
		return 2
	}
	var counts tally
	for _, path := range flags.Args() {
		err := tracefile.EachLine(path, func(line []byte) error {
			var c counted
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			if c.ID == "" || c.Trained == nil && c.Refused == "" {
				return fmt.Errorf("%q is not counted", c.ID)
			}
			if found := counts.add(&c); found != "" && (*all || found[0] == unequal) {
				fmt.Fprintf(stdout, "%s: %s\n", c.ID, found[1:])
			}
			return nil
		})
		if err != nil {
			fmt.Fprintln(stderr, "adapters:", err)
			return 2
		}
	}
	fmt.Fprintf(stdout, "%d jobs: %d equal, %d refused by both, %d refused here, %d unequal\n",
		counts.equal+counts.both+counts.here+counts.unequal, counts.equal, counts.both, counts.here, counts.unequal)
	if counts.unequal > 0 {
		return 1
	}
	return 0
}

// counted is a job with adapters of which peft has counted what is trained, or said why it stops.
type counted struct {
	ID      string        `json:"id"`
	Job     estimator.Job `json:"job"`
	Trained *int64        `json:"trained"`
	Refused string        `json:"refused"`
}

// tally counts what became of the jobs.
type tally struct{ equal, both, here, unequal int }

// What begins a line that add says.
const unequal, refused = '!', '-'

// add counts a job. It says what is to be told of it, behind one of the two signs; nothing of one that is as peft has
// it.
func (t *tally) add(c *counted) string {
	res, err := estimator.Estimate(estimator.Input{Job: c.Job})
	switch {
	case err != nil && c.Trained == nil:
		t.both++
	case err != nil:
		t.here++
		return fmt.Sprintf("%cpeft trains %d, refused here: %v", refused, *c.Trained, err)
	case c.Trained == nil:
		t.unequal++
		return fmt.Sprintf("%c%d are trained here, peft stops: %s", unequal, res.Model.TrainableParameters, c.Refused)
	case res.Model.TrainableParameters != *c.Trained:
		t.unequal++
		return fmt.Sprintf("%c%d are trained here, peft trains %d", unequal, res.Model.TrainableParameters, *c.Trained)
	default:
		t.equal++
	}
	return ""
}
