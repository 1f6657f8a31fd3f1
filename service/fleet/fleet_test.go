package fleet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/fleet"
	"github.com/vramplan/vramplan/service/submission"
)

var embedded = service.EmbeddedCatalog()

func options() fleet.Options {
	return fleet.Options{Catalog: embedded, Margin: 0.1, LeastUsers: 0, By: "Account", JobLabel: "hpc_job"}
}

// report reads texts as files a, b, …
func report(t testing.TB, o fleet.Options, texts ...string) (*fleet.Report, error) {
	t.Helper()
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var sources []*fleet.Source
	for i, text := range texts {
		s, err := fleet.Open(string(rune('a'+i)), strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if err := f.Read(sources...); err != nil {
		return nil, err
	}
	return f.Report(), nil
}

const header = "JobIDRaw|User|Account|Partition|State|Submit|ElapsedRaw|NTasks|AllocTRES|TRESUsageInMax|TRESUsageInTot|Comment\n"

// row is a job with one step.
func row(id, user, state, tres, tasks, most, total string) string {
	return fmt.Sprintf("%s|%s|lab|gpu|%s|2026-11-21T08:00:00|3600||%s|||\n%s.0||||COMPLETED||3600|%s||%s|%s|\n", id, user,
		state, tres, id, tasks, most, total)
}

// What Slurm says of a task's GPUs is a GPU's where the job has one, or each has a task of its own.
func TestWhosePeak(t *testing.T) {
	const one, four = "gres/gpu:h100-sxm5-80gb=1,gres/gpu=1", "gres/gpu:h100-sxm5-80gb=4,gres/gpu=4"
	for _, tt := range []struct {
		name, tres, tasks, most, total string
		measured, untold, unseen       int64
		peak                           float64 // GiB
	}{
		{"one GPU, one task", one, "1", "gres/gpumem=20G,gres/gpuutil=9", "gres/gpumem=20G", 1, 0, 0, 20},
		{"one GPU, no column of tasks", one, "", "gres/gpumem=20480M", "", 1, 0, 0, 20},
		{"one GPU, two tasks", one, "2", "gres/gpumem=20G", "gres/gpumem=30G", 1, 0, 0, 30},
		{"one GPU, two tasks, no sum", one, "2", "gres/gpumem=20G", "", 0, 1, 0, 0},
		{"a task a GPU", four, "4", "gres/gpumem=20.5G", "gres/gpumem=80G", 1, 0, 0, 20.5},
		{"a task for all", four, "1", "gres/gpumem=80G", "gres/gpumem=80G", 0, 1, 0, 0},
		{"bytes", one, "1", "gres/gpumem=21474836480", "", 1, 0, 0, 20},
		{"nothing used", one, "1", "gres/gpumem=0", "gres/gpumem=0", 0, 0, 1, 0},
		{"not tracked", one, "1", "cpu=00:01:00,mem=3K", "", 0, 0, 0, 0},
	} {
		r, err := report(t, options(), header+row("1", "u", "COMPLETED", tt.tres, tt.tasks, tt.most, tt.total))
		if err != nil {
			t.Fatal(err)
		}
		a := r.Total
		held := 0.0
		if a.GPUHours > 0 {
			held = (a.AskedGiBHours - a.UnusedGiBHours) / a.GPUHours
		}
		if a.Jobs != 1 || a.Measured != tt.measured || a.Untold != tt.untold || a.Unseen != tt.unseen ||
			held < tt.peak-0.01 || held > tt.peak+0.01 {
			t.Errorf("%s: %+v, of which %.2f GiB are held; want %+v", tt.name, a, held, tt)
		}
	}
}

// The smallest card is of the job's own kind, and slices are for one GPU alone.
func TestSmallestCard(t *testing.T) {
	for _, tt := range []struct {
		card, gib, state string
		gpus             int
		among            []string
		want             string
	}{
		{"a100-sxm4-80gb", "8", "COMPLETED", 1, nil, "a100-sxm4-80gb-mig-1g.10gb"},
		{"a100-sxm4-80gb", "9.3", "COMPLETED", 1, nil, "a16"}, // with its margin it is above a slice of 10 GB
		{"a100-sxm4-80gb", "30", "COMPLETED", 1, []string{"a100-sxm4-40gb", "v100-sxm2-32gb"}, "a100-sxm4-40gb"},
		{"a100-sxm4-80gb", "21", "COMPLETED", 1, []string{"v100-sxm2-32gb", "l4"}, ""}, // the one has no bf16, the other no room
		{"a100-sxm4-80gb", "20", "COMPLETED", 2, []string{"a100-sxm4-80gb-mig-3g.40gb"}, ""},
		{"a100-sxm4-80gb", "70", "COMPLETED", 1, nil, ""},
		{"a100-sxm4-80gb", "8", "FAILED", 1, nil, ""},
		{"a100-sxm4-80gb", "8", "CANCELLED by 7", 1, nil, ""},
		{"a100-sxm4-80gb", "8", "TIMEOUT", 1, nil, "a100-sxm4-80gb-mig-1g.10gb"},
	} {
		o := options()
		o.Among = tt.among
		var found []*fleet.Found
		o.Each = func(f *fleet.Found) error { found = append(found, f); return nil }
		tres := fmt.Sprintf("gres/gpu:%s=%d,gres/gpu=%d", tt.card, tt.gpus, tt.gpus)
		if _, err := report(t, o, header+row("1", "u", tt.state, tres, fmt.Sprint(tt.gpus), "gres/gpumem="+tt.gib+"G",
			"")); err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(found) > 0 {
			got = found[0].Smaller
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// A site's names say which card a job had; a name of several cards is the smallest, and a note says so.
func TestSiteNames(t *testing.T) {
	o := options()
	o.Site = submission.Site{Partitions: map[string][]string{"gpu": {"l4"}}, GPUs: map[string][]string{"big": {"h200"}}}
	text := header + row("1", "u", "COMPLETED", "gres/gpu=1", "1", "gres/gpumem=9G", "") +
		row("2", "u", "COMPLETED", "gres/gpu:big=1,gres/gpu=1", "1", "gres/gpumem=9G", "") +
		row("3", "u", "COMPLETED", "gres/gpu:a100=1,gres/gpu=1", "1", "gres/gpumem=9G", "") +
		row("4", "u", "COMPLETED", "gres/gpu:a100=1,gres/gpu:l4=1,gres/gpu=2", "2", "gres/gpumem=9G", "") +
		row("5", "u", "COMPLETED", "gres/gpu:a100_1g.5gb=1,gres/gpu=1", "1", "gres/gpumem=3G", "")
	r, err := report(t, o, text)
	if err != nil {
		t.Fatal(err)
	}
	var cards []string
	for _, row := range r.Rows {
		cards = append(cards, row.Card)
	}
	const want = "(not told) a100-pcie-40gb a100-sxm4-40gb-mig-1g.5gb h200-nvl l4"
	if got := strings.Join(cards, " "); got != want {
		t.Errorf("cards %s, want %s", got, want)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "a100 means") {
		t.Errorf("no note says that a100 is several cards: %q", r.Notes)
	}
}

// Decisions are joined by the comment, or by user and time where no other may be meant.
func TestDecisionsOfJobs(t *testing.T) {
	decided := func(id, user, at, verdict string, low int64) string {
		return fmt.Sprintf(`{"decision_id":"d-%s","time":"2026-11-21T%sZ","hook":"slurm","action":"allow","verdict":%q,`+
			`"user":%q,"low_bytes":%d}`+"\n", id, at, verdict, user, low)
	}
	const card = "gres/gpu:a100-sxm4-80gb=1,gres/gpu=1"
	jobs := header +
		row("1", "ann", "FAILED", card, "1", "gres/gpumem=70G", "") +
		row("2", "bob", "COMPLETED", card, "1", "gres/gpumem=20G", "") +
		row("3", "cid", "COMPLETED", card, "1", "gres/gpumem=20G", "") +
		row("4", "dot", "COMPLETED", card, "1", "gres/gpumem=20G", "") +
		strings.Replace(row("5", "eve", "COMPLETED", card, "1", "gres/gpumem=20G", ""), "|||\n5.0",
			"|||vramplan:verdict=fits; mine\n5.0", 1)
	said := decided("1", "ann", "07:59:59.7", "does_not_fit", 1) +
		decided("2", "bob", "07:59:51", "does_not_fit", 30<<30) +
		decided("3", "cid", "07:59:49", "does_not_fit", 1) + // too long before
		decided("4", "dot", "07:59:58", "does_not_fit", 1) + decided("5", "dot", "07:59:59", "fits", 1)
	r, err := report(t, options(), jobs, said)
	if err != nil {
		t.Fatal(err)
	}
	joined := map[string]fleet.Said{}
	for _, s := range r.Verdicts {
		joined[s.Verdict] = s
	}
	no, yes := joined["does_not_fit"], joined["fits"]
	if no.Decisions != 4 || no.Joined != 2 || no.Failed != 1 || no.Completed != 1 || no.BelowLow != 1 {
		t.Errorf("does not fit: %+v", no)
	}
	if yes.Decisions != 1 || yes.Joined != 1 || yes.Completed != 1 || r.Counts.Ambiguous != 1 || r.Total.Named != 1 {
		t.Errorf("fits: %+v, %+v, %d named", yes, r.Counts, r.Total.Named)
	}
}

// Series tell each GPU's peak, over what Slurm added up, and the card.
func TestSeries(t *testing.T) {
	jobs := header + row("7", "u", "COMPLETED", "gres/gpu=2", "1", "gres/gpumem=50G", "")
	const labels = `Hostname="n",modelName="NVIDIA A100-SXM4-80GB",hpc_job="7"`
	text := "# TYPE DCGM_FI_DEV_FB_USED gauge\n" +
		`DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",` + labels + `} 10240 1795180800000` + "\n" +
		`DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",` + labels + `,pod="a\"}b"} 20480` + "\n" +
		`DCGM_FI_DEV_FB_USED{gpu="2",UUID="GPU-c"} 4` + "\n" +
		`DCGM_FI_DEV_FB_USED{gpu="2",UUID="GPU-c",` + labels + `} 9223372036854775794` + "\n" +
		`DCGM_FI_DEV_FB_USED{gpu="2` + "\n"
	query := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"gpu":"0","hpc_job":"7",` +
		`"modelName":"NVIDIA A100-SXM4-80GB"},"values":[[1795180800,"1"],[1795184400.5,"15360"]]},{"metric":[]},` +
		`{"metric":{"__name__":"up"},"value":[1,"1"]},{"metric":{"hpc_job":"8","modelName":"Tesla T4"},"value":[1,"2"]}]}}`
	r, err := report(t, options(), jobs, text, query)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 1 || r.Rows[0].Card != "a100-sxm4-80gb" || r.Total.Measured != 1 || r.Total.Untold != 0 {
		t.Errorf("rows %+v", r.Rows)
	}
	// 50 GiB are what Slurm added up, and no peak; 20 is the fullest GPU's.
	if held := (r.Total.AskedGiBHours - r.Total.UnusedGiBHours) / r.Total.GPUHours; held < 19.9 || held > 20.1 {
		t.Errorf("%.2f GiB held", held)
	}
	if s := r.Sources[1]; s.Read != 2 || s.Unreadable != 2 || r.Counts.WithoutJob != 1 || r.Counts.Unjoined != 1 {
		t.Errorf("%+v, %+v", *s, r.Counts)
	}
	if s := r.Sources[2]; s.Read != 2 || s.Unreadable != 1 || s.Passed != 1 {
		t.Errorf("%+v", *s)
	}
	// Without accounting, pods are jobs and their namespaces groups.
	pods := strings.NewReplacer(`hpc_job="7"`, `namespace="team",pod="train-0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="3"`,
		`,pod="a\"}b"`, "").Replace(text)
	if r, err = report(t, options(), pods); err != nil || len(r.Rows) != 1 || r.Rows[0].Group != "team" ||
		!strings.HasSuffix(r.Rows[0].Card, "-mig-1g.10gb") || r.Total.GPUHours != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// They run from their first sample that has a time to the last.
	query = strings.Replace(query, `[1795180800,"1"]`, `[1e300,"1"],[-5,"1"],[1795180800,"1"]`, 1)
	if r, err = report(t, options(), strings.ReplaceAll(query, `"hpc_job":"7"`, `"pod":"p","namespace":"n"`)); err != nil ||
		r.Total.GPUHours != 1 {
		t.Errorf("%v hours, want 1; %v", r.Total.GPUHours, err)
	}
}

