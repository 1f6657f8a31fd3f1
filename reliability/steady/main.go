// Command steady runs random tests again and again, each time with another seed, and counts how often each fails:
//
//	go run ./reliability/steady [-runs 500] [-test REGEXP] [-time 10m] [-seed N] [-beside N] [-keep PAGE]
//		[-base REVISION] [FOLDER...]
//
// A run of a test is as many checks as "go test" gives it. The test on which least time was spent goes next, so that in
// a limited time the quick ones are asked most often and none is left out. Several runs of a quick test are made by one
// process, and what the test begins with once: rapid draws each check from a seed of its own all the same. It prints a
// table of tests, runs and failures, and each failure with the command that repeats it.
//
// -keep writes the table into a page, and adds to what a former call left there: a test that has run as often as is
// asked is left alone, and one that failed too, until its row is taken out of the page when its cause is mended.
//
// It ends with 1 where a test failed. With -base, a revision, only where the test does not fail there too when it draws
// the same: what a change did not bring does not hold it up, and is printed all the same.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vramplan/vramplan/reliability/steady/find"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, ".", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

// asked is what the command line asks for.
type asked struct {
	runs    int
	test    *regexp.Regexp
	time    time.Duration
	seed    uint64
	base    string
	beside  int
	keep    string
	folders []string
}

func parse(args []string, out io.Writer) (asked, error) {
	flags := flag.NewFlagSet("steady", flag.ContinueOnError)
	flags.SetOutput(out)
	var a asked
	flags.IntVar(&a.runs, "runs", 500, "how often each test runs")
	test := flags.String("test", "", "run the tests alone that match `regexp`")
	flags.DurationVar(&a.time, "time", 0, "begin no run after so long; 0 ends when all have run")
	flags.Uint64Var(&a.seed, "seed", 0, "where to begin; 0 draws a number, which is printed")
	flags.StringVar(&a.base, "base", "", "let pass what fails at this `revision` too")
	flags.IntVar(&a.beside, "beside", 1, "run so many tests beside each other")
	flags.StringVar(&a.keep, "keep", "", "go on from the table of this `page`, and write it anew")
	if err := flags.Parse(args); err != nil {
		return a, err
	}
	a.folders = flags.Args()
	if a.runs < 1 {
		return a, fmt.Errorf("-runs is %d; it is at least 1", a.runs)
	}
	if a.beside < 1 {
		return a, fmt.Errorf("-beside is %d; it is at least 1", a.beside)
	}
	if a.keep != "" && a.base != "" {
		return a, errors.New("-keep is about the present tree alone: give it without -base")
	}
	for a.seed == 0 {
		a.seed = rand.Uint64()
	}
	var err error
	if a.test, err = regexp.Compile(*test); err != nil {
		return a, fmt.Errorf("-test: %w", err)
	}
	return a, nil
}

// tried is a test and what came of it.
type tried struct {
	folder, name   string // the folder below the root
	at, binary     string // where it runs, and the program
	done, failures int
	spent          time.Duration // of a core
	seeds          []uint64      // of the failures
	from, to       string        // the days of the first and the last run
	busy           bool
}

// run does so for the checkout at root.
func run(ctx context.Context, root string, args []string, out io.Writer) error {
	a, err := parse(args, out)
	if err != nil {
		return err
	}
	build, err := os.MkdirTemp("", "steady")
	if err != nil {
		return err
	}
	defer os.RemoveAll(build)
	tests, err := compile(ctx, root, build, &a)
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("no random test matches")
	}
	fmt.Fprintf(out, "%d random tests, beginning at -seed %d\n", len(tests), a.seed)
	page, err := readPage(filepath.Join(root, a.keep), a.keep != "")
	if err != nil {
		return err
	}
	page.restore(tests)
	if err := repeat(ctx, tests, &a, page, out); err != nil {
		return err
	}
	if err := table(out, tests); err != nil {
		return err
	}
	return judge(ctx, root, tests, &a, build, out)
}

// compile builds the tests of every folder that is asked for.
func compile(ctx context.Context, root, build string, a *asked) ([]*tried, error) {
	packages, err := find.Packages(root)
	if err != nil {
		return nil, err
	}
	var tests []*tried
	for _, p := range packages {
		asked := len(a.folders) == 0 || slices.ContainsFunc(a.folders, func(f string) bool {
			return filepath.Clean(f) == p.Folder
		})
		names := slices.DeleteFunc(slices.Clone(p.Random), func(n string) bool { return !a.test.MatchString(n) })
		if !asked || len(names) == 0 {
			continue
		}
		binary, err := filepath.Abs(filepath.Join(build, strings.ReplaceAll(p.Folder, "/", "-")+".test"))
		if err != nil {
			return nil, err
		}
		c := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+p.Folder)
		c.Dir = root
		if said, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", p.Folder, err, said)
		}
		for _, name := range names {
			tests = append(tests,
				&tried{folder: p.Folder, name: name, at: filepath.Join(root, p.Folder), binary: binary})
		}
	}
	return tests, nil
}

