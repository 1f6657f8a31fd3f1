// Command accuracy holds the estimator against reference cases: training steps of real
// PyTorch whose allocations were traced. It prints a table and fails when a case leaves its band.
//
//	go run ./estimator/accuracy [-worst 10] [-markdown] [-fit] [-calibrate] [-ranks] [-kinds] [cases.jsonl …]
//
// Where files are named, it prints their table and nothing else.
// -markdown writes the page docs/lab/accuracy.md instead; -fit holds the bounds against published runs, -calibrate a
// calibration that is fitted to them.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/vramplan/vramplan/estimator/model"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	worst := flags.Int("worst", 10, "list this many of the worst cases")
	markdown := flags.Bool("markdown", false, "write docs/lab/accuracy.md")
	fit := flags.Bool("fit", false, "print what the published runs say of each doubt behind low_bytes and high_bytes, "+
		"and nothing else")
	onlyRanks := flags.Bool("ranks", false, "print the traced ranks and the published runs of jobs on several GPUs, "+
		"and nothing else")
	onlyKinds := flags.Bool("kinds", false, "print the traced runs of other kinds of training, and nothing else")
	calibrate := flags.Bool("calibrate", false, "print what a calibration fitted to the published runs is worth on "+
		"those that it did not see, and nothing else")
	wanted := flags.Bool("to-record", false, "list the models of the cases for recorder/families.py, and nothing else")
	recordings := flags.String("recordings", "", "hold the recordings in this folder, made by recorder/families.py, "+
		"against the families that were described by hand, and nothing else")
	compiled := flags.Bool("compiled", false, "with -to-record and -recordings: the jobs under torch.compile, and them "+
		"alone, against their traces")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	files := flags.Args()
	if len(files) == 0 {
		files, _ = filepath.Glob("estimator/accuracy/testdata/*.jsonl") // the pattern is well formed
		if *wanted || *recordings != "" {
			today, _ := filepath.Glob("estimator/accuracy/testdata/today/*.jsonl")
			files = append(files, today...)
			if *compiled {
				files = append(files, "estimator/testdata/compiled.jsonl")
			}
		}
	}
	cases, err := Read(files...)
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	if *wanted {
		if err := writeWanted(stdout, cases, *compiled); err != nil {
			fmt.Fprintln(stderr, "accuracy:", err)
			return 2
		}
		return 0
	}
	if *recordings != "" {
		recorded, err := compareRecorded(*recordings, cases, *compiled)
		if err != nil {
			fmt.Fprintln(stderr, "accuracy:", err)
			return 2
		}
		recorded.Print(stdout)
		return promised(stderr, recorded.Broken())
	}
	if flags.NArg() > 0 {
		report := Score(cases)
		report.Print(stdout, false, *worst)
		return promised(stderr, report.Broken())
	}
	ranks, err := readRanks(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	if *onlyRanks {
		several, err := readSeveral(".")
		if err != nil {
			fmt.Fprintln(stderr, "accuracy:", err)
			return 2
		}
		ranks.Print(stdout)
		several.Print(stdout)
		several.PrintRefusals(stdout)
		return promised(stderr, append(ranks.Broken(), several.Broken()...))
	}
	kinds, err := readKinds(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	if *onlyKinds {
		kinds.Print(stdout)
		return promised(stderr, kinds.Broken())
	}
	published, err := readPublished(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	if *calibrate {
		calibrated, err := readCalibrated(".")
		if err != nil {
			fmt.Fprintln(stderr, "accuracy:", err)
			return 2
		}
		calibrated.Print(stdout)
		return 0
	}
	if *fit {
		published.PrintFit(stdout)
		return 0
	}
	several, err := readSeveral(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	undescribed, err := readUndescribed(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	calibrated, err := readCalibrated(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	today, err := readToday(".")
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 2
	}
	report := Score(cases)
	if *markdown {
		report.Document(stdout, today, published, several, ranks, undescribed, calibrated, *worst)
	} else {
		report.Print(stdout, false, *worst)
		fmt.Fprintln(stdout)
		today.Print(stdout, false, *worst)
		fmt.Fprintln(stdout)
		report.PrintComponents(stdout)
		fmt.Fprintln(stdout)
		report.PrintRules(stdout)
		fmt.Fprintln(stdout)
		published.Print(stdout)
		fmt.Fprintln(stdout)
		several.Print(stdout)
		several.PrintRefusals(stdout)
		fmt.Fprintln(stdout)
		ranks.Print(stdout)
		fmt.Fprintln(stdout)
		undescribed.Print(stdout)
		fmt.Fprintln(stdout)
		kinds.Print(stdout)
		fmt.Fprintln(stdout)
		calibrated.Print(stdout)
	}
	broken := append(append(report.Broken(), today.Broken()...), undescribed.Broken()...)
	broken = append(append(broken, several.Broken()...), append(ranks.Broken(), kinds.Broken()...)...)
	return promised(stderr, append(append(broken, published.Broken()...), calibrated.Broken()...))
}

// promised is the exit code, after it has named the promises that are broken.
func promised(stderr io.Writer, broken []string) int {
	if len(broken) == 0 {
		return 0
	}
	fmt.Fprintf(stderr, "accuracy: %d promises broken\n", len(broken))
	for _, b := range broken {
		fmt.Fprintln(stderr, "  "+b)
	}
	return 1
}

// readCalibrated fits a calibration to the published runs; root is the repository.
func readCalibrated(root string) (*Calibrated, error) {
	list, presets, err := readMeasured(root)
	if err != nil {
		return nil, err
	}
	return Calibrate(list, presets)
}

// readPublished scores the published runs; root is the repository.
func readPublished(root string) (*Published, error) {
	list, presets, err := readMeasured(root)
	if err != nil {
		return nil, err
	}
	return ScorePublished(list, presets), nil
}

func readMeasured(root string) ([]Observation, map[string]*model.Preset, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/measured/*.jsonl"))
	return ReadObservations(files, filepath.Join(root, "migrations/data/models.json"))
}
