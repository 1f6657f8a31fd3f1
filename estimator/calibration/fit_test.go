package calibration_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
)

const mib, gib = 1 << 20, 1 << 30

// site makes runs whose corrections are known.
type site struct {
	random *rand.Rand
	key    calibration.Key
	// what the runs have over the replay
	context, workspace, share float64
	// standard deviation of what is left, in bytes
	noise float64
	made  int
}

func newSite(seed uint64, gpu, family string) *site {
	return &site{random: rand.New(rand.NewPCG(seed, 7)), noise: 20 * mib,
		key: calibration.Key{GPU: gpu, ComputeCapability: 89, Torch: "2.9", Family: family}}
}

// base is what the estimator would say of a job that reserves so much.
func base(reserved int64) memory.Base {
	return memory.BaseOf(reserved*9/10, reserved, reserved*95/100, memory.ContextLazy,
		memory.Doubt{Below: 0.015, Above: 0.015})
}

func (s *site) run() calibration.Row {
	s.made++
	reserved := int64(math.Exp(s.random.Float64()*3) * gib) // 1 to 20 GiB
	b := base(reserved)
	r := calibration.Row{ID: fmt.Sprintf("%s-%s-%d", s.key.GPU, s.key.Family, s.made), Source: "site", Key: s.key,
		Base: b}
	r.Job = fmt.Sprintf("%x", s.random.Uint64())
	r.Reserved = reserved + int64(s.workspace+s.share*float64(reserved)+s.noise*s.random.NormFloat64())
	r.Device = r.Reserved + max(b.Context+int64(s.context+s.noise*s.random.NormFloat64()), 0)
	return r
}

func (s *site) runs(n int) []calibration.Row {
	list := make([]calibration.Row, n)
	for i := range list {
		list[i] = s.run()
	}
	return list
}

// fitted makes a calibration of rows.
func fitted(t testing.TB, rows []calibration.Row) *calibration.Calibration {
	t.Helper()
	groups, _ := calibration.Fit(rows)
	c, err := calibration.New("cal-1", "1", "b", groups)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s is %g, want %g ± %g", what, got, want, within)
	}
}

// What was put into the runs is found again.
func TestFitRecovers(t *testing.T) {
	for name, c := range map[string]struct{ context, workspace, share float64 }{
		"a larger context":          {180 * mib, 0, 0},
		"a smaller context":         {-120 * mib, 0, 0},
		"more in the allocator":     {0, 300 * mib, 0},
		"more in proportion":        {0, 0, 0.06},
		"everything at once":        {150 * mib, 200 * mib, 0.05},
		"less of everything":        {-150 * mib, -60 * mib, -0.03},
		"nothing but what is known": {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(1, "rtx-4090", "llama")
			s.context, s.workspace, s.share = c.context, c.workspace, c.share
			g := fitted(t, s.runs(90)).For(s.key)
			if g == nil || g.Jobs != 90 || g.BoundedBy != 60 {
				t.Fatalf("group %+v", g)
			}
			near(t, "the context", float64(g.ContextBytes), c.context, 15*mib)
			near(t, "the workspace", float64(g.WorkspaceBytes), c.workspace, 30*mib)
			near(t, "the share", g.AllocatorShare, c.share, 0.005)
		})
	}
}

// Without reserved bytes the constants inside and outside the allocator cannot be told apart; their sum can.
func TestFitFromTheProcessAlone(t *testing.T) {
	s := newSite(2, "rtx-4090", "llama")
	s.context, s.workspace, s.share = 100*mib, 80*mib, 0.04
	rows := s.runs(90)
	for i := range rows {
		rows[i].Reserved = 0
	}
	g := fitted(t, rows).For(s.key)
	near(t, "the context", float64(g.ContextBytes), 180*mib, 25*mib)
	near(t, "the workspace", float64(g.WorkspaceBytes), 0, 0)
	near(t, "the share", g.AllocatorShare, 0.04, 0.005)
}

// Without the process's figure, the figure is corrected and the bounds are the estimator's own.
func TestFitFromReservedAlone(t *testing.T) {
	s := newSite(3, "rtx-4090", "llama")
	s.share = 0.04
	rows := s.runs(40)
	for i := range rows {
		rows[i].Device = 0
	}
	g := fitted(t, rows).For(s.key)
	near(t, "the share", g.AllocatorShare, 0.04, 0.005)
	if g.ContextBytes != 0 || len(g.Bounds) != 0 {
		t.Errorf("group %+v", g)
	}
}

// The order of the rows and runs of the same job again change nothing.
func TestFitKnowsJobs(t *testing.T) {
	s := newSite(4, "rtx-4090", "llama")
	s.context = 100 * mib
	rows := s.runs(60)
	want := fitted(t, rows).Groups()
	again := slices.Clone(rows)
	for i := range 500 { // one job that somebody runs all day, with more in its process than all others
		r := rows[0]
		r.ID = fmt.Sprintf("z-%d", i)
		r.Device += 2 * gib
		again = append(again, r)
	}
	rand.New(rand.NewPCG(5, 5)).Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	if diff := cmp.Diff(want, fitted(t, again).Groups()); diff != "" {
		t.Errorf("(-once +repeated and shuffled):\n%s", diff)
	}
}
