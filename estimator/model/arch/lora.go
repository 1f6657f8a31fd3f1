package arch

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// LoRA are low-rank adapters on a frozen model, as peft 0.21 puts them there.
type LoRA struct {
	Rank    int64
	Dropout float64
	// Targets are the names of the modules that get an adapter, or their ends; AllLinear stands for all linear
	// layers but the head.
	Targets []string
	// Saved are the ends of the names of modules of which a copy is trained in full (modules_to_save).
	Saved []string
	// Decomposed is DoRA: the length of every row of a weight is trained, too.
	Decomposed bool
	// Dtype is the type of the adapters.
	Dtype step.DType
	// Base is how the weights of the linear layers are stored, Half the type in which the model is loaded before.
	Base step.Quantisation
	Half step.DType
	// Late says that adapters come to the GPU when all of the base is there, whatever its type is.
	Late bool
	// Returns says that embeddings and head, once cast to float32 with all that is not quantised, are cast back (trl).
	Returns bool
	// Foreign says that the adapters are not peft's.
	Foreign bool
	// Lists says that the last parts of the names of linear layers stand for AllLinear.
	Lists bool
	// Unscaled says that what an adapter adds is multiplied by one.
	Unscaled bool
	// Biases are trained beside the adapters.
	Biases Biases
	// Layers are the numbers of the layers that get adapters, nil for all.
	Layers []int64
	// Ranks are those of some of the modules.
	Ranks []*RankPattern
	// Excluded are the names, or their ends, of modules that get no adapter though a target means them.
	Excluded []string
	// patterns are the targets that are regular expressions.
	patterns []*regexp.Regexp
	// folded says that a tensor of a mixture has an adapter, and dropped that a linear layer has none for it.
	folded, dropped bool
	// Fused are the tensors of a mixture that get adapters, and names those by which the job means them.
	Fused fusedTargets
	names fusedNames
	// Apart says that FullyShardedDataParallel wraps every adapter by itself and gathers it in a half type, while what
	// a module reads the type of is the part that this GPU keeps, in float32. Source: peft/tuners/tuners_utils.py
	// (_cast_input_dtype), 0.21. On a base in GPTQ autocast is left to do it (tuners/lora/gptq.py).
	Apart bool
}

// returned are parts of the names of the modules that trl's SFTTrainer casts back.
// Source: trl/models/utils.py (peft_module_casting_to_bf16), trl 0.13 to 0.23.
var returned = []string{"lm_head", "embed_tokens", "wte", "wpe"}

// loading is how a parameter that is not quantised comes to be stored, and the type in which it is, which is d but for
// those that are cast back.
func (l *LoRA) loading(name string, d step.DType) (step.Loading, step.DType) {
	switch {
	case l.Base == step.NotQuantised || d == l.Half:
		return step.LoadedAsStored, d
	case l.Returns && slices.ContainsFunc(returned, func(part string) bool { return strings.Contains(name, part) }):
		return step.Returned, l.Half
	}
	return step.LoadedInHalf, d
}

// Quantise stores the weight of a linear layer as the base is stored.
func (b *Builder) Quantise(w step.Weight) step.Quantisation {
	l := b.A.LoRA
	if l == nil || l.Base == step.NotQuantised || b.P.List[w.Index].Trained() {
		return step.NotQuantised
	}
	p := &b.P.List[w.Index]
	p.Quantised, p.Dtype, p.Loading = l.Base, l.Half, step.LoadedAsStored
	return l.Base
}

// Folded says that a tensor of a mixture has an adapter, which its module adds to it.
func (l *LoRA) Folded() bool { return l.folded }

// adding is how the adapters come to the GPU.
func (l *LoRA) adding() step.Loading {
	if l.Late {
		return step.Added
	}
	switch l.Base {
	case step.NotQuantised:
		return step.LoadedAsStored
	case step.NF4, step.NF4Double:
		if l.Half != step.F32 {
			return step.AddedInHalf
		}
	}
	return step.Added
}

// AllLinear is the target that stands for every linear layer of the model but its head.
const AllLinear = "all-linear"

// Adapts says whether the module of this name gets an adapter.
// Source: peft/tuners/tuners_utils.py (check_target_module_exists), 0.21.
func (l *LoRA) Adapts(name string) bool {
	return !l.drops(name) && !l.excludes(name) && (l.all() || l.named(name))
}

