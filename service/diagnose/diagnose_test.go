package diagnose_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/diagnose"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// The messages below have PyTorch's own forms with numbers of ours.
const (
	former = "RuntimeError: CUDA out of memory. Tried to allocate %s (GPU 1; 10.00 GiB total capacity; %s already " +
		"allocated; %s free; %s reserved in total by PyTorch)"
	today = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %s. GPU 0 has a total capacity of %s of " +
		"which %s is free. " +
		"Including non-PyTorch memory, this process has %s memory in use. Of the allocated memory %s is allocated by " +
		"PyTorch, and %s is reserved by PyTorch but unallocated. " +
		"If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to " +
		"avoid fragmentation."
)

func explain(text string) diagnose.Cause {
	return diagnose.Read(text).Explain(diagnose.Job{}, nil)[0]
}

func TestCauses(t *testing.T) {
	traceback := func(frames ...string) string {
		return "Traceback (most recent call last):\n" + strings.Join(frames, "\n") + "\n"
	}
	full := fmt.Sprintf(today, "500.00 MiB", "24.00 GiB", "100.00 MiB", "23.80 GiB", "23.20 GiB", "100.00 MiB")
	tests := []struct {
		name, text string
		want       diagnose.Class
		says       string // in the evidence, the notes or the advice
	}{
		{"another process holds the card", fmt.Sprintf(today, "500.00 MiB", "24.00 GiB", "100.00 MiB", "9.00 GiB",
			"8.40 GiB", "100.00 MiB"), diagnose.ClassOtherProcess, "14.90 GiB"},
		{"another process is listed", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of " +
			"24.00 GiB of which 0 bytes is free. Process 7 has 15.00 GiB memory in use. Including non-PyTorch memory, " +
			"this process has 8.90 GiB memory in use. Of the allocated memory 8.40 GiB is allocated by PyTorch, and " +
			"10.00 MiB is reserved by PyTorch but unallocated.", diagnose.ClassOtherProcess, "process 7 has 15.00 GiB"},
		{"a container counts this process as another", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a " +
			"total capacity of 24.00 GiB of which 90.00 MiB is free. Process 4711 has 23.90 GiB memory in use. Of the " +
			"allocated memory 23.30 GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.",
			diagnose.ClassUnknown, "Process 4711 is this process"},
		{"what may be its own context is nobody else's", "RuntimeError: CUDA out of memory. Tried to allocate 2.30 GiB " +
			"(GPU 0; 23.69 GiB total capacity; 19.82 GiB already allocated; 1.11 GiB free; 21.03 GiB reserved in total " +
			"by PyTorch)", diagnose.ClassUnknown, ""},
		{"more than any context is somebody else's", "RuntimeError: CUDA out of memory. Tried to allocate 2.30 GiB " +
			"(GPU 0; 23.69 GiB total capacity; 15.82 GiB already allocated; 1.11 GiB free; 17.03 GiB reserved in total " +
			"by PyTorch)", diagnose.ClassOtherProcess, "4.30 GiB"},
		{"pieces", fmt.Sprintf(today, "2.00 GiB", "24.00 GiB", "100.00 MiB", "23.80 GiB", "15.20 GiB", "8.10 GiB"),
			diagnose.ClassFragmentation, "8.10 GiB"},
		{"pieces of a former release", fmt.Sprintf(former, "1.00 GiB", "5.00 GiB", "100.00 MiB", "9.00 GiB"),
			diagnose.ClassFragmentation, "4.00 GiB"},
		{"a few pieces are none", fmt.Sprintf(today, "90.00 MiB", "24.00 GiB", "20.00 MiB", "23.90 GiB", "23.20 GiB",
			"120.00 MiB"), diagnose.ClassUnknown, "not fragmentation"},
		{"the driver refuses", fmt.Sprintf(today, "80.00 MiB", "24.00 GiB", "9.00 GiB", "14.90 GiB", "14.20 GiB",
			"100.00 MiB"), diagnose.ClassDriverRefused, "pagefile"},
		{"a limit", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which " +
			"15.00 GiB is free. 8.00 GiB allowed; Of the allocated memory 7.00 GiB is allocated by PyTorch, and 10.00 " +
			"MiB is reserved by PyTorch but unallocated.", diagnose.ClassLimit, "8.00 GiB"},
		{"a copy of everything", fmt.Sprintf(former, "4.40 GiB", "4.40 GiB", "4.38 GiB", "4.40 GiB"),
			diagnose.ClassWeightsFlat, "all parameters"},
		{"a loss", traceback("  File \"a.py\", line 3, in forward",
			"    loss = F.cross_entropy(logits.view(-1, n), targets)") + full, diagnose.ClassLogits, "line 3"},
		{"an evaluation inside a trainer",
			traceback("  File \"/x/transformers/trainer.py\", line 9, in evaluation_loop",
				"    logits = nested_concat(a, b)") + full, diagnose.ClassEval, "eval_accumulation_steps"},
		{"the first step of an optimizer", traceback("  File \"/x/torch/optim/adam.py\", line 77, in step",
			"    state['exp_avg_sq'] = torch.zeros_like(p.data)") + full, diagnose.ClassOptimizerState, "8-bit"},
		{"foreach", traceback("  File \"/x/torch/optim/adamw.py\", line 6, in _multi_tensor_adamw",
			"    x = torch._foreach_sqrt(y)") + full, diagnose.ClassOptimizerTemporary, "fused"},
		{"a root of the second moment", traceback("  File \"/x/torch/optim/adamw.py\", line 380, in _single_tensor_adamw",
			"    denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)") + full, diagnose.ClassOptimizerTemporary,
			"exp_avg_sq.sqrt"},
		{"the same, with Python's marks", traceback("  File \"/x/torch/optim/adam.py\", line 380, in _single_tensor_adam",
			"    denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)",
			"             ~~~~~~~~~~~~~~~~~~^^^^^^^^^^^^^^^^^^^^^^^^") + full, diagnose.ClassOptimizerTemporary, ""},
		{"a library's optimizer", traceback("  File \"/x/transformers/optimization.py\", line 9, in step",
			"    update = (grad**2) + group[\"eps\"][0]") + full, diagnose.ClassOptimizerTemporary, ""},
		{"a library's state", traceback("  File \"/x/bitsandbytes/optim/optimizer.py\", line 9, in init_state",
			"    state[\"state1\"] = self.get_state_buffer(p, dtype=torch.uint8)") + full, diagnose.ClassOptimizerState, ""},
		{"float32 outputs", traceback("  File \"/x/accelerate/utils/operations.py\", line 806, in _convert_to_fp32",
			"    return tensor.float()") + full, diagnose.ClassLogits, "accelerate"},
		{"float32 outputs, from a notebook", "/x/accelerate/utils/operations.py in _convert_to_fp32(tensor)\n" +
			"    779 \n    780     def _convert_to_fp32(tensor):\n--> 781         return tensor.float()\n\n" + full,
			diagnose.ClassLogits, "accelerate"},
		{"attention's scores", traceback("  File \"/x/transformers/integrations/sdpa_attention.py\", line 9, in "+
			"sdpa_attention_forward", "    attn_output = torch.nn.functional.scaled_dot_product_attention(") + full,
			diagnose.ClassAttentionScores, ""},
		{"a compiled graph's logits", traceback("  File \"/tmp/torchinductor_x/ab/cab.py\", line 812, in call",
			"    buf9 = empty_strided_cuda((8192, 50304), (50304, 1), torch.float32)") + full, diagnose.ClassLogits,
			"8192 × 50304 in float32, 1.54 GiB"},
		{"a compiled graph's scores", traceback("  File \"/tmp/torchinductor_x/ab/cab.py\", line 812, in call",
			"    buf9 = empty_strided_cuda((8, 12, 1024, 1024), (12582912, 1048576, 1024, 1), torch.bfloat16)") + full,
			diagnose.ClassAttentionScores, "192.00 MiB"},
		{"a compiled graph's layer", traceback("  File \"/tmp/torchinductor_x/ab/cab.py\", line 812, in call",
			"    buf9 = empty_strided_cuda((8192, 3072), (3072, 1), torch.bfloat16)") + full, diagnose.ClassActivations,
			"48.00 MiB"},
		{"a shape that no card holds", traceback("  File \"/tmp/torchinductor_x/ab/cab.py\", line 812, in call",
			"    buf9 = empty_strided_cuda((9223372036854775807, 9223372036854775807), (1, 1), torch.float32)") + full,
			diagnose.ClassUnknown, ""},
		{"a full card", fmt.Sprintf(former, "850.00 MiB", "7.80 GiB", "863.44 MiB", "8.10 GiB"), diagnose.ClassUnknown,
			"13.44 MiB between them are no room"},
		{"a card that is full to the last page", fmt.Sprintf(former, "890.00 MiB", "7.80 GiB", "890.01 MiB", "8.10 GiB"),
			diagnose.ClassUnknown, "The card is full"},
		{"weights", traceback("  File \"/x/transformers/modeling_utils.py\", line 8, in "+
			"_load_state_dict_into_meta_model") + full, diagnose.ClassWeightsLoad, "zero3"},
		{"generation", traceback("  File \"/x/transformers/generation/utils.py\", line 8, in generate") + full,
			diagnose.ClassInference, ""},
		{"a checkpoint", traceback("  File \"t.py\", line 8, in main",
			"    optimizer.load_state_dict(torch.load(path))") + full, diagnose.ClassResume, "map_location"},
		{"NCCL", "n1:14:16 [0] init.cc:196 NCCL WARN Cuda failure 'out of memory'", diagnose.ClassNCCL,
			"outside PyTorch"},
		{"cuBLAS, and nothing besides", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling " +
			"`cublasCreate(handle)`", diagnose.ClassUnknown, "not only memory"},
		{"cuBLAS in a run", traceback("  File \"t.py\", line 8, in main", "    loss.backward()") +
			"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
			diagnose.ClassContext, "full"},
		{"before there were sizes", "RuntimeError: cuda runtime error (2) : out of memory at " +
			"/pytorch/THC/generic/THCStorage.cu:66", diagnose.ClassUnknown, "no sizes"},
		{"Apple's limit", "epoch 1\nMPS backend out of memory (MPS allocated: 16.00 GB, other allocations: 1.00 GB, max " +
			"allowed: 18.13 GB). Tried to allocate 2.00 GB on private pool.", diagnose.ClassLimit, "18.13 GiB"},
		{"the host", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0", diagnose.ClassHost, "--mem"},
		{"a small card", fmt.Sprintf(today, "20.00 MiB", "4.00 GiB", "5.00 MiB", "3.90 GiB", "3.40 GiB", "40.00 MiB"),
			diagnose.ClassFloor, "No batch fits"},
		{"larger than the card, and quadratic", fmt.Sprintf(former, "32.00 GiB", "5.00 GiB", "4.00 GiB", "5.10 GiB"),
			diagnose.ClassAttentionScores, "tokens × tokens"},
		{"cut off", "torch.OutOfMemoryError: CUDA out of memory.", diagnose.ClassUnknown, "cut off"},
		{"nothing", "epoch 3 loss 1.25", diagnose.ClassUnknown, ""},
		{"a card as CSV", "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n3, NVIDIA " +
			"A100-SXM4-40GB, 40960 MiB, 4 MiB, 40439 MiB", diagnose.ClassNone, "40439 MiB free and 517 MiB are kept"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := explain(tt.text)
			if c.Class != tt.want {
				t.Errorf("class %q, want %q: %v", c.Class, tt.want, c.Evidence)
			}
			said := fmt.Sprint(c.Summary, c.Evidence, c.Notes, c.Actions)
			if !strings.Contains(said, tt.says) {
				t.Errorf("does not say %q: %s", tt.says, said)
			}
		})
	}
}