func TestObservations(t *testing.T) {
	page := `{"observations":[
{"id":"1","gpu":"l4","job":{},"measured":{"device_bytes":3221225472},"predicted":{"verdict":"does_not_fit"}},
{"id":"2","gpu":"l4","measured":{"out_of_memory":true},"predicted":{"verdict":"does_not_fit"}},
{"id":"3","gpu":"l4","measured":{"out_of_memory":true},"predicted":{"verdict":"fits"}},
{"id":"4","gpu":"l4","measured":{"device_bytes":1},"quarantined":"why"}],"next_page_token":"x"}
{"gpu":"t4","measured":{"allocated_bytes":5}} {"gpu":4} {"gpu":"l4"`
	r, err := report(t, options(), page)
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.Observed{{Card: "l4", Runs: 3, Measured: 1, PeakBytes: 3 << 30, Smaller: 1, OutOfMemory: 2, Named: 1,
		Denied: 1}, {Card: "t4", Runs: 1}}
	if l4, err := embedded.GPU("l4"); err != nil {
		t.Fatal(err)
	} else {
		want[0].CardBytes = l4.UsableBytes
	}
	if diff := cmp.Diff(want, r.Observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := r.Sources[0]; s.Read != 4 || s.Passed != 1 || s.Unreadable != 2 {
		t.Errorf("%+v", *s)
	}
}

// What cannot be read is named with its place and never repeated; what no file can be is said.
func TestUnreadable(t *testing.T) {
	text := header + "1|u|lab\n" + "2|u|lab|gpu|WONDERFUL|x|1||gres/gpu=1|||\n" + "3|u|lab|gpu|FAILED|x|soon||gres/gpu=1|||\n" +
		"4|u|lab|gpu|FAILED|x|1||gres/gpu=many|||\n" + "5.0|||||||1||gres/gpumem=1G||\n" +
		"6|" + strings.Repeat("secret", 1<<18) + "\n" + row("7", "u", "FAILED", "gres/gpu=1", "1", "gres/gpumem=512", "") +
		header + row("8", "u", "FAILED", "gres/gpu=1", "x", "gres/gpumem=1G", "")
	r, err := report(t, options(), text)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sources[0]
	if s.Unreadable != 8 || s.Read != 4 || len(s.Examples) != 5 || r.Total.Jobs != 2 {
		t.Errorf("%+v, %d jobs", *s, r.Total.Jobs)
	}
	for i, want := range []string{"3 columns", "WONDERFUL", "soon", "many", "without its job"} {
		if got := s.Examples[i]; got.Place != fmt.Sprintf("line %d", i+2) || !strings.Contains(got.Why, want) {
			t.Errorf("%+v, want line %d with %q", got, i+2, want)
		}
	}
	for text, want := range map[string]string{
		"hello": "neither sacct's output", "": "neither sacct's output",
		"JobID|State|User|ElapsedRaw\n": "lack Account, AllocTRES; ask for them: TZ=UTC sacct",
	} {
		if _, err := report(t, options(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// No row is of fewer users than asked for, unless it is the only one; rows add up to the total.
func TestRowsHaveUsers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.LeastUsers = rapid.IntRange(1, 6).Draw(t, "least")
		var text strings.Builder
		text.WriteString(header)
		users := map[string]map[string]bool{} // of the row as it would be
		all := map[string]bool{}
		n := rapid.IntRange(1, 40).Draw(t, "jobs")
		for i := range n {
			user := fmt.Sprintf("u%d", rapid.IntRange(0, 12).Draw(t, "user"))
			group := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "group")
			card := rapid.SampledFrom([]string{"l4", "t4", "h200"}).Draw(t, "card")
			fmt.Fprintf(&text, "%d|%s|%s|gpu|FAILED|x|3600||gres/gpu:%s=1,gres/gpu=1|||\n", i, user, group, card)
			key := group + " " + card
			if users[key] == nil {
				users[key] = map[string]bool{}
			}
			users[key][user], all[user] = true, true
		}
		f, err := fleet.New(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := fleet.Open("a", strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Read(s); err != nil {
			t.Fatal(err)
		}
		r := f.Report()
		var jobs int64
		for _, row := range r.Rows {
			jobs += row.Jobs
			key := strings.Replace(row.Group, "(no group)", "", 1) + " " + row.Card
			if of := users[key]; of != nil && len(of) < o.LeastUsers && len(r.Rows) > 1 {
				t.Fatalf("the row %s has %d users, and there are %d rows", key, len(of), len(r.Rows))
			}
			// A user has a job at least, so a row with fewer jobs has fewer users.
			if row.Jobs < int64(o.LeastUsers) && len(r.Rows) > 1 {
				t.Fatalf("the row %+v has %d jobs of at least %d users", row, row.Jobs, o.LeastUsers)
			}
		}
		if jobs != int64(n) || r.Total.Jobs != int64(n) {
			t.Fatalf("%d and %d jobs of %d", jobs, r.Total.Jobs, n)
		}
	})
}

// fuzz reads anything behind a beginning that tells its kind: no figure is negative, and nothing is said of more
// jobs than there are.
func fuzz(f *testing.F, kind fleet.Kind, begin string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := options()
		o.Each = func(found *fleet.Found) error {
			if found.PeakBytes < 0 || found.GPUs < 0 || found.Hours < 0 {
				t.Errorf("found %+v", found)
			}
			return nil
		}
		x, err := fleet.New(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := fleet.Open("a", strings.NewReader(begin+text))
		if err != nil {
			return
		}
		if s.Kind != kind {
			t.Skip()
		}
		if x.Read(s) != nil {
			return
		}
		r := x.Report()
		a := r.Total
		if a.Measured+a.Untold+a.Unseen > a.Jobs || a.Smaller > a.Whole || a.Whole > a.Measured || a.Named > a.Failed ||
			a.UnusedGiBHours < 0 || !(a.UnusedGiBHours <= a.AskedGiBHours) || !(a.GPUHours >= 0) {
			t.Errorf("%+v", a)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

func FuzzAccounting(f *testing.F) {
	fuzz(f, fleet.Accounting, header, row("1", "u", "COMPLETED", "gres/gpu:a100=1,gres/gpu=1", "1", "gres/gpumem=38888M", ""),
		row("1_2", "u", "CANCELLED by 4", "gres/gpu=4", "4", "gres/gpumem=0", "gres/gpumem=1.5T"))
}

func FuzzExposition(f *testing.F) {
	fuzz(f, fleet.Exposition, "# TYPE DCGM_FI_DEV_FB_USED gauge\n",
		`DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="Tesla T4",hpc_job="7"} 10240 1795180800000`,
		`DCGM_FI_DEV_FB_USED{pod="a\"\\\n",namespace="n",GPU_I_PROFILE="1g.5gb"} NaN`)
}

func FuzzQuery(f *testing.F) {
	fuzz(f, fleet.Query, `{"status":"success","data":{"resultType":"matrix","result":[`,
		`{"metric":{"gpu":"0","hpc_job":"7"},"values":[[1,"1"],[2,"15360"]]}]}}`, `{"metric":[]},{"value":[1e9,"3"]}`)
}

func FuzzDecisions(f *testing.F) {
	fuzz(f, fleet.Decisions, "", `{"decision_id":"d","time":"2026-11-21T08:00:00Z","verdict":"fits","user":"u","action":"deny"}`,
		`Nov 1 vramplan[1]: {"decision":{"decision_id":"d","verdict":"none"}}`)
}

func FuzzObservations(f *testing.F) {
	fuzz(f, fleet.Observations, "", `{"observations":[{"gpu":"l4","measured":{"device_bytes":3}}]}`,
		`{"gpu":"t4","measured":{"out_of_memory":true},"predicted":{"verdict":"fits"}}`)
}
