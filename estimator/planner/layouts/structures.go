package layouts

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// structure is a layout without what is run again in backward and without a pair.
type structure struct {
	tool string
	d    estimator.Distributed
	// The GPUs are data·tensor·stages·context; shard of them share a copy of what the others leave of the state.
	data, tensor, stages, context, experts, shard int64
}

// name says the structure in the field's words.
func (x *structure) name() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	d := &x.d
	switch {
	case x.data*x.context == 1:
	case d.Data == "fsdp":
		kind := fmt.Sprintf("FSDP%d", max(d.FSDPVersion, 1))
		if d.FSDPVersion == 0 {
			kind = "FSDP"
		}
		if d.ShardGroup > 0 && d.ShardGroup < x.data {
			kind = fmt.Sprintf("HSDP (%d copies of %d)", x.data/d.ShardGroup, d.ShardGroup)
		} else {
			kind += fmt.Sprintf(" over %d", x.shard)
		}
		if k := d.ReshardAfterForward; k != nil && !*k {
			kind += ", gathered once"
		}
		add("%s", kind)
	case d.Data == "ddp":
		add("DDP over %d", x.data)
	default:
		add("ZeRO-%s over %d", strings.TrimPrefix(d.Data, "zero"), x.data)
	}
	for _, y := range []struct {
		n    int64
		what string
	}{{x.tensor, "tensor"}, {x.stages, "pipeline"}, {x.context, "context"}, {x.experts, "expert"}} {
		if y.n > 1 {
			add("%s %d", y.what, y.n)
		}
	}
	if len(parts) == 0 {
		return "one GPU"
	}
	return strings.Join(parts, " × ")
}

// launcher is who starts the structure: layouts of one launcher are held against each other.
func (x *structure) launcher() string {
	if strings.HasPrefix(x.d.Data, "zero") {
		return "deepspeed"
	}
	return x.tool
}

// Cluster is what a job may be spread over.
type Cluster struct {
	// GPUs is how many there are in all, and PerNode how many each host has; 0 is up to eight.
	GPUs, PerNode int64
	// NetworkBytesPerSecond is what the network carries for each GPU, each way; 0 is what hosts of the card have.
	NetworkBytesPerSecond float64
}

// MostGPUs is the largest cluster that a plan is made for: 2¹⁶, twice the largest published run on GPUs of one
// kind (Meta's Llama 4 on some 32,000).
const MostGPUs = 1 << 16
