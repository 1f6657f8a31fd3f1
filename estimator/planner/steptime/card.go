package steptime

import "github.com/vramplan/vramplan/estimator"

// Card is what the model needs of a GPU, with every unknown filled in.
type Card struct {
	flops     float64 // of the precision that the job computes in
	bandwidth float64
	sms       float64 // 0 when unknown: no wave loss is charged
	Link      float64 // to another in the same host, each way
	Network   float64 // to other hosts, each way
}

// Where nothing is known of a card: 100 FLOP a byte, between a V100 (139) and an
// RTX 4070 (116) on one side and older cards on the other, at 500 GB/s. Only the
// ratio matters to relative times.
const (
	fallbackBandwidth    = 500e9
	fallbackFLOPsPerByte = 100
	// fallbackLink is sixteen lanes of PCI Express 4.0.
	fallbackLink = 31.5e9
)

// CardOf fills in what the catalog does not know of a card: half-precision matrix
// units run at twice the float32 vector rate on the consumer cards of every
// generation since Volta when they accumulate in float32 (RTX 4070: 58.3 and
// 29.15 TFLOP/s), and before Volta there are none.
func CardOf(g estimator.GPU, p estimator.Precision) Card {
	c := Card{flops: g.PeakFLOPS, bandwidth: g.BandwidthBytesPerSecond, sms: float64(g.Multiprocessors),
		Link: g.LinkBytesPerSecond, Network: networkOf(g)}
	if c.Link <= 0 {
		c.Link = fallbackLink
	}
	if c.flops <= 0 && g.FP32FLOPS > 0 {
		c.flops = 2 * g.FP32FLOPS
		if g.ComputeCapability > 0 && g.ComputeCapability < 70 {
			c.flops = g.FP32FLOPS
		}
	}
	switch {
	case c.flops <= 0 && c.bandwidth <= 0:
		c.bandwidth = fallbackBandwidth
		c.flops = fallbackFLOPsPerByte * c.bandwidth
	case c.flops <= 0:
		c.flops = fallbackFLOPsPerByte * c.bandwidth
	case c.bandwidth <= 0:
		c.bandwidth = c.flops / fallbackFLOPsPerByte
	}
	switch p {
	case estimator.PrecisionFP32:
		if g.FP32FLOPS > 0 {
			c.flops = g.FP32FLOPS
		} else {
			c.flops /= 4
		}
	case estimator.PrecisionTF32:
		c.flops /= 2 // half the half-precision rate on every card that has it
	case estimator.PrecisionFP8:
		if g.ComputeCapability == 0 || g.ComputeCapability >= 89 {
			c.flops *= 2
		}
	}
	return c
}
