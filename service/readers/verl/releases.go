package verl

import (
	"maps"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// release is what verl has from a release on where nobody says anything.
type release struct {
	from string
	// global says that a micro-batch is of all GPUs together.
	global bool
	values map[string]any
}

// with is what a later release has: the same, but for some values.
func (r release) with(from string, values map[string]any) release {
	later := maps.Clone(r.values)
	maps.Copy(later, values)
	return release{from: from, values: later}
}

// releases are those of the trainer for supervised fine-tuning up to 0.6.1, oldest first: trainer/config/
// sft_trainer.yaml of the wheels 0.1, 0.2, 0.3.0, 0.4.0, 0.4.1, 0.5.0 and 0.6.1, and FSDP of the program
// trainer/fsdp_sft_trainer.py where the file had no strategy.
var releases = func() []release {
	first := release{from: "0.1", global: true, values: map[string]any{
		"data.train_batch_size": int64(256), global: int64(16), "data.max_length": int64(1024), checkpoint: false,
		strategy: "fsdp",
	}}
	second := first.with("0.2", map[string]any{perGPU: int64(4)})
	delete(second.values, global)
	third := second.with("0.4.0", map[string]any{strategy: "fsdp2", dtype: "fp32"})
	return []release{first, second, third, third.with("0.4.1", map[string]any{checkpoint: true})}
}()

// engines are those of the trainer with an engine: trainer/config/sft_trainer_engine.yaml, model/hf_model.yaml and
// engine/fsdp.yaml of the wheels 0.6.1, 0.7.1, 0.8.0 and 0.9.1.
var engines = []release{{from: "0.6.1", values: map[string]any{"data.train_batch_size": int64(256), perGPU: int64(4),
	"data.max_token_len_per_gpu": int64(8192), dynamic: true, "data.max_length": int64(1024), checkpoint: true,
	"engine.strategy": "fsdp", "engine.model_dtype": "fp32"}}}

// runs is the release whose defaults count, and whether nothing tells it: the one that is named or pinned; that of the
// file beside the job, which has one of the two words for a micro-batch; the first where the command line alone gives
// the word that no later one reads (from 0.2 on it is null, and nothing looks at it); and else the newest.
func (r *job) runs(in, file *setting.Settings) (row release, taken bool) {
	rows := releases
	if r.engine {
		rows = engines
	}
	named := r.Release("verl")
	newest := rows[len(rows)-1]
	gives := func(s *setting.Settings, key string) bool {
		v, ok := s.Peek(key)
		return ok && v.Given()
	}
	switch {
	case named != "":
		row = rows[0]
		for _, later := range rows {
			if !defaults.Older(named, later.from) {
				row = later
			}
		}
		return row, false
	case file != nil && gives(file, global) && !file.Has(perGPU):
		return rows[0], false
	case file != nil && !r.engine && !file.Has(strategy):
		return rows[1], false
	case file != nil:
		return newest, false
	case gives(in, global) && !gives(in, perGPU) && !r.engine:
		return rows[0], true
	}
	return newest, true
}