// named says whether a target stands for the module of this name and no others; the head is adapted where one does.
func (l *LoRA) named(name string) bool {
	return slices.ContainsFunc(l.Targets, func(target string) bool {
		return name == target || strings.HasSuffix(name, "."+target)
	})
}

// defaultTargets are the modules that peft adapts where the job names none, by model type.
// Source: peft/utils/constants.py (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING), 0.21.
var defaultTargets = map[string][]string{
	"t5": {"q", "v"}, "mt5": {"q", "v"}, "bart": {"q_proj", "v_proj"}, "gpt2": {"c_attn"}, "bloom": {"query_key_value"},
	"opt": {"q_proj", "v_proj"}, "gptj": {"q_proj", "v_proj"}, "gpt_neox": {"query_key_value"},
	"gpt_neo": {"q_proj", "v_proj"},
	"bert":    {"query", "value"}, "roberta": {"query", "value"}, "xlm-roberta": {"query", "value"},
	"electra": {"query", "value"}, "deberta-v2": {"query_proj", "value_proj"},
	"llama": {"q_proj", "v_proj"}, "mistral": {"q_proj", "v_proj"}, "mixtral": {"q_proj", "v_proj"},
	"stablelm":    {"q_proj", "v_proj"},
	"gpt_bigcode": {"c_attn"}, "mpt": {"Wqkv"}, "falcon": {"query_key_value"}, "codegen": {"qkv_proj"},
	"phi": {"q_proj", "v_proj", "fc1", "fc2"}, "gemma": {"q_proj", "v_proj"}, "gemma2": {"q_proj", "v_proj"},
	"gemma3_text": {"q_proj", "v_proj"}, "qwen2": {"q_proj", "v_proj"}, "qwen3": {"q_proj", "v_proj"},
}

// Adapt puts adapters on the model. pointer is where the job asks for them.
func (a *Architecture) Adapt(l LoRA, pointer string, errs *invalid.List) {
	if a.Described == nil || a.Layers == 0 {
		return // said already
	}
	if a.NanoGPT() {
		errs.Add(pointer, "unsupported", "nanoGPT's train.py has no LoRA; give the model as hf_config or as a "+
			"preset of transformers")
		return
	}
	if len(l.Targets) == 0 {
		l.Targets = a.defaultTargets()
	}
	if len(l.Targets) == 0 {
		errs.Add(pointer+"/target_modules", "required", "peft has no default for %s; name the modules, or %q", a.Family,
			AllLinear)
		return
	}
	l.compile(a, pointer+"/target_modules", errs)
	l.readRanks(pointer, errs)
	l.convert(a, pointer+"/target_modules", errs)
	a.LoRA = &l
	a.Irregular = a.Irregular || l.differs()
	b := Builder{A: a, Recorded: a.distinctLayers(), saved: map[string]bool{}, torn: map[string]bool{},
		used: map[string]bool{}}
	a.Modules(&b)
	a.checkSaved(&b, pointer+"/modules_to_save", errs)
	b.refuseTargets(pointer+"/target_modules", errs)
	if a.Described.RefuseTargets != nil {
		a.Described.RefuseTargets(a, pointer+"/target_modules", errs)
	}
	l.dropped = b.dropped
	if l.folded = b.folded; l.folded {
		l.refuseFolded(pointer, errs)
	}
	a.headAdapted = b.headAdapted
	a.refuseSelection(&b, pointer, errs)
	if b.partly != "" {
		errs.Add(pointer+"/target_modules", "unsupported",
			"adapters on %s in some of the layers are not modelled; those in "+
				"all of them are", b.partly)
	}
	if b.Foreign != "" {
		errs.Add(pointer+"/target_modules", "conflict",
			"the targets mean %s, too, which is no linear layer but a module "+
				"around one, and peft stops there; name those of the text model by a regular expression, such as %q",
			b.Foreign,
			`.*language_model.*\.(q_proj|v_proj)`)
	}
	if b.adapted == 0 {
		errs.Add(pointer+"/target_modules", "unknown_value",
			"no module of the model is called %.200s; its linear layers are %.500s",
			strings.Join(l.Targets, " or "), strings.Join(distinct(b.linears), ", "))
	}
}

