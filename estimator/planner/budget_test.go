package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
)

// A job whose answers take long gets a plan of the pairs and of as many ways out as the work suffices for, and is told
// what was left out.
func TestPlanBudget(t *testing.T) {
	plain := mustMake(t, story(), storyFake())
	for _, tt := range []struct {
		name     string
		usable   int64 // MiB
		answers  int64 // that the budget suffices for
		frontier bool
		options  int // at least
		left     []string
	}{
		{"no lower bounds", 11994, 200, true, len(plain.Options), []string{"lower bounds"}},
		{"few searches", 11994, 40, false, 6, []string{"lower bounds", "smaller cards, on which other " +
			"kernels may make room"}},
		{"no search", 11994, 24, true, 4,
			[]string{"lower bounds", "smaller cards, on which other kernels may make room",
				"settings that change training", "the frontier", "the longest sequences"}},
		{"pairs and little else", 11994, 14, false, 1, []string{"settings that leave training alone", "more GPUs"}},
		{"nothing fits", 2100, 40, false, 4, []string{combinationsSkipped}},
		{"some of the pairs", 11994, 8, false, 1, []string{"pairs with the largest micro-batches"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := story()
			r.Frontier, r.Catalog = tt.frontier, catalogOfTheStory()
			r.Input.GPUs[0].UsableBytes = tt.usable * mib
			f := storyFake()
			f.played = asking.PlanBudget / tt.answers
			p := mustMake(t, r, f)
			note := noteOf(p, "search-bounded")
			for _, what := range tt.left {
				if !strings.Contains(note, what) {
					t.Errorf("the note %q does not say that %s were left out", note, what)
				}
			}
			if n := f.asked.Load(); n > tt.answers+tt.answers/4+8 {
				t.Errorf("%d answers, the budget is %d", n, tt.answers)
			}
			if len(p.Options) < tt.options {
				t.Errorf("%d options, want %d or more", len(p.Options), tt.options)
			}
			if bounded := p.Today.LowBytes > 0; bounded == strings.Contains(note, "lower bounds") {
				t.Errorf("today's lower bound is %d, the note is %q", p.Today.LowBytes, note)
			}
			for _, x := range p.Pairs {
				if (x.LowBytes > 0) != (p.Today.LowBytes > 0) {
					t.Errorf("%d × %d has a lower bound of %d, today %d", x.MicroBatch, x.GradientAccumulation,
						x.LowBytes, p.Today.LowBytes)
				}
			}
			again := storyFake()
			again.played = f.played
			if diff := cmp.Diff(p, mustMake(t, r, again)); diff != "" {
				t.Errorf("the same request has another answer (-first +second):\n%s", diff)
			}
		})
	}
}

func TestNoBudgetIsNotMentioned(t *testing.T) {
	f := storyFake()
	f.played = 2500 // GPT-2
	r := story()
	r.Frontier, r.Catalog = true, catalogOfTheStory()
	p := mustMake(t, r, f)
	if note := noteOf(p, "search-bounded"); note != "" {
		t.Errorf("the note says %q", note)
	}
}

// Work is what the question takes, whether or not its replay is known already.
func TestPlayedDoesNotDependOnWhatIsKnown(t *testing.T) {
	in := story().Input
	in.LowerBound = true
	replays := estimator.NewReplays()
	for range 2 {
		shared, err := replays.Judge(in)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := estimator.Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		if shared.Played == 0 || shared.Played != alone.Played || shared.Peak.LowBytes != alone.Peak.LowBytes {
			t.Errorf("%d requests and a bound of %d with other questions, %d and %d alone", shared.Played,
				shared.Peak.LowBytes, alone.Played, alone.Peak.LowBytes)
		}
	}
}

// The table of other cards takes many answers.
func TestPlanBudgetOfSeveralCards(t *testing.T) {
	r := story()
	r.Input.GPUs = catalogOfTheStory()
	for answers, rows := range map[int64]int{1000: len(r.Input.GPUs), 20: 0} {
		f := storyFake()
		f.played = asking.PlanBudget / answers
		p := mustMake(t, r, f)
		if said := strings.Contains(noteOf(p, "search-bounded"), "the other GPUs of the job"); len(p.GPUs) != rows ||
			said == (rows > 0) {
			t.Errorf("%d cards where the work suffices for %d answers, and the note says so: %v", len(p.GPUs), answers,
				said)
		}
	}
}
