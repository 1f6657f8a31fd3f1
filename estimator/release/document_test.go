package release_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/vramplan/vramplan/estimator" // whose packages declare the changes
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/oracle/drift/result"
)

var update = flag.Bool("update", false, "write docs/lab/releases.md anew")

const page = "../../docs/lab/releases.md"

const head = `# Releases

What releases of the training software changed in what a step allocates. ` + "`training.versions`" + ` of a job picks the rows; a library that a job does
not name counts as that of the first stack, which is the reference, or, where the job names an older torch or transformers, as that of the
newest stack that is not newer than what it names: nobody runs an old torch with today's transformers. A release beside the traced ones, or a family that was not traced with them, widens the bounds of
an answer, whose note ` + "`versions`" + ` says so. "Not yet in" is the last release that is known not to have the change: in which release between
the two it came is not known. Which traces hold a threshold on either side, and where none does, is in estimator/testdata/thresholds.txt: a
test moves each threshold past the traced release beside it and expects that trace to differ. Beside the traced releases an answer is in doubt.

` + "`vramplan releases`" + ` prints these tables, ` + "`GET /v1/releases`" + ` answers with them. This page is generated: go test ./estimator/release -update.

`

const drift = `
## What stacks between show

The corpus of oracle/ (32 jobs) was traced with one library of another release, all else that of the first stack, and every row of that library
that came between the two stacks and that a job can tell about was taken out of the replay and put back: "yes" says that the trace is nearer with
it, "no" that it is nearer without, in how many jobs. Where a few jobs of one stack disagree, the release has a part of the row. ` + "`make drift`" + `
makes such an answer (oracle/README.md); those below are in oracle/drift/result.

`

