package calibration

import (
	"cmp"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
)

// Row is one measured run.
type Row struct {
	// ID names the run, and Job the job: runs of the same job on the same card have the same. Neither may say anything
	// of what was measured, since they decide what a run is used for.
	ID, Job string
	// Source is who measured.
	Source string
	Key    Key
	// Base is what the built-in constants say of it.
	Base memory.Base
	// Reserved and Device are what was measured, 0 where it was not.
	Reserved, Device int64
	// AtLeast is set instead where the run failed for want of memory: its process needs more than that.
	AtLeast int64
	// ReleaseOnly keeps the row out of groups that do not tell releases apart: the same run has another row, under the
	// release that it ran with, which counts there.
	ReleaseOnly bool
}

// at is the row's group at one level; ok is false where it belongs to none.
func (r *Row) at(level int) (k Key, ok bool) {
	k, ok = r.Key.at(level)
	return k, ok && (k.Torch != "" || !r.ReleaseOnly)
}

// mostBytes is what JSON's readers have exactly; nothing larger is a measurement.
const mostBytes = 1<<53 - 1

// sound says that the numbers of a row can be those of a run.
func (r *Row) sound() bool {
	b := &r.Base
	figure := func(v int64) bool { return v >= 0 && v <= mostBytes }
	width := func(w float64) bool { return w > 0 && w <= mostBytes }
	return figure(r.Reserved) && figure(r.Device) && figure(r.AtLeast) &&
		(r.Reserved > 0 || r.Device > 0 || r.AtLeast > 0) &&
		(r.AtLeast == 0 || r.Reserved == 0 && r.Device == 0) && (r.Device == 0 || r.Device >= r.Reserved) &&
		b.Reserved > 0 && figure(b.Reserved) && figure(b.Context) && b.Limit > 0 && b.Limit <= b.Reserved &&
		b.Allocated > 0 && b.Allocated <= b.Reserved && width(b.Below) && width(b.Above) && r.Job != "" && r.ID != ""
}

// oneAJob keeps one run of each job: that with the smallest id, which says nothing of its figures. A job that ran a
// hundred times would otherwise speak for a hundred jobs. Runs that failed for want of memory are apart from those that
// did not. What is left is in an order that does not depend on that of the rows.
func oneAJob(rows []Row) []*Row {
	type job struct {
		key    Key
		job    string
		failed bool
	}
	of := func(r *Row) job { return job{r.Key, r.Job, r.AtLeast > 0} }
	kept := map[job]*Row{}
	for i := range rows {
		r := &rows[i]
		if !r.sound() {
			continue
		}
		if other := kept[of(r)]; other == nil || r.ID < other.ID {
			kept[of(r)] = r
		}
	}
	list := make([]*Row, 0, len(kept))
	for _, r := range kept {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Row) int {
		return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Job, b.Job), cmp.Compare(a.AtLeast, b.AtLeast))
	})
	return list
}

func compareKeys(a, b Key) int {
	several := func(k Key) int {
		if k.SeveralGPUs {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(several(a), several(b)), cmp.Compare(a.GPU, b.GPU),
		cmp.Compare(a.ComputeCapability, b.ComputeCapability),
		cmp.Compare(a.Torch, b.Torch), cmp.Compare(a.Family, b.Family))
}
