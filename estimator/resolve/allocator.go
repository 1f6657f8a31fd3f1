package resolve

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
)

// allocator is how a job sets PyTorch's caching allocator.
func allocator(a *job.Allocator, errs *invalid.List) memory.Settings {
	if a == nil {
		return memory.Settings{}
	}
	if a.MaxSplitSizeMB < 0 || a.MaxSplitSizeMB > 0 && a.MaxSplitSizeMB <= 20 {
		errs.Add("/training/allocator/max_split_size_mb", "out_of_range", "max_split_size_mb is %d; it is 21 or more",
			a.MaxSplitSizeMB)
	}
	if a.ExpandableSegments && a.MaxSplitSizeMB > 0 {
		errs.Add("/training/allocator/max_split_size_mb", "conflict", "no trace has shown what blocks that are not "+
			"divided do among segments that grow; leave out max_split_size_mb or expandable_segments")
	}
	return memory.Settings{
		Expandable: a.ExpandableSegments,
		MaxSplit:   a.MaxSplitSizeMB << 20,
		Divisions:  a.RoundupPower2Divisions,
	}
}