// refuseTargets names the targets that are no linear layer of the model's body: peft adapts embeddings and heads,
// too, in a way of their own.
func (b *Builder) refuseTargets(pointer string, errs *invalid.List) {
	for _, name := range b.modules {
		if b.A.LoRA.named(name) && !b.A.LoRA.drops(name) {
			errs.Add(pointer, "conflict",
				"the targets mean %s, too, which is no linear layer in this release of transformers, "+
					"and peft stops there (Target module … is not supported); leave %s out", name, leaf(name))
			return
		}
	}
	for _, name := range b.Others {
		if slices.Contains(b.linears, name) || slices.Contains(b.modules, name) ||
			slices.Contains(b.A.LoRA.Targets, AllLinear) {
			continue
		}
		if b.A.LoRA.Adapts(name) {
			errs.Add(pointer, "unsupported", "an adapter on %s is not modelled yet; those on %s are", name,
				strings.Join(distinct(b.linears), ", "))
			return
		}
	}
}

func distinct(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// defaultTargets are peft's for the model's type, or for the described family that stands in for it. Of a model that
// reads pictures peft knows none: those of its text model's type are what people name for it.
func (a *Architecture) defaultTargets() []string {
	targets, ok := defaultTargets[a.Family]
	own, sees := a.Own.(seer)
	switch {
	case ok:
		return targets
	case !sees && a.Described.WithoutTower != "": // Gemma3ForCausalLM, whose configuration is of this type
		return defaultTargets["gemma3_text"]
	case sees:
		return defaultTargets[own.TextFamily().ModelType]
	case a.Generic:
		return defaultTargets[a.Described.ModelType]
	}
	return nil
}

// TextTargets are the modules that get adapters where a job of a model with towers names none.
func (a *Architecture) TextTargets() []string {
	if !a.HasTower() {
		return nil
	}
	return a.defaultTargets()
}

// adapter is what peft's lora.Linear adds to a linear layer: lora_A, lora_B and, before them, dropout; for DoRA the
// magnitude, too.
type adapter struct {
	down, up, magnitude step.Weight
	dropout             float64
	castless            bool    // the input is not cast to the adapter's type
	apart               bool    // it is cast to float32 first
	parts               []int64 // litgpt's adapter for parts of so many rows of a layer
	width               int64   // as wide as width; nil otherwise
}

// Adapter declares the adapter of the linear layer name; nil where it gets none.
func (b *Builder) Adapter(name string, in, out int64) *adapter {
	l := b.A.LoRA
	if l == nil {
		return nil
	}
	b.linears = append(b.linears, name)
	b.dropped = b.dropped || l.drops(name) && (l.all() || l.named(name))
	if !l.Adapts(name) && !b.Matched(name) || l.excludes(name) || !b.chooses() {
		return nil
	}
	if b.saves(name) {
		b.tear(name)
		return nil
	}
	b.adapted++
	return b.adapt(name, in, out, l.adding())
}

// HeadAdapter is adapter for the head, with the matrix w, which is never quantised: its adapter is made in the type
// that the head has at that moment.
func (b *Builder) HeadAdapter(name string, w step.Weight, in int64) *adapter {
	l := b.A.LoRA
	if l == nil || !l.named(name) || l.excludes(name) || !b.chooses() || b.saves(name) {
		return nil
	}
	b.linears = append(b.linears, name)
	b.adapted++
	loading := step.LoadedAsStored
	switch p := &b.P.List[w.Index]; {
	case l.Base == step.NotQuantised:
	case p.Loading == step.LoadedAsStored && l.Half != step.F32:
		loading = step.AddedInHalf
	default:
		loading = step.Added
	}
	b.headAdapted = true
	return b.adapt(name, in, w.Rows, loading)
}

// adapt declares an adapter.
func (b *Builder) adapt(name string, in, out int64, loading step.Loading) *adapter {
	return b.adaptRank(name, in, out, b.rankOf(name), loading)
}

// adaptRank is adapt of a rank that is not the job's.
func (b *Builder) adaptRank(name string, in, out, rank int64, loading step.Loading) *adapter {
	l := b.A.LoRA
	trained := func(part string, rows, cols int64) step.Weight {
		p := step.Parameter{Name: name + part, Numel: rows * cols, Rows: rows, Cols: cols, Dtype: l.Dtype,
			Loading: loading}
		return step.Weight{Index: b.Declare(p), Rows: rows, Cols: cols}
	}
	m := &adapter{down: trained(".lora_A", rank, in), up: trained(".lora_B", out, rank), magnitude: step.NoWeight,
		dropout: l.Dropout, castless: b.A.Castless, apart: l.Apart && l.Base == step.NotQuantised}
	if l.Decomposed {
		m.magnitude = trained(".lora_magnitude_vector", out, 1)
	}
	return m
}

// forward is the layer with its adapter.
func (m *adapter) forward(t *step.Tape, base *Linear, x step.T) step.T {
	t.Modules(1)
	if t.AdaptersOff() {
		return base.base(t, x)
	}
	if t.Recipe.Kernels.LoRA && base.Quantised != step.Int8 && !m.magnitude.Exists() && m.parts == nil {
		return t.FusedAdapter(x, base.W, base.Quantised, m.down, m.up, m.dropout)
	}
	switch {
	case m.parts != nil:
		return m.besideParts(t, base, x)
	case m.castless, base.Quantised == step.NotQuantised, base.Quantised == step.GPTQ4, base.Quantised == step.GPTQ8:
		return m.beside(t, base, x)
	}
	return m.besideQuantised(t, base, x)
}

// beside is peft's lora.Linear: base(x) + lora_B(lora_A(dropout(x)))·scaling, with x in the adapter's type and the
// result in the base's.
// Sources: peft/tuners/lora/layer.py (Linear.forward), gptq.py, 0.21.
func (m *adapter) beside(t *step.Tape, base *Linear, x step.T) step.T {
	result := base.base(t, x)
	d := result.Dtype()
	if m.castless {
		x = t.Hold(x)
	} else {
		x = t.AdapterInput(x, m.inputType(t))
	}
	var sum step.T
	if m.magnitude.Exists() {
		sum = m.decomposed(t, base, x, result)
	} else {
		delta := m.delta(t, x, base)
		sum = t.Add(result, delta, step.LabelLinear)
		t.Drop(delta)
	}
	t.Drop(result)
	y := t.Cast(sum, d, step.LabelLinear)
	t.Drop(sum, x)
	return t.Written(y)
}

// inputType is the type that the input is cast to.
func (m *adapter) inputType(t *step.Tape) step.DType {
	if m.apart {
		return step.F32
	}
	return t.Parameter(m.down).Dtype()
}

// besideQuantised is peft's Linear4bit and Linear8bitLt: they leave the casts to autocast where it is on, and the
// former clones what the base returns.
// Source: peft/tuners/lora/bnb.py, 0.21.
func (m *adapter) besideQuantised(t *step.Tape, base *Linear, x step.T) step.T {
	result := base.base(t, x)
	if base.Quantised != step.Int8 {
		clone := t.Contiguous(result)
		t.Drop(result)
		result = clone
	}
	x = t.Hold(x)
	back := func(y step.T) step.T { return y }
	if !t.Recipe.Autocast {
		x = recast(t, x, t.Parameter(m.down).Dtype())
		back = func(y step.T) step.T { return recast(t, y, result.Dtype()) }
	}
	var y step.T
	if m.magnitude.Exists() {
		y = back(m.decomposed(t, base, x, result))
	} else {
		delta := back(m.delta(t, x, base))
		y = t.Add(result, delta, step.LabelLinear)
		t.Drop(delta)
	}
	t.Drop(result, x)
	return y
}

// delta is lora_B(lora_A(dropout(x)))·scaling.
func (m *adapter) delta(t *step.Tape, x step.T, base *Linear) step.T {
	up := m.update(t, t.Dropout(x, m.dropout), base)
	y := t.MulScalar(up, step.LabelAdapter)
	t.Drop(up)
	return y
}

// update is lora_B(lora_A(x)). It takes over x.
func (m *adapter) update(t *step.Tape, x step.T, base *Linear) step.T {
	linear := t.Linear
	if base.Matrix {
		linear = t.LinearMatrix
	}
	low := linear(x, m.down, step.NoWeight, step.LabelAdapter)
	t.Drop(x)
	up := linear(low, m.up, step.NoWeight, step.LabelAdapter)
	t.Drop(low)
	return t.Heads(up, base.Relays)
}
