package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/lengths"
)

// lengthsCommand measures a data set on the user's machine; nothing of it goes anywhere.
type lengthsCommand struct {
	File               string   `arg:"" help:"Samples: .jsonl, .ndjson, .json (a list) or .csv; - reads a sample a line."`
	TokensPerCharacter float64  `placeholder:"X" help:"Tokens that a character makes, such as 0.25; not needed where samples have input_ids."`
	Field              []string `placeholder:"NAME" help:"Field that is trained on; repeat for more. If not given: input_ids, messages, conversations, text, prompt with completion, or instruction with input and output."`
	MicroBatch         int64    `default:"8" placeholder:"N" help:"Samples of a batch; 8 if not given, as in transformers' TrainingArguments."`
	MaxLength          int64    `placeholder:"N" help:"Tokens at which a trainer cuts samples off; not at all if not given."`
	PadToMultipleOf    int64    `placeholder:"N" help:"What the collator rounds a batch's length up to."`
	JSON               bool     `name:"json" help:"Print one JSON object."`
}

// measuredLengths is what the command prints.
type measuredLengths struct {
	Samples int64         `json:"samples"`
	Tokens  int64         `json:"tokens"`
	Median  int64         `json:"median"`
	Most90  int64         `json:"p90"`
	Most99  int64         `json:"p99"`
	Longest lengths.Batch `json:"longest_batch"`
	// Cut is how many tokens max_length cuts off.
	Cut int64 `json:"tokens_cut"`
}

// Run measures one file.
func (c *lengthsCommand) Run(t *terminal) error {
	switch {
	case c.MicroBatch < 1 || c.MicroBatch > 1<<20:
		return usage("--micro-batch %d: from 1 to %d", c.MicroBatch, 1<<20)
	case c.MaxLength < 0 || c.PadToMultipleOf < 0 || c.PadToMultipleOf > 1<<20:
		return usage("--max-length and --pad-to-multiple-of are positive numbers of tokens, the second up to %d", 1<<20)
	case !(c.TokensPerCharacter >= 0 && c.TokensPerCharacter <= 16):
		return usage("--tokens-per-character %v: from 0 to 16, such as 0.25", c.TokensPerCharacter)
	}
	file, err := t.open(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	o := lengths.Options{Name: c.File, Fields: c.Field, TokensPerCharacter: c.TokensPerCharacter}
	if isTerminal(t.stderr) {
		o.Progress = func(n int64) { fmt.Fprintf(t.stderr, "\r%s samples\x1b[K", screen.Thousands(n)) }
		defer fmt.Fprint(t.stderr, "\r\x1b[K")
	}
	h, err := lengths.Read(file, o)
	if err != nil {
		return err
	}
	whole := h.Within(c.MaxLength, 0)
	m := measuredLengths{Samples: h.Samples, Tokens: h.Tokens, Cut: h.Tokens - whole.Tokens,
		Median: whole.Quantile(0.5), Most90: whole.Quantile(0.9), Most99: whole.Quantile(0.99),
		Longest: whole.Within(0, c.PadToMultipleOf).Longest(c.MicroBatch)}
	if c.JSON {
		return json.NewEncoder(t.stdout).Encode(m)
	}
	return c.show(t.stdout, &m)
}

// show says in words what was measured, and what it rests on.
func (c *lengthsCommand) show(w io.Writer, m *measuredLengths) error {
	var s strings.Builder
	fmt.Fprintf(&s, "%s samples, %s tokens", screen.Thousands(m.Samples), screen.Thousands(m.Tokens))
	if m.Cut > 0 {
		fmt.Fprintf(&s, ", %s of them cut off at %s", screen.Thousands(m.Cut), screen.Thousands(c.MaxLength))
	}
	fmt.Fprintf(&s, "\n  half have at most %s tokens, 90 %% %s, 99 %% %s\n", screen.Thousands(m.Median),
		screen.Thousands(m.Most90),
		screen.Thousands(m.Most99))
	b := &m.Longest
	fmt.Fprintf(&s, "  the longest batch is %s × %s: %s of the %s batches of an epoch on average, in %s of epochs\n",
		screen.Thousands(b.Samples), screen.Thousands(b.Tokens), expected(b.Expected), screen.Thousands(b.Batches),
		shareOfEpochs(b.Probability))
	fmt.Fprintf(&s, "A run has to get through it: vramplan check --micro-batch %d --sequence-length %d", b.Samples,
		b.Tokens)
	if b.Samples > 1 {
		s.WriteString(" --attention-mask explicit")
	}
	s.WriteString(" …\n\n")
	if c.TokensPerCharacter > 0 {
		screen.WriteHanging(&s, "* ", "  ",
			fmt.Sprintf("Text counts %v tokens a character, which differs by tokenizer and language; "+
				"what a chat template adds is not counted. Samples with input_ids are exact.", c.TokensPerCharacter))
	}
	screen.WriteHanging(&s, "* ", "  ",
		"Each batch is padded to its longest sample, as transformers' DataCollatorWithPadding and "+
			"trl's SFTTrainer without packing and padding_free do; every sample comes once an epoch in an order drawn anew, and "+
			"the last batch is not dropped.")
	screen.WriteHanging(&s, "* ", "  ",
		"check is about steps of one length. Where lengths change PyTorch may hold more in reserve, "+
			"which it gives back when the card is full, but not out of segments that are in use; "+
			"expandable_segments:True avoids most of that.")
	_, err := io.WriteString(w, s.String())
	return err
}

// expected is an average number of batches.
func expected(n float64) string {
	if n >= 10 {
		return screen.Thousands(int64(math.Round(n)))
	}
	return fmt.Sprintf("%.2g", n)
}

// shareOfEpochs is a probability in percent, 100 only where it is certain.
func shareOfEpochs(p float64) string {
	switch {
	case p == 1:
		return "100 %"
	case p > 0.9999:
		return "more than 99.99 %"
	}
	return fmt.Sprintf("%.4g %%", 100*p)
}