const tail = `
## A mask of ones in transformers 5.23

On a card a batch without padding has no mask in sdpa, whoever made the batch (masking_utils.py, 5.23.0):

| loop | what it passes | what happens |
|---|---|---|
| the Trainer with a collator, TRL without packing | attention_mask of ones | fast_all sums it on the card, the sum equals its size, and the mask is dropped (_ignore_causal_mask_sdpa, _ignore_bidirectional_mask_sdpa) |
| the Trainer with run_clm.py's blocks | attention_mask of ones, from the tokenizer | as above |
| a plain loop with input_ids alone | nothing | there is no mask to look at; with checkpointing, which leaves no cache, the positions are looked at for packed sequences, and none is found |
| any of them, at least as long as a sliding window | either | a mask of the window is made (kv_length >= local_attention_size), before any look |
| any of them under torch.compile | attention_mask of ones | values are not looked at (is_tracing), and a mask is made |
| eager attention in decoders | either | a mask is always made |

A stand-in driver that answers 0 to the sum sends every such job to the branch of a batch with padding: figures traced so are those of
` + "`attention_mask: explicit`" + ` and up to 15 % away from a card's. oracle/standin.py answers the sum as a card does.

## What is not replayed yet

- Checkpoints of T5 and mT5 that are not reentrant on torch-2.9, where a job has to ask for them (59 of 69 checkpointed jobs, made again with
  use_reentrant=False there, are equal event by event; the other ten are these, and mixtures of experts whose routing the driver cannot say on
  transformers 4.57); on torch-2.15, where they are the default, those of T5 are equal. Of 45 made
  on torch-2.15, where that is the default, 31 are equal, among them all of listed families but Mixtral, whose two differ in what is made
  again last and not in their peaks.
- Of grouped experts (` + "`groups-experts`" + `), cuBLAS's workspace in the products of one expert after the other, which cards other than Hopper and
  Blackwell run, is left out: 8 MiB, alive only during a product.
- Not equal to the traces of torch-2.15, and so with wider bounds: whatever runs under torch.compile or on several GPUs.
- Of Gemma 4, mixtures of experts, pictures and sound, and checkpointing of layers that take the keys and values of others or have embeddings
  of their own, which are refused. Of 12 traced jobs without, the peaks of all are equal, and ten are equal event by event; one makes
  its tables of positions in another order, which Python draws anew in each process, and one, with heads of 512 elements, two gradients.
- Of Qwen3-Next, Qwen3.5 and the other models with a gated delta rule, the kernel for their convolution, which is the package causal-conv1d's: it
  has to be compiled for a card. PyTorch's own rule is replayed and, where ` + "`kernels`" + ` has ` + "`gated-delta-rule`" + `, that of flash-linear-attention 0.6.
- Of cuDNN's attention (` + "`prefers-cudnn-attention`" + `), what its engine asks for behind the workspace that the frontend lays out: the
  driver has no engine, which needs a card. It is counted as nothing, and is there only while the kernel runs: 256 bytes on an H200
  ([card.md](card.md)).
- Of 70 crosses of families and recipes that were drawn for torch-2.15 (` + "`make oracle CROSSES=70 SEED=215`" + `), 57 were traced so far: all peaks are
  equal, and 55 are equal event by event. The other two take 2 bytes for a moment, once a process, when a T4 is asked whether it has bfloat16.
- Of 40 jobs of T5, mT5 and Flan-T5 that were traced on torch-2.15, eager and sdpa, 37 are equal event by event. The other three are sdpa
  with one target token, with heads of 20 elements (the formula written out), and with reentrant checkpoints; traced again, the peaks of all three
  are equal to the byte.
- Of 60 crosses drawn with another seed (` + "`CROSSES=60 SEED=77`" + `), 58 were traced on torch-2.15 (ALBERT refuses to be checkpointed twice); 57 are
  equal event by event, one takes 2 bytes for a moment. Of 47 on torch-2.9, 43 are; of the other four three have equal peaks, and Flan-T5 with
  checkpoints that are not reentrant is 0.08 % low.
- Of 120 crosses drawn with two further seeds (` + "`CROSSES=60 SEED=3101`" + ` and 3102), 98 were traced on torch-2.15 and 97 are answered: all peaks
  are equal, and 92 are equal event by event; three take 2 bytes for a moment, and of two the order of frees differs. One, Whisper with reentrant
  checkpoints, is refused, although it runs. Gemma 2 has no sdpa. Of the 60 of seed 3101, 54 were traced on
  torch-2.9 and 53 are answered: 49 are equal event by event, three more in their peaks, and GLM-4.5 with reentrant checkpoints, which is not
  proven there, is 5.9 % high.
- Of 180 crosses drawn with three further seeds (5101 to 5103, 60 each, for T4, V100, A100, H100, B200, RTX 4090 and RTX 3060), 157 were traced on
  torch-2.15 and are answered: all peaks are equal, and 128 are equal event by event; 26 take 2 bytes for a moment, when a card older than Ampere is
  asked whether it has bfloat16, and three differ in temporaries (T5 with one sequence and eager attention, whose copies are views), in when the
  batch goes (gpt_bigcode), or in when a cast goes (Falcon on a T4). The others are refused by PyTorch, transformers or peft, or are for the V100,
  for which torch 2.15 has no kernels: what was traced there does not run on a card. One, a classifier of DeBERTa, ends where its loss has no gradient, and
  why was not found. CamemBERT and Falcon with alibi on an RTX 4090 stopped in the driver before; the two that did and nine more, drawn with seed 7101 (` + "`crosses.py --only --card rtx-4090`" + `),
  are equal event by event.
- Of 60 crosses drawn with seed 2729, 43 were traced on torch-2.9 and are answered: all peaks are equal, and 39 are equal event by event. Three of the
  others are sequences of one token (two of OPT, Gemma 3), whose copies are views. The fourth is the first micro-step of a process with DeBERTa, whose
  buckets of distances TorchScript runs step by step before it fuses them; the steps behind it are equal.
- What Mixtral's loop on transformers 4 holds of one expert while the next is prepared: its variable for the input lives on, and the judge, which
  writes that loop anew, lets go of it. It shows where nothing else keeps the input, and is no larger than what one expert gets.
- Checkpointed LoRA on models that see, whose towers transformers 5.23 hooks: of three traces, LLaVA's peak is 0.3 % high, PaliGemma's 0.05 % high, SmolVLM's 0.1 % low.
- Of 142 jobs of the listed families that were drawn from the traces of torch-2.9 and traced again, 128 were equal event by event when they were
  compared; the other 14 are single recipes, such as a bias or a batch of one, and how far their peaks are off was not looked into.
`

// TestPage holds docs/lab/releases.md against the table.
func TestPage(t *testing.T) {
	stacks, err := result.Stacks()
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, c := range release.Changes() {
		order = append(order, string(c.Switch))
	}
	made := head + release.Markdown(release.Stacks(), release.Changes()) + drift + result.Markdown(stacks, order) + tail
	if *update {
		if err := os.WriteFile(page, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), made); diff != "" {
		t.Errorf("%s is not what the table says; run go test ./estimator/release -update (-page +table):\n%s", page,
			diff)
	}
}