// A message reads alike however a log or a terminal broke it.
func TestMessagesAreReadThroughWhatLogsDoToThem(t *testing.T) {
	plain := fmt.Sprintf(today, "848.00 MiB", "79.11 GiB", "356.88 MiB", "78.75 GiB", "77.81 GiB", "40.00 MiB")
	want := diagnose.Read(plain).Messages[0]
	broken := map[string]string{
		"broken at every twentieth letter": func() string {
			var b strings.Builder
			for i, r := range plain {
				if i%20 == 19 {
					b.WriteByte('\n')
				}
				b.WriteRune(r)
			}
			return b.String()
		}(),
		"in a box":          "│ " + plain[:90] + " │\n│ " + plain[90:] + " │",
		"in colours":        "\x1b[31m" + plain[:30] + "\x1b[0m" + plain[30:],
		"behind a rank":     "[rank3]: " + plain,
		"emphasised":        strings.Replace(plain, "78.75 GiB", "**78.75 GiB**", 1),
		"misspelt, as once": strings.Replace(plain, "capacity", "capacty", 1),
		"without spaces":    strings.Replace(plain, "848.00 MiB", "848.00MiB", 1),
		"Windows's ends":    strings.ReplaceAll(plain, ". ", ".\r\n"),
	}
	for name, text := range broken {
		got := diagnose.Read(text).Messages
		if len(got) != 1 {
			t.Errorf("%s: %d messages", name, len(got))
			continue
		}
		for _, pair := range [][2]*int64{{got[0].RequestedBytes, want.RequestedBytes},
			{got[0].TotalBytes, want.TotalBytes}, {got[0].FreeBytes, want.FreeBytes},
			{got[0].AllocatedBytes, want.AllocatedBytes}, {got[0].UnallocatedBytes, want.UnallocatedBytes},
			{got[0].ThisProcessBytes, want.ThisProcessBytes}} {
			if pair[0] == nil || pair[1] == nil || *pair[0] != *pair[1] {
				t.Errorf("%s: %+v", name, got[0])
				break
			}
		}
	}
	if r := diagnose.Read(broken["behind a rank"]).Messages[0].Rank; r == nil || *r != 3 {
		t.Errorf("rank %v", r)
	}
}

