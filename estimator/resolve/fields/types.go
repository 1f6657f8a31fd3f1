package fields

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step"
)

// Dtypes are the types that a job can name.
var Dtypes = map[string]step.DType{"fp32": step.F32, "bf16": step.BF16, "fp16": step.F16}

// Quantisations are the types of a base in integers.
var Quantisations = map[string]step.Quantisation{"nf4": step.NF4, "int8": step.Int8, "gptq-int4": step.GPTQ4,
	"gptq-int8": step.GPTQ8}

// MaxRank is beyond the width of every model.
const MaxRank = 1 << 20

// Named is the type called name, or otherwise where there is none.
func Named(name string, otherwise step.DType, pointer string, errs *invalid.List) step.DType {
	if name == "" {
		return otherwise
	}
	d, ok := Dtypes[name]
	if !ok {
		errs.Add(pointer, "unknown_value", "%.40q is not a type that is modelled here; fp32, bf16 and fp16 are", name)
	}
	return d
}

// StoredTypes are the types that a state can be stored in.
var StoredTypes = map[string]step.DType{"fp32": step.F32, "bf16": step.BF16, "fp16": step.F16}

// Precision is what training.precision says: the type of the parameters, that of matrix products, whether the forward
// runs under autocast and the loss is scaled.
type Precision struct {
	Stored, Compute  step.DType
	Autocast, Scaled bool
}

// PrecisionOf reads it.
func PrecisionOf(t *job.Training, errs *invalid.List) Precision {
	switch t.Precision {
	case "", job.PrecisionAMPBF16:
		return Precision{Stored: step.F32, Compute: step.BF16, Autocast: true}
	case job.PrecisionAMPFP16:
		return Precision{Stored: step.F32, Compute: step.F16, Autocast: true, Scaled: true}
	case job.PrecisionFP32, job.PrecisionTF32:
		return Precision{Stored: step.F32, Compute: step.F32}
	case job.PrecisionBF16:
		return Precision{Stored: step.BF16, Compute: step.BF16}
	case job.PrecisionFP16:
		return Precision{Stored: step.F16, Compute: step.F16}
	case job.PrecisionFP8:
		errs.Add("/training/precision", "unsupported", "fp8 is not modelled yet; amp-bf16, amp-fp16, fp32, tf32, "+
			"bf16 and fp16 are")
	default:
		errs.Add("/training/precision", "unknown_value", "precision is %.40q; amp-bf16, amp-fp16, fp32, tf32, bf16 "+
			"and fp16 are accepted", t.Precision)
	}
	return Precision{}
}

// ReadState is the type that a field of states names; ok is false where it names none.
func ReadState(field, value string, none bool, errs *invalid.List) (d step.DType, ok bool) {
	if value == "" || value == "none" && none {
		return 0, false
	}
	d, ok = StoredTypes[value]
	if !ok {
		errs.Add("/training/states/"+field, "unsupported", "%s is %.40q; fp32, bf16 and fp16 are modelled", field,
			value)
	}
	return d, ok
}
