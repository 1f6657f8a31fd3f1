package estimator

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/session"
)

// kindsOfRanks is how many kinds of GPUs a job has of which any may hold most: the stages of a pipeline, and where GPUs
// share sequences the first and the second. It is 1 where the job names one or all hold the same. rank is one of the
// i-th kind.
func kindsOfRanks(t *Training) (kinds int64, rank func(i int64) int64, where func(i int64) string) {
	d, m := t.Distributed, t.Mesh()
	switch {
	case d == nil || d.Rank != nil || d.PipelineStage != nil:
	case m.Pipeline > 1:
		return m.Pipeline, func(i int64) int64 { return i * (m.World / m.Pipeline) },
			func(i int64) string { return fmt.Sprintf("stage %d of %d", i, m.Pipeline) }
	case m.Context > 1:
		return 2, func(i int64) int64 { return i * m.Tensor },
			func(i int64) string { return fmt.Sprintf("GPU %d of the %d that share a sequence", i, m.Context) }
	}
	return 1, nil, nil
}

// ofRank asks about one GPU.
func ofRank(in Input, rank int64) Input {
	d := *in.Job.Training.Distributed
	d.Rank = &rank
	in.Job.Training.Distributed = &d
	return in
}

// estimateRanks answers for the GPU that takes most, and lists those that may. The smallest limit is looked for of the
// fullest, and of another where a verdict depends on it.
func estimateRanks(in Input, limits bool, replays *replay.Memory) (*Result, error) {
	var fullest *Result
	var list []RankPeak
	played, at := int64(0), 0
	kinds, rank, where := kindsOfRanks(&in.Job.Training)
	if in.Took == nil {
		in.Took, in.Storage = &Cost{}, replay.NewWorkspace()
	}
	if replays == nil {
		replays = replay.NewMemory()
	}
	before := in.Took.Requests
	estimateOne := func(r int64, limits bool) (*Result, error) {
		one := ofRank(in, r)
		if in.MostRequests > 0 { // of which the ranks before have taken some
			one.MostRequests = in.MostRequests - (in.Took.Requests - before)
			if one.MostRequests <= 0 {
				return nil, session.TooDear(in.MostRequests, in.Job.Training.GradientAccumulation)
			}
		}
		res, err := estimate(one, limits, replays)
		if err != nil {
			return nil, err
		}
		if in.MostRequests > 0 && in.Took.Requests-before > in.MostRequests {
			return nil, session.TooDear(in.MostRequests, in.Job.Training.GradientAccumulation)
		}
		played += res.Played
		return res, nil
	}
	for i := range kinds { // the first says whether there are as many as are modelled
		res, err := estimateOne(rank(i), false)
		if err != nil {
			return nil, err
		}
		list = append(list, rankPeak(rank(i), where(i), &res.Peak))
		if fullest == nil || res.Peak.DeviceBytes > fullest.Peak.DeviceBytes {
			fullest, at = res, int(i)
		}
	}
	if limits {
		r := list[at].Rank
		res, err := estimateOne(r, true)
		if err != nil {
			return nil, err
		}
		fullest, list[at] = res, rankPeak(r, list[at].Where, &res.Peak)
	}
	list[at].Fullest = true
	fullest.Ranks, fullest.Played = list, played
	if in.Job.Training.Distributed.PipelineParallel > 1 {
		fullest.Notes = append(fullest.Notes, stagesNote(list))
	}
	return fullest, nil
}

func rankPeak(rank int64, where string, p *Peak) RankPeak {
	return RankPeak{Rank: rank, Where: where, AllocatedBytes: p.AllocatedBytes, ReservedBytes: p.ReservedBytes,
		DeviceBytes: p.DeviceBytes, LowBytes: p.LowBytes, HighBytes: p.HighBytes}
}

// stagesNote says what every stage takes.
func stagesNote(list []RankPeak) Note {
	words := make([]string, len(list))
	for i := range list {
		r := &list[i]
		words[i] = fmt.Sprintf("%s: %s allocated, %s reserved", r.Where, Bytes(r.AllocatedBytes), Bytes(r.ReservedBytes))
	}
	return Note{Code: "pipeline-stages", Text: "the figures are those of the fullest stage; " + strings.Join(words, "; ")}
}