// What PyTorch prints for a tensor is found again by the window of requests that print so.
func TestWindowHoldsTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(1, 60*gib).Draw(t, "bytes")
		segment := segmentOf(bytes)
		text := fmt.Sprintf("CUDA out of memory. Tried to allocate %s. GPU 0 has a total capacity of 79.11 GiB of "+
			"which 0 bytes is free.", printed(segment))
		w, ok := diagnose.Read(text).Messages[0].Requests()
		if !ok || !w.Contains(bytes) {
			t.Fatalf("%d B asks for a segment of %d B, printed as %s, read as %+v", bytes, segment, printed(segment), w)
		}
	})
}

// segmentOf is what the allocator asks the driver for. Source: c10/cuda/CUDACachingAllocator.cpp (get_allocation_size),
// torch 2.9.
func segmentOf(bytes int64) int64 {
	bytes = (bytes + 511) / 512 * 512
	switch {
	case bytes <= mib:
		return 2 * mib
	case bytes < 10*mib:
		return 20 * mib
	}
	return (bytes + 2*mib - 1) / (2 * mib) * (2 * mib)
}

// printed is c10::format_size.
func printed(bytes int64) string {
	switch {
	case bytes <= 1024:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes <= mib:
		return fmt.Sprintf("%.2f KiB", float64(bytes)/1024)
	case bytes <= gib:
		return fmt.Sprintf("%.2f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/gib)
}

// Whoever holds the card, the accounting adds up: nothing is negative, and no more is counted than there is.
func TestAccountingAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(4*gib, 192*gib).Draw(t, "total")
		allocated := rapid.Int64Range(0, total).Draw(t, "allocated")
		unallocated := rapid.Int64Range(0, total-allocated).Draw(t, "unallocated")
		own := min(total, allocated+unallocated+rapid.Int64Range(200*mib, 600*mib).Draw(t, "context"))
		others := rapid.Int64Range(0, total-own).Draw(t, "others")
		requested := rapid.Int64Range(2*mib, total).Draw(t, "requested")
		c := explain(fmt.Sprintf(today, printed(segmentOf(requested)), printed(total), printed(total-own-others),
			printed(own), printed(allocated), printed(unallocated)))
		a := c.Accounting
		if a == nil || a.OthersBytes == nil {
			t.Fatalf("no accounting: %+v", c)
		}
		if slack := *a.OthersBytes - others; slack < -40*mib || slack > 40*mib {
			t.Fatalf("others hold %d, accounted %d", others, *a.OthersBytes)
		}
		if c.Class == diagnose.ClassOtherProcess && others < gib-40*mib {
			t.Fatalf("others are blamed and hold %d", others)
		}
	})
}

