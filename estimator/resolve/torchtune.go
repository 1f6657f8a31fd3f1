package resolve

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
)

// writeAsTorchtune makes the model torchtune's own where its recipes for one GPU train it and there is one like it.
func (r resolver) writeAsTorchtune(t *job.Training) {
	if r.By.WritesTune != frameworks.Yes || t.Distributed != nil {
		return
	}
	rewritten.WriteAsTorchtune(&r.Arch)
	r.OwnModules = r.OwnModules && !rewritten.Torchtune(&r.Arch)
}
