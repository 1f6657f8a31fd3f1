package main

import (
	"fmt"
	"io"
)

// Document writes the page that publishes the report.
func (r *Report) Document(w io.Writer, today *Today, p *Published, several *Several, ranks *Ranks, u *Undescribed,
	c *Calibrated, worst int) {
	fmt.Fprintf(w, `# Accuracy

This page is made by %[1]sgo run ./estimator/accuracy -markdown%[1]s; %[1]smake accuracy%[1]s prints the same table and fails when a case leaves its band:
allocated bytes of every eager row within 1 %%, of half of all within 0.1 %% and of nine in ten within 0.5 %%; nine in ten compiled rows within
5 %%; reserved bytes of nine in ten within 3 %%; no upper bound below the smallest limit of an eager row.

The reference is %[2]d training steps that unmodified PyTorch 2.9.1 (CUDA 12.8) with transformers 4.57.6 made over a stand-in for the CUDA
driver, which hands out addresses and launches nothing. Dispatch, autocast, autograd, optimizers, GradScaler and the caching
allocator are PyTorch's own, so sizes, lifetimes and the allocator's own counters are too. What only a real driver adds, the
CUDA context above all, is in none of these numbers; steps of a [real card](card.md) are held apart. The cases are in
%[1]sestimator/accuracy/testdata/*.jsonl%[1]s.

Beside the counters, whole sequences are compared: %[1]sgo test ./estimator -run TestReplayEqualsTraces%[1]s holds more than 1,500 small jobs over all
modelled families and switches against every allocation and free of two or three optimizer steps, more than six million events.
%[1]sgo test ./estimator -run TestSegmentsEqualTraces%[1]s does so for what the allocator takes from the driver and gives back: 59 jobs on torch
2.15 and 2.9.1, with fixed and with expandable segments, with room and on the smallest card, found to 2 MiB, on which they finish.

`, "`", len(r.Rows))
	r.Print(w, true, worst)
	fmt.Fprintf(w, `
How to read it: **alloc=**, **resv=**, **expand=** are the share of cases that are equal to the byte in allocated bytes, in reserved bytes and in
reserved bytes with expandable segments; **median**, **p90** and **max** are of the absolute error; **phase** is how often the phase of the peak is
right.

## Today's releases
The reference of an answer without versions is torch 2.15.0 (CUDA 13.2) with transformers 5.23.0. The same kind of table for
`)
	fmt.Fprintf(w, `%[2]d of the steps, made again with these (%[1]sestimator/accuracy/testdata/today/*.jsonl%[1]s). %[1]smake accuracy%[1]s fails where a row of a family that is called
proven (%[1]sproven_on%[1]s) differs by a byte in allocated bytes, and where a row of another lies outside its bounds. Decoders were traced over a driver
that reads the sum of an all-ones mask as 0, and so as batches with padding: their jobs say %[1]sattention_mask%[1]s explicit. Checkpoints were asked for
with use_reentrant=True, and the jobs say so.

`, "`", len(today.Rows))
	today.Print(w, true, worst)
	fmt.Fprint(w, `
## By component
What is alive at the peak, by component, against the traced list (named by the operation that made each tensor), as a share of the peak:

`)
	r.PrintComponents(w)
	fmt.Fprint(w, `
## Beside the rules
The same rows, where a rule speaks of them (decoders, trained in full with AdamW on one GPU), allocated bytes:

`)
	r.PrintRules(w)
	fmt.Fprintf(w, `
A rule that leaves the logits out is far off for small models, one that counts unfused attention for long sequences; none knows the moment of
the peak.

## Published runs on real cards
%[2]d runs on one GPU that others published, each as the job that its source describes, with other versions of PyTorch and
transformers than the reference: %[1]sestimator/accuracy/testdata/measured/one-gpu.jsonl%[1]s (each with its source). Errors are averaged over the runs of a series first,
because the runs of a sweep share what is wrong with them. %[3]d of them are answered.

`, "`", p.Runs, p.Answered)
	p.Print(w)
	fmt.Fprintf(w, `
Where the process figures are far off: fms-acceleration's runs with a fused loss and its kernels allocate what is replayed, and reserve up to
a quarter more, as much as with the ordinary loss, which we cannot explain; its runs of January 2025 read about 1,300 MiB more than the
allocator and a usual context, whatever the job. On a card that has less than the job would reserve, but enough for it, the figure is that of the
replay under what the card has (%[1]sgpus[].device_bytes%[1]s).

## Bounds
These widths were read off the same runs that the coverage above is counted on, and the older releases' behaviour was found by looking at them, too, so
both figures say how well the runs are explained, not how well new ones would be. The context of CUDA 11 is that of the guide from which nine of the
process figures come. The 28 facts are all runs that ran out of memory: 27 are called does_not_fit and one unlikely. None says that a run fits, so they do not test
false alarms.

Each answer lists under %[1]sdoubts%[1]s why %[1]slow_bytes%[1]s and %[1]shigh_bytes%[1]s lie where they do. By how much the published runs ask for the allocator's bytes to be stretched, once
a usual context is taken off (%[1]sgo run ./estimator/accuracy -fit%[1]s):

`, "`")
	p.PrintFit(w)
	fmt.Fprintf(w, `
## Calibrated to the published runs
The same runs, taken as the [observations](../operations.md#calibration) of a site (%[1]sgo run ./estimator/accuracy -calibrate%[1]s). One group of jobs has enough of them; the
others keep the built-in constants:

`, "`")
	c.Print(w)
	fmt.Fprint(w, `
Most runs of one of the two large publications take 1,300 MiB or more over the replay and a usual context, most of those of the other take less. Where one
of them is to foretell the other, the fitted bounds therefore cover less than they promise: a fit speaks for runs like those that it was made of. The
built-in bounds were read off all of these runs, so their coverage here is no test.
`)
	several.document(w)
	ranks.document(w)
	fmt.Fprintf(w, `
## Families that nobody described
A decoder of an unknown model_type is put together from the dimensions in its config.json. These runs, of families of transformers
that are read here under a name without a description even where they have one, were traced like those above (%[1]sestimator/accuracy/testdata/undescribed/*.jsonl%[1]s); parameters, allocated and reserved
bytes are answer / truth − 1, low and high the bounds of the answer without the CUDA context, as shares of the traced reserved bytes.
%[1]sgo run ./estimator/accuracy%[1]s makes the table and fails where a run is not between its bounds or its allocated bytes are off by more than 12 %%.
Families with other activations than the known ones (xIELU) are refused, as are those whose experts, states or encoders a config.json only hints
at, and those with GELU or ReLU whose norm is not told to be a LayerNorm (rms_norm_eps, norm_eps): some of these have a gate in their MLP, and no key says so. Where attention is written out (xglm), families differ most.

`, "`")
	u.Print(w)
	fmt.Fprintf(w, `
## One thing otherwise
`+"`make flips FLIPS=1000`"+` (`+"`oracle/flips.py`"+`) draws jobs of the Trainer in which one key of the configuration, one set of modules with adapters or one switch is otherwise, traces
them in transformers' own Trainer, and keeps those whose allocated bytes differ by more than 0.05 %%. Of the first 120 that seed 39 draws, on torch 2.15 and transformers 5.23, PyTorch or peft refuse 14:

| what is otherwise | traced | equal | within 0.05 %% | within 0.5 %% | refused here | above high_bytes |
|---|---|---|---|---|---|---|
| a key | 54 | 47 | 50 | 50 | 2 | 0 |
| modules with adapters | 19 | 10 | 17 | 17 | 0 | 0 |
| a switch | 33 | 28 | 32 | 33 | 0 | 0 |

What differed is mended: an adapter on the decoder of a masked-word head (BERT was -2.8 %%, RoBERTa -7.2 %%), output_attentions of Falcon (-2.4 %%), sinusoidal_pos_embds of DistilBERT (-2.0 %%); Seed-OSS
without dropout (-0.3 %%) was the judge's fault, who did not put it into the configuration. A run of all 1,000 has not been made.

Jobs of the Trainer are answered as the Trainer runs them. A plain loop over the same model differs: under autocast accelerate makes what the model returns float32, a batch waits for
the whole optimizer step, and use_cache is the Trainer's. Of 23 jobs whose trace in a plain loop was more than 0.05 %% from the answer (up to 14 %%), 16 are within 0.05 %% of a trace in the Trainer itself and 20 within 0.5 %%; the
others are CodeGen (-1.0 and +0.9 %%), Persimmon under YaRN (-1.1 %%), BioGPT (+0.3 %%) and MiniMax M2 with dropout (+0.06 %%). The framework pytorch is the plain loop.

Of the ranks above, 22 were traced again on torch 2.15 and transformers 5.23: 14 within 0.05 %%, 19 within 0.5 %%. FSDP1 with adapters (+7.2 %%) and checkpointed GPT-NeoX under FSDP1 (+2.8 %%) differ there, and
a rank of a ZBV schedule (+4.1 %%).

The Trainer has FSDP1 send the first GPU's parameters to the others while it wraps (sync_module_states), and its copies of large tensors stay reserved: seven FSDP1 ranks that had been traced without that were traced again in
the Trainer; before, the answers were up to 15 %% too low in reserved bytes there.

Of boards, an H200 alone was measured by us: [card.md](card.md).

## Training loops
`+"`"+`make loops STACK=torch-2.15`+"`"+` trains a Llama of 4.6 million parameters for four steps and holds what the wheel's fronts said before the first against PyTorch's own counters, on the stand-in driver
(torch 2.15, transformers 5.23, peft 0.21, Lightning 2.6):

| loop | allocated, measured | predicted | off |
|---|---|---|---|
| Trainer, amp-bf16, fused AdamW | 112,055,296 | 112,055,296 | 0 |
| Trainer, bf16 alone, two micro-steps, foreach AdamW | 80,630,272 | 80,630,272 | 0 |
| Trainer, LoRA on all linear layers, checkpointed | 32,272,384 | 32,272,384 | 0 |
| Trainer, an evaluation after each step | 112,055,296 | 112,055,296 | 0 |
| Trainer, amp-bf16, DistributedDataParallel, one of two ranks | 130,934,272 | 130,931,712 | -0.002 %% |
| Trainer, amp-bf16, FSDP2, one of two ranks | 73,097,216 | 73,097,216 | 0 |
| plain loop, amp-bf16, foreach AdamW | 117,398,528 | 117,410,816 | +0.01 %% |
| plain loop, RMSprop | 99,039,232 | 99,051,520 | +0.01 %% |
| Lightning, bf16-mixed, two micro-steps | 130,392,576 | 130,383,872 | -0.01 %% |
| Lightning, bf16-mixed | 129,745,408 | 130,383,872 at most | +0.5 %% |

Reserved bytes are equal in all ten. The other rank says nothing (`+"`oracle/ranks`"+`); on the CPU DistributedDataParallel runs with two processes. The fronts estimate no run under
DeepSpeed, FSDP1 or Lightning on several GPUs unless `+"`job=`"+` is given: none was held against a measurement. Lightning's closure lets go of gradients between forward and backward (lightning 2.6, pytorch/loops/optimization/automatic.py), which no row of frameworks has: the job of one
micro-step says 112,024,576 (-13.7 %%), so that the callback asks for two. On the CPU the same cases predict the same and measure nothing.

## What this does not show
- **Other software.** Versions that differ in the loss, in masks or in caches differ in bytes. Older transformers make one more float32
  copy of the logits; PyTorch before 2.1 has other optimizer temporaries.
- **The device figure.** The CUDA context is a mean of seven published figures (246 to 553 MiB), on Hopper with
  CUDA 13 that of one H200 (751 to 767 MiB), see [how it works](../how-it-works.md).
- **Recipes that are not modelled.** They are refused, and so they are in no table here.
- **Real boards.** One H200 was measured ([card.md](card.md)), with one release of PyTorch.
- **Turing cards.** The stand-in gave them the 2,048 threads a multiprocessor of other generations; the estimator takes the 1,024 that
  they have, which moves the scratch of a few sums.
`)
}