// The driver is said to have refused only where what was free leaves a margin beside what was asked for, and for
// certain only where that is wide.
func TestRefusalsNeedAMargin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requested := segmentOf(rapid.Int64Range(2*mib, 8*gib).Draw(t, "requested"))
		more := rapid.Int64Range(0, 2*gib).Draw(t, "more")
		own := rapid.Int64Range(gib, 8*gib).Draw(t, "own")
		total := requested + more + own + 400*mib
		c := explain(fmt.Sprintf(today, printed(requested), printed(total), printed(requested+more),
			printed(own+400*mib), printed(own), printed(0)))
		refused := c.Class == diagnose.ClassDriverRefused
		if rounding := int64(12 * mib); refused && more < 128*mib-rounding || !refused && more > 128*mib+rounding {
			t.Fatalf("%d MiB more are free than asked for: %s", more/mib, c.Class)
		} else if refused && c.Certainty == diagnose.Exact && more < 512*mib-rounding {
			t.Fatalf("%d MiB more are free than asked for, and %s is certain", more/mib, c.Class)
		}
	})
}

func TestJobNamesTheTensor(t *testing.T) {
	text := fmt.Sprintf(former, "198.00 MiB", "8.90 GiB", "60.00 MiB", "8.95 GiB")
	job := diagnose.Job{Known: true, AllocatedBytes: 10 * gib, FloorBytes: 2 * gib, Tensors: []diagnose.Candidate{
		{What: "logits", How: "1 × 1024 × 50257 × 4 B", Bytes: 1024 * 50257 * 4, Class: diagnose.ClassLogits},
		{What: "an MLP's output", Bytes: 1024 * 3072 * 4, Class: diagnose.ClassActivations},
	}}
	c := diagnose.Read(text).Explain(job, nil)[0]
	if c.Class != diagnose.ClassLogits || c.Certainty != diagnose.Exact || len(c.Candidates) != 1 {
		t.Errorf("%+v", c)
	}
	job.FloorBytes = 11 * gib
	if c := diagnose.Read(text).Explain(job, nil)[0]; c.Class != diagnose.ClassFloor {
		t.Errorf("a floor above the card is not the cause: %+v", c)
	}
	job.FloorBytes = 9500 * mib
	beside := diagnose.Read(fmt.Sprintf(today, "198.00 MiB", "10.00 GiB", "20.00 MiB", "9.20 GiB", "8.40 GiB",
		"100.00 MiB")).Explain(job, nil)[0]
	if beside.Class != diagnose.ClassFloor || beside.Certainty != diagnose.ClassOnly {
		t.Errorf("a floor above what the card leaves PyTorch is not the cause: %+v", beside)
	}
	job.FloorBytes = 8300 * mib
	if c := diagnose.Read(text).Explain(job, nil)[0]; c.Class != diagnose.ClassLogits {
		t.Errorf("a floor that fits is called the cause: %+v", c)
	}
}

