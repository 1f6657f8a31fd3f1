package steptime

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// What experts cost in time: GPUs of a host that share them send rows over its links, and GPUs of several hosts through
// their adapters. Into a host come all experts while its GPUs share them; less of them comes where more hosts do.
func TestTimeOfExperts(t *testing.T) {
	of := func(experts float64) (each, gathers float64) {
		in := estimator.Input{Job: estimator.Job{Model: samples.Mixture(94),
			Training: estimator.Training{SequenceLength: 4096}}}
		training := in.Job.Training
		training.Distributed = &estimator.Distributed{WorldSize: 256, Data: "fsdp", FSDPVersion: 2}
		w := Workload{Shape: traits.ShapeOf(in, 0), Training: training, Micro: 1, Accum: 1, Sequence: 4096, GPUs: 256,
			Parameters: 235e9, Trainable: 235e9, Experts: experts, PerHost: 8}
		c := CardOf(samples.H100(), "")
		all := w.exchange(c, Expected, 0)
		sent := w.exchangedInLayers(c, Expected)
		return sent, all.each - sent
	}
	none, whole := of(1)
	host, shared := of(8)
	far, less := of(64)
	if none != 0 || host <= 0 || far < 5*host {
		t.Errorf("rows take %.3g s with experts whole, %.3g s within a host, %.3g s over eight", none, host, far)
	}
	if shared > whole || shared < 0.9*whole || less > whole/4 {
		t.Errorf("parameters take %.3g s whole, %.3g s with 8 that share experts, %.3g s with 64", whole, shared, less)
	}
}

// What cards tell each other costs more over slower links, and is hidden where there is much to compute.
func TestExchange(t *testing.T) {
	on := func(data string, link float64, micro int64, a Assumption) float64 {
		w := storyWorkload(micro, nil)
		w.Training.Distributed, w.GPUs = &estimator.Distributed{WorldSize: 2, Data: data}, 2
		g := samples.RTX4070()
		g.LinkBytesPerSecond = link
		c := CardOf(g, w.Training.Precision)
		return w.PerToken(c, a) / storyWorkload(micro, nil).PerToken(c, a)
	}
	for _, data := range []string{"ddp", "fsdp"} {
		slow, fast, hidden := on(data, 5e9, 1, Expected), on(data, 450e9, 1, Expected), on(data, 450e9, 16, Expected)
		if !(slow > fast && fast >= hidden && hidden <= 1) {
			t.Errorf("%s: %.3f over slow links, %.3f over fast ones, %.3f where it is hidden", data, slow, fast, hidden)
		}
		if dear := on(data, 5e9, 1, DearSmall); dear <= slow {
			t.Errorf("%s: the dear reading takes %.3f, the expected %.3f", data, dear, slow)
		}
	}
	if ddp, fsdp := on("ddp", 5e9, 1, Expected), on("fsdp", 5e9, 1, Expected); fsdp <= ddp {
		t.Errorf("gathering parameters in 512 micro-steps takes %.3f, reducing gradients once %.3f", fsdp, ddp)
	}
}
