package steptime

import (
	"math"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// storyWorkload is GPT-2 124M at 1,024 tokens and an effective batch of 512.
func storyWorkload(micro int64, change func(*estimator.Training)) Workload {
	in := samples.Story()
	w := Workload{
		Shape: traits.ShapeOf(in, 0), Training: in.Job.Training, Micro: float64(micro), Accum: float64(512 / micro),
		Sequence: 1024, Parameters: 124373760, Trainable: 124373760, GPUs: 1,
	}
	if change != nil {
		change(&w.Training)
	}
	return w
}

func full(t *estimator.Training) { t.GradientCheckpointing = &estimator.Checkpointing{Mode: "full"} }

// The order of the founding story on an RTX 4070: halving the micro-batch is
// nearly free, each further halving costs more, recomputation about a third.
func TestStepTimesOfTheStory(t *testing.T) {
	c := CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16)
	today := storyWorkload(16, nil).PerToken(c, Expected)
	tests := []struct {
		name      string
		w         Workload
		low, high float64
	}{
		{"8 × 64", storyWorkload(8, nil), 1.005, 1.05},
		{"4 × 128", storyWorkload(4, nil), 1.04, 1.13},
		{"2 × 256", storyWorkload(2, nil), 1.10, 1.30},
		{"1 × 512", storyWorkload(1, nil), 1.25, 1.65},
		{"16 × 32 recomputed", storyWorkload(16, full), 1.22, 1.40},
	}
	for _, tt := range tests {
		got := tt.w.PerToken(c, Expected) / today
		t.Logf("%-20s %.3f", tt.name, got)
		if got < tt.low || got > tt.high {
			t.Errorf("%s takes %.3f times as long as 16 × 32, want %.2f to %.2f", tt.name, got, tt.low, tt.high)
		}
	}
}

// The whole step has to be plausible too: GPT-2 124M reaches 25 to 60 % of an RTX
// 4070's peak in reports of model FLOPs utilisation.
func TestStepTimeIsPlausible(t *testing.T) {
	c := CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16)
	perToken := storyWorkload(8, nil).PerToken(c, Expected)
	flops := 6*124e6 + 12*12*768*1024.0
	if mfu := flops / perToken / c.flops; mfu < 0.25 || mfu > 0.65 {
		t.Errorf("model FLOPs utilisation %.2f", mfu)
	}
}

// Small micro-batches cost more on faster cards, and most where the host cannot
// launch kernels fast enough.
func TestSmallMicroBatchesCostMoreOnFasterCards(t *testing.T) {
	h100 := estimator.GPU{ComputeCapability: 90, Multiprocessors: 132, PeakFLOPS: 989e12,
		BandwidthBytesPerSecond: 3350e9}
	compiled := func(t *estimator.Training) { t.Compile = &estimator.Compile{Model: true, Loss: true} }
	ratio := func(g estimator.GPU, change func(*estimator.Training)) float64 {
		c := CardOf(g, estimator.PrecisionAMPBF16)
		return storyWorkload(2, change).PerToken(c, Expected) / storyWorkload(16, change).PerToken(c, Expected)
	}
	slow, fast, fastCompiled := ratio(samples.RTX4070(), nil), ratio(h100, nil), ratio(h100, compiled)
	if !(slow < fastCompiled && fastCompiled < fast) {
		t.Errorf("2 × 256 beside 16 × 32: RTX 4070 %.2f, H100 compiled %.2f, H100 eager %.2f; want them rising", slow,
			fastCompiled, fast)
	}
}

func TestLeversMoveTimeTheRightWay(t *testing.T) {
	c := CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16)
	tests := []struct {
		name           string
		faster, slower func(*estimator.Training)
	}{
		{"fused attention", nil, func(t *estimator.Training) { t.Attention = "eager" }},
		{"no recomputation", nil, full},
		{"selective recomputation", func(t *estimator.Training) {
			t.GradientCheckpointing = &estimator.Checkpointing{Mode: "selective"}
		}, full},
		{"fused optimizer", nil, func(t *estimator.Training) {
			t.Optimizer = &estimator.Optimizer{Name: "adamw", Implementation: "foreach"}
		}},
		{"SGD", func(t *estimator.Training) {
			t.Optimizer = &estimator.Optimizer{Name: "sgd", Implementation: "fused"}
		}, nil},
	}
	for _, tt := range tests {
		faster, slower := storyWorkload(8, tt.faster).PerToken(c, Expected),
			storyWorkload(8, tt.slower).PerToken(c, Expected)
		if faster >= slower {
			t.Errorf("%s takes %.4g s a token, without it %.4g", tt.name, faster, slower)
		}
	}
	adapters := func(base string) float64 {
		w := storyWorkload(8, func(t *estimator.Training) { t.LoRA = &estimator.LoRA{Rank: 16, BasePrecision: base} })
		w.Trainable = 1e6
		return w.PerToken(c, Expected)
	}
	if plain, packed := adapters("bf16"), adapters("nf4"); plain >= packed {
		t.Errorf("a base in bf16 takes %.4g s a token, one in 4 bits, which has to be unpacked, %.4g", plain, packed)
	}
	fp32 := CardOf(samples.RTX4070(), estimator.PrecisionFP32)
	set := func(t *estimator.Training) { t.Precision = estimator.PrecisionFP32 }
	amp := storyWorkload(8, nil).PerToken(c, Expected)
	if single := storyWorkload(8, set).PerToken(fp32, Expected); amp >= single {
		t.Errorf("bfloat16 takes %.4g s a token, float32 %.4g", amp, single)
	}
}

func TestCardWithoutData(t *testing.T) {
	tests := []struct {
		name             string
		g                estimator.GPU
		flops, bandwidth float64
	}{
		{"nothing", estimator.GPU{}, 50e12, 500e9},
		{"vector rate", estimator.GPU{FP32FLOPS: 29.15e12, ComputeCapability: 89, BandwidthBytesPerSecond: 504e9},
			58.3e12, 504e9},
		{"vector rate of a card without matrix units", estimator.GPU{FP32FLOPS: 10e12, ComputeCapability: 61,
			BandwidthBytesPerSecond: 400e9}, 10e12, 400e9},
		{"bandwidth", estimator.GPU{BandwidthBytesPerSecond: 1e12}, 100e12, 1e12},
		{"peak rate", estimator.GPU{PeakFLOPS: 100e12}, 100e12, 1e12},
	}
	for _, tt := range tests {
		c := CardOf(tt.g, estimator.PrecisionAMPBF16)
		if math.Abs(c.flops-tt.flops) > 1 || math.Abs(c.bandwidth-tt.bandwidth) > 1 {
			t.Errorf("%s: %.4g FLOP/s and %.4g B/s, want %.4g and %.4g", tt.name, c.flops, c.bandwidth, tt.flops,
				tt.bandwidth)
		}
		for _, micro := range []int64{1, 8, 512} {
			if s := storyWorkload(micro, nil).PerToken(c, DearSmall); !(s > 0) || math.IsInf(s, 0) {
				t.Errorf("%s: %v seconds a token", tt.name, s)
			}
		}
	}
}
