package pipelines

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/step"
)

// tracedUNet is what a script of diffusers was seen to allocate, and to free with a negative sign, from the sines of
// the times to the UNet's prediction, and in backward from the gradient of its last convolution's input on.
// oracle/README.md says how lists of allocations are made; these are of scripts of diffusers under the same driver.
type tracedUNet struct {
	UNet, VAE         map[string]any
	Batch, Resolution int64
	Checkpointed      bool
	Rank              int64
	Forward, Backward []int64
}

func readTraced(t *testing.T, name string) tracedUNet {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "unet", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var traced tracedUNet
	if err := json.NewDecoder(z).Decode(&traced); err != nil {
		t.Fatal(err)
	}
	return traced
}

// onA100 is bfloat16 on an A100.
func onA100(stored step.DType) step.Recipe {
	return step.Recipe{Numerics: step.Numerics{Stored: stored, Compute: step.BF16, Autocast: true},
		Hardware: step.Hardware{ComputeCapability: 80, Multiprocessors: 108, ThreadsPerMultiprocessor: 2048}}
}

// moved are the bytes that events allocate, and free with a negative sign. Tensors that go one after another are
// sorted: which of them goes first says nothing.
func moved(p *step.Program) []int64 {
	var list []int64
	for _, e := range p.Events {
		switch e.Op {
		case step.Alloc, step.AllocFirst:
			list = append(list, p.Slots[e.Slot].Bytes)
		case step.Free:
			list = append(list, -p.Slots[e.Slot].Bytes)
		}
	}
	return list
}

func sortFrees(list []int64) []int64 {
	list = slices.Clone(list)
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && list[to] < 0 {
			to++
		}
		slices.Sort(list[from:to])
		from = max(to, from+1)
	}
	return list
}

// denoises runs a UNet and the mean of the squares of what it is off by.
type denoises struct {
	m       *unet
	latents int64
	in      denoising
	begins  int
	ends    int
}

func (n *denoises) Batch(*step.Tape) []step.T { return nil }

func (n *denoises) Forward(t *step.Tape, _ []step.T) (step.T, []step.T) {
	in := n.in
	given := step.BF16
	in.latents, in.embeddings = t.Input(n.latents, given), t.Input(in.batch*in.textTokens*n.m.own.context, given)
	if n.m.own.added > 0 {
		in.pooled = t.Input(in.batch*n.m.own.pooled(), given)
	}
	n.begins = len(moved(t.Prog))
	y := n.m.denoise(t, in)
	n.ends = len(moved(t.Prog))
	wide := t.Float(y, step.LabelCast)
	t.Drop(y)
	t.ExitAutocast()
	target := t.Input(wide.Numel(), step.F32)
	loss := t.SquaredError(wide, target)
	t.Drop(target, wide)
	return loss, nil
}

// TestUNetIsTraced: adapters on Stable Diffusion 1.5 with checkpoints, and all of Stable Diffusion XL without, allocate
// and free in the traced order what was traced.
func TestUNetIsTraced(t *testing.T) {
	for _, name := range []string{"sd15-lora-b4-512-ck.json.gz", "sdxl-full-b2-512.json.gz"} {
		t.Run(name, func(t *testing.T) {
			want := readTraced(t, name)
			var errs invalid.List
			c := arch.NewConfig("", &errs)
			c.Given, c.Defaults = want.UNet, unetDefaults
			o := readUNet(c).(unetOptions)
			if err := errs.Err(); err != nil {
				t.Fatal(err)
			}
			a, stored := &arch.Architecture{Irregular: true}, step.F32
			if want.Rank > 0 {
				stored = step.BF16
				a.LoRA = &arch.LoRA{Rank: want.Rank, Targets: []string{"to_k", "to_q", "to_v", "to_out.0"}, Dtype: stored,
					Half: stored}
			}
			b := &arch.Builder{A: a, Dtype: stored}
			m := o.declare(b, 0).(*unet)
			b.P.LayerStart = len(b.P.List)
			r := onA100(stored)
			if want.Checkpointed {
				r.CheckpointEvery = 1
			}
			const scale = 8
			side := want.Resolution / scale
			net := &denoises{m: m, latents: want.Batch * o.in * side * side,
				in: denoising{batch: want.Batch, rows: side,
					columns: side, textTokens: 77, pooled: step.NoTensor}}
			var tape step.Tape
			tape.Reset(r, step.Shape{Batch: want.Batch}, b.P)
			got := moved(tape.Record(net))
			same(t, "forward", got[net.begins:net.ends], want.Forward)
			from := net.ends + slices.Index(got[net.ends:], want.Backward[0])
			same(t, "backward", got[from:], want.Backward)
		})
	}
}

// same compares two lists but for their last frees: what goes when a function returns goes with what goes then.
func same(t *testing.T, what string, got, want []int64) {
	t.Helper()
	got, want = sortFrees(got), sortFrees(want)
	n := min(len(got), len(want))
	for n > 0 && (got[n-1] < 0 || want[n-1] < 0) {
		n--
	}
	if n < len(want)*99/100 || len(got) < len(want)*99/100 {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range n {
		if got[i] != want[i] {
			from := max(0, i-5)
			t.Fatalf("%s: event %d is %d, want %d, behind %v", what, i, got[i], want[i], want[from:i])
		}
	}
}

// TestAutoencoderIsTraced: encoding four pictures allocates and frees what was traced.
func TestAutoencoderIsTraced(t *testing.T) {
	want := readTraced(t, "vae-b4-512.json.gz")
	var errs invalid.List
	c := arch.NewConfig("", &errs)
	c.Given, c.Defaults = want.VAE, autoencoderDefaults
	o := readAutoencoder(c)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	b := &arch.Builder{A: &arch.Architecture{}, Dtype: step.BF16, Freezing: true}
	m := o.declare(b)
	var tape step.Tape
	tape.Reset(onA100(step.BF16), step.Shape{}, b.P)
	side := want.Resolution
	pixels := tape.Input(want.Batch*pictures.Rgb*side*side, step.BF16)
	m.encode(&tape, pixels, want.Batch, side, side)
	same(t, "forward", moved(tape.Prog)[1:], want.Forward)
}