func TestSeveralSortsOfOneSizeAreListedAndNotChosenFrom(t *testing.T) {
	text := diagnose.Read(fmt.Sprintf(former, "786.00 MiB", "8.90 GiB", "60.00 MiB", "8.95 GiB"))
	models := text.InModels([]diagnose.Model{
		{Name: "a", Parameters: 124e6, Layers: 12, Hidden: 768, FFN: 3072, Heads: 12, Vocabulary: 50257},
		{Name: "b", Parameters: 67e8, Layers: 32, Hidden: 4096, FFN: 16384, Heads: 32, Vocabulary: 50304}})
	c := text.Explain(diagnose.Job{}, models)[0]
	sorts := map[diagnose.Class]bool{}
	for _, t := range c.Candidates {
		sorts[t.Class] = true
	}
	if c.Class != diagnose.ClassUnknown || c.Certainty != diagnose.Untold || !sorts[diagnose.ClassLogits] ||
		!sorts[diagnose.ClassWeightsLoad] {
		t.Errorf("%+v", c)
	}
}

func TestExtractFindsTheFailureInALongLog(t *testing.T) {
	noise := strings.Repeat("step 100 loss 2.5 grad_norm 0.1 it/s 3.2\n", 60_000)
	text, err := diagnose.Extract(strings.NewReader(noise + "Traceback (most recent call last):\n  File \"t.py\", " +
		"line 1, in f\n    loss = F.cross_entropy(a, b)\n" +
		fmt.Sprintf(today, "500.00 MiB", "24.00 GiB", "100.00 MiB", "23.80 GiB", "23.20 GiB", "100.00 MiB") + "\n" +
		noise))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > diagnose.MaxTextBytes {
		t.Errorf("%d bytes kept", len(text))
	}
	if c := explain(text); c.Class != diagnose.ClassLogits {
		t.Errorf("%+v", c)
	}
	if _, err := diagnose.Extract(strings.NewReader("\x80\x04\x95...")); err == nil ||
		!strings.Contains(err.Error(), "pickle") {
		t.Errorf("a pickle: %v", err)
	}
	one := strings.Repeat("x", 3<<20)
	if text, err := diagnose.Extract(strings.NewReader(one)); err != nil || len(text) > diagnose.MaxTextBytes {
		t.Errorf("a line of 3 MiB: %d bytes kept, %v", len(text), err)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		fmt.Sprintf(today, "500.00 MiB", "24.00 GiB", "100.00 MiB", "9.00 GiB", "8.40 GiB", "100.00 MiB"),
		fmt.Sprintf(former, "17179869184.00 GiB", "5.00 GiB", "0 bytes", "9.00 GiB"),
		"| GPU reserved memory   |   12420 MB |   12420 MB |\n|   PyTorch CUDA memory summary, device ID 0 |",
		"index, name, memory.total [MiB], memory.used [MiB]\n0, x, 99999999999999999999 MiB, -1 MiB",
		"| 30%   29C    P8   22W / 450W |   507MiB /  24564MiB |",
		"\xff\xfe CUDA out of memory. Tried to allocate 1.00 GiB GPU 0; \x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var causes []diagnose.Cause
		if dear := process.Reading(len(text), func() {
			causes = diagnose.Read(text).Explain(diagnose.Job{}, nil)
		}); dear != nil {
			t.Error(dear)
		}
		for _, c := range causes {
			if c.Class == "" || c.Certainty == "" || c.Summary == "" {
				t.Errorf("%+v", c)
			}
			if c.Class == diagnose.ClassUnknown && c.Certainty == diagnose.Exact {
				t.Errorf("sure of nothing: %+v", c)
			}
		}
	})
}
