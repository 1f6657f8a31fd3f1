package lever

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// CardsGroup is the group of the levers that put a job on more of its card.
const CardsGroup = "cards"

// Spread puts the job on so many data-parallel GPUs: each with all of it (ddp), or with parameters, gradients and
// optimizer state dealt out (fsdp, zero3). A job that is dealt out stays so.
func Spread(base estimator.Input, tool, data string, gpus int64) Lever {
	d := estimator.Distributed{WorldSize: gpus, Data: data}
	own := base.Job.Training.Distributed
	if own != nil && (data == "ddp" || traits.SharesState(own) || traits.OnZeRO(own)) {
		d = *own
		d.WorldSize, d.Data = gpus, data
		if traits.OnZeRO(own) {
			d.DeepSpeed = traits.Restage(own.DeepSpeed, data)
		}
	} else if data == "fsdp" {
		d.FSDPVersion = 2
	}
	word := cardsWord(tool, data, gpus)
	if traits.OnZeRO(&d) {
		word = zeroWord(tool, &d)
	}
	l := Lever{
		Code: fmt.Sprintf("%s-%d", data, gpus), Group: CardsGroup, Effort: SettingEffort, GPUs: gpus,
		Title:    fmt.Sprintf("Train on %d GPUs (%s)", gpus, traits.Dealt(data)),
		Apply:    func(in *estimator.Input) { in.Job.Training.Distributed = &d },
		Changes:  map[string]any{"distributed": d},
		Settings: []string{word.setting},
	}
	if word.code {
		l.Effort = codeEffort
	}
	on := base
	l.Apply(&on)
	if own := on.Job.Training.GradientCheckpointing; ThatRun(on) != own {
		l = notReentrant(l, *own)
		l.Settings = append(l.Settings, reentrantOff(tool))
	}
	return l
}
