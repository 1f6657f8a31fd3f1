package submission

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/shell"
)

// Doubt is something that was not understood and may change what a job needs, or whether it runs at all. A
// job about which there is a doubt is never refused.
type Doubt struct {
	// File and Line are where Word stands; Line is 0 where it is about a file as a whole.
	File string
	Line int
	// Word is what the user wrote; Why is the rest of the sentence.
	Word, Why string
	// Enlarges says that the job may need more than what was read, so that "fits" is no answer either.
	Enlarges bool
}

func (d Doubt) String() string {
	if d.Word == "" {
		return fmt.Sprintf("%s: %s", place(d.File, d.Line), d.Why)
	}
	return fmt.Sprintf("%s: %s %s", place(d.File, d.Line), clip(d.Word), d.Why)
}

// place is where something stands, as compilers write it.
func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// maxDoubts is how many are named.
const maxDoubts = 64

// topics are what words of training configurations are about, where they change what a GPU holds: the vocabulary of
// adapters, quantisation, sharding, offload, precision and the model itself. A word counts where one of its parts is
// listed, or begins with one that ends in *. The list decides what a message says and whether a job may need more; a
// word that is not in it is in doubt all the same.
var topics = []struct {
	name     string
	enlarges bool
	parts    string
}{
	{"adapters and frozen weights", false, "lora* qlora* dora* loha lokr peft* adapter* adapters ia3 prefix* " +
		"prompt* galore* apollo* badam* lomo* adalomo* spectrum* layerwise* freeze* frozen unfrozen unfreeze* " +
		"trainable* lisa bitfit finetuning finetune tune tuning"},
	{"quantisation", false, "bit bits quant* 2bit 3bit 4bit 8bit 1bit int2 int4 int8 nf4 fp4 gptq* awq* bnb* hqq* " +
		"aqlm* eetq* torchao* gguf* w4a16 w8a8 exl2 qat"},
	{"sharding", false, "zero zero0 zero1 zero2 zero3 stage deepspeed* ds fsdp* hsdp* shard* reshard* parallel* " +
		"parallelism* tp pp cp sp ep dp megatron* mesh* pipeline* ulysses* ring* mp context expert experts"},
	{"offload", false, "offload* cpu nvme disk swap* paged* pin"},
	{"precision", true, "bf16* fp16* fp8* fp32* tf32* mxfp* nvfp* float16 float32 bfloat16 float8* half dtype* " +
		"precision* amp* autocast* mixed pure*"},
	{"the model", true, "model* layer layers hidden* head heads embd embed* vocab* width depth moe* vision* image* " +
		"images video* audio* ref reference reward* critic* value teacher* student* draft* medusa* arch* " +
		"architecture config* override* overrides mlp ffn intermediate kv tokenizer resize*"},
	{"memory", false, "checkpointing recompute* remat* checkpoint activation* memory* attn* attention* flash* sdpa* " +
		"xformers* liger* kernel* kernels fused compile* cuda gpu gpus device* batch* pack* packing seq* sequence* " +
		"length* len max cutoff block* block accumulation accumulate* accum* unsloth* optim* optimizer* accelerat* " +
		"no_cuda"},
}

// topicOf says what a word is about; name is empty where nothing is known of it.
func topicOf(word string) (name string, enlarges bool) {
	parts := strings.FieldsFunc(strings.ToLower(splitCamel(word)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for _, t := range topics {
		for listed := range strings.FieldsSeq(t.parts) {
			prefix, open := strings.CutSuffix(listed, "*")
			for _, p := range parts {
				if p == listed || open && strings.HasPrefix(p, prefix) {
					return t.name, t.enlarges
				}
			}
		}
	}
	return "", false
}

// splitCamel parts loraRank into lora_Rank.
func splitCamel(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && r >= 'A' && r <= 'Z' && s[i-1] >= 'a' && s[i-1] <= 'z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// doubt notes one.
func (p *program) doubt(d Doubt) {
	if d.File == "" {
		d.File = p.source.name()
	}
	for _, known := range p.doubts {
		if known == d {
			return
		}
	}
	if len(p.doubts) < maxDoubts {
		p.doubts = append(p.doubts, d)
	}
}

// doubtWord notes a word of a command line that is not understood.
func (p *program) doubtWord(at shell.Span, word string) {
	p.doubtKey(p.file(at), at.Line, word)
}

// doubtKey notes a word of a file.
func (p *program) doubtKey(file string, line int, word string) {
	d := Doubt{File: file, Line: line, Word: word, Why: "is not understood"}
	if topic, enlarges := topicOf(word); topic != "" {
		d.Why, d.Enlarges = "is about "+topic+", and is not understood", enlarges
	}
	p.doubt(d)
}

// doubtValue notes a word that is known only when the script runs.
func (p *program) doubtValue(w shell.Word, what string) {
	p.doubt(Doubt{File: p.file(w.At), Line: w.At.Line, Word: what, Why: "is known only when the script runs: " +
		w.Reason, Enlarges: true})
}

// file is the name of the source that a span points into.
func (p *program) file(at shell.Span) string {
	if p.script == nil || at.IsZero() {
		return p.source.name()
	}
	return p.script.Sources[at.Source].Name
}

// name is what the script is called in messages.
func (s *Source) name() string {
	if s.Name != "" {
		return s.Name
	}
	return "the script"
}