// repeat runs the tests until all have run as often as is asked, or the time is up.
func repeat(ctx context.Context, tests []*tried, a *asked, page *page, out io.Writer) error {
	random := rand.New(rand.NewPCG(a.seed, 0))
	began := time.Now()
	var mu sync.Mutex // for all below
	next := func() (t *tried, runs int, seed uint64) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || a.time != 0 && time.Since(began) >= a.time {
			return nil, 0, 0
		}
		waiting := slices.DeleteFunc(slices.Clone(tests), func(t *tried) bool {
			return t.busy || t.done >= a.runs || t.failures > 0 && (a.base != "" || a.keep != "")
		})
		if len(waiting) == 0 {
			return nil, 0, 0
		}
		t = slices.MinFunc(waiting, func(x, y *tried) int { return cmp.Compare(x.spent, y.spent) })
		t.busy = true
		return t, t.together(a.runs), random.Uint64() | 1 // 0 would draw one that nobody knows
	}
	note := func(t *tried, runs int, seed uint64, took time.Duration, said []byte, failed bool) error {
		mu.Lock()
		defer mu.Unlock()
		t.busy = false
		if ctx.Err() != nil {
			return nil
		}
		day := time.Now().UTC().Format(time.DateOnly)
		t.from, t.to = cmp.Or(t.from, day), day
		t.spent += took
		if failed {
			runs, seed = failedAt(said, runs, seed)
			t.failures++
			t.seeds = append(t.seeds, seed)
			fmt.Fprintf(out, "\n%s of %s fails:\n  %s\n", t.name, t.folder, t.command(seed))
			if t.failures <= shown {
				fmt.Fprintf(out, "%s\n", shortened(said))
			}
		}
		t.done += runs
		return page.write(tests)
	}
	var group errgroup.Group
	for range a.beside {
		group.Go(func() error {
			for {
				t, runs, seed := next()
				if t == nil {
					return nil
				}
				said, took, err := t.several(ctx, runs, seed)
				if err := note(t, runs, seed, took, said, err != nil); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// checks is how many a run has: what rapid makes where nobody says otherwise.
const checks = 100

// longest is how much of a core runs that share a process take, about.
const longest = 20 * time.Second

// together is how many runs the next process makes: one until it is known how long it takes.
func (t *tried) together(wanted int) int {
	if t.done == 0 {
		return 1
	}
	each := max(t.spent/time.Duration(t.done), time.Millisecond)
	return min(max(int(longest/each), 1), wanted-t.done)
}

// once runs the test with a seed.
func (t *tried) once(ctx context.Context, seed uint64) error {
	_, _, err := t.several(ctx, 1, seed)
	return err
}

// several makes as many checks as so many runs. Where they are those of one run, a test that checks nothing by rapid's
// count is as good.
func (t *tried) several(ctx context.Context, runs int, seed uint64) (said []byte, took time.Duration, err error) {
	args := []string{"-test.run", "^" + t.name + "$", "-rapid.nofailfile", fmt.Sprint("-rapid.seed=", seed)}
	if runs > 1 {
		args = append(args, fmt.Sprint("-rapid.checks=", checks*runs))
	}
	c := exec.CommandContext(ctx, t.binary, args...)
	c.Dir = t.at
	if said, err = c.CombinedOutput(); c.ProcessState != nil {
		took = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	return said, took, err
}

// failure is what rapid says of one: after how many checks, and with which seed it comes again at once.
var failure = regexp.MustCompile(`(?s)\[rapid\] (?:failed|panic|flaky test).* after (\d+) tests?.*?-rapid\.seed=(\d+)`)

// failedAt is how many runs there were of those that share a process, and the seed that repeats the failure.
func failedAt(said []byte, runs int, seed uint64) (int, uint64) {
	m := failure.FindSubmatch(said)
	if m == nil {
		return runs, seed
	}
	after, err := strconv.Atoi(string(m[1]))
	again, err2 := strconv.ParseUint(string(m[2]), 10, 64)
	if err != nil || err2 != nil {
		return runs, seed
	}
	return min(after/checks+1, runs), again
}

// command repeats a run.
func (t *tried) command(seed uint64) string {
	return fmt.Sprintf("go test ./%s -run '^%s$' -rapid.seed=%d", t.folder, t.name, seed)
}

// shown is how many failures of a test are printed with what was drawn.
const shown = 3

// shortened is what a test said up to the second line of what it drew, and the end, which has what is wrong.
func shortened(said []byte) string {
	const first, last = 1500, 1500
	if len(said) <= first+last {
		return string(said)
	}
	return string(said[:first]) + "\n  […]\n" + string(said[len(said)-last:])
}

func table(out io.Writer, tests []*tried) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\npackage\ttest\truns\tfailures\tseconds of a core")
	for _, t := range tests {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.2f\n", t.folder, t.name, t.done, t.failures,
			t.spent.Seconds()/float64(max(t.done, 1)))
	}
	return w.Flush()
}

// judge says whether the failures are those of the present tree.
func judge(ctx context.Context, root string, tests []*tried, a *asked, build string, out io.Writer) error {
	failed := slices.DeleteFunc(slices.Clone(tests), func(t *tried) bool { return t.failures == 0 })
	if len(failed) == 0 {
		return ctx.Err()
	}
	if a.base == "" {
		return fmt.Errorf("%d of %d random tests failed", len(failed), len(tests))
	}
	former, err := checkout(ctx, root, a.base, build)
	if err != nil {
		return err
	}
	defer former.remove()
	var new []string
	for _, t := range failed {
		fails, err := former.fails(ctx, t)
		if err != nil {
			return err
		}
		if !fails {
			new = append(new, t.name)
			continue
		}
		fmt.Fprintf(out, "%s fails at %s too with the same seed: a finding, but none of this change's\n", t.name, a.base)
	}
	if len(new) > 0 {
		return fmt.Errorf("%s failed, and does not at %s", strings.Join(new, ", "), a.base)
	}
	return ctx.Err()
}
