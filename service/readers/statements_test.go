package readers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/readers"
)

// TestStatementsAreSeen puts single statements into a program that is read without a question. Each moves memory in a
// way that no field says, and is asked about or doubted; those that move none change nothing.
func TestStatementsAreSeen(t *testing.T) {
	program := func(load, before, after string) string {
		return fmt.Sprintf(`import os, torch
from torch import nn
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16%s)
%s
args = TrainingArguments(output_dir="o", per_device_train_batch_size=8, bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=ds)
%s
trainer.train()
`, load, before, after)
	}
	read := func(t *testing.T, program string) (document string, said []string) {
		t.Helper()
		c := scriptCase{program: program, set: []readers.Said{{Path: "training.sequence_length", Value: "512"}}}
		answer := c.read(t)
		if len(answer.Jobs) != 1 {
			t.Fatalf("%d jobs, refusals %+v", len(answer.Jobs), answer.Refusals)
		}
		j := answer.Jobs[0]
		for _, q := range j.Questions {
			said = append(said, q.Ask+" "+q.Why)
		}
		for _, a := range j.Assumptions {
			said = append(said, a.Say)
		}
		text, err := json.Marshal(j.Document)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), said
	}
	plain, saidOfPlain := read(t, program("", "", ""))
	for _, c := range []struct{ load, before, after, word string }{
		{before: "model.lm_head.float()", word: "model.lm_head.float"},
		{before: `model = model.to("cuda").float()`, word: "float"},
		{before: "for p in model.parameters():\n    p.data = p.data.float()", word: "p.data"},
		{before: "model.model.layers[0].register_forward_hook(h)", word: "register_forward_hook"},
		{before: "del model.model.layers[12:]", word: "del model.model.layers[12:]"},
		{before: `model.set_attn_implementation("eager")`, word: "set_attn_implementation"},
		{before: "torch.backends.cuda.enable_flash_sdp(False)", word: "enable_flash_sdp"},
		{before: "torch.cuda.set_per_process_memory_fraction(0.5)", word: "set_per_process_memory_fraction"},
		{before: "Trainer.compute_loss = own", word: "Trainer.compute_loss"},
		{before: "from site import build\nmodel = build(model)", word: "build"},
		{before: "model = nn.DataParallel(model)", word: "nn.DataParallel"},
		{before: `model = PeftModel.from_pretrained(model, "x", is_trainable=True)`, word: "PeftModel.from_pretrained"},
		{before: "import copy\nold = copy.deepcopy(model)", word: "copy.deepcopy"},
		{before: "from vllm import LLM\nllm = LLM('Qwen/Qwen2.5-7B')", word: "LLM"},
		{before: "from site import make\nteacher = make()", word: "teacher"},
		{before: "class T:\n    def __init__(self):\n        self.t = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-7B\")\n" +
			"t = T()", word: "Qwen/Qwen2.5-7B"},
		{before: `buffer = torch.zeros(10**9, device="cuda")`, word: "torch.zeros"},
		{load: ", num_hidden_layers=2", word: "num_hidden_layers"}, {load: `, tp_plan="auto"`, word: "tp_plan"},
		{load: `, max_memory={0: "10GB"}`, word: "max_memory"},
		{load: ", quantization_config=GPTQConfig(bits=4)", word: "quantized"},
		{after: "trainer.optimizer = own", word: "trainer.optimizer"},
		{after: "setattr(trainer, \"optimizer\", own)", word: "setattr"},
		{after: "trainer.add_callback(Averages())", word: "callbacks"},
		{after: "with torch.autograd.graph.saved_tensors_hooks(a, b):\n    pass", word: "saved_tensors_hooks"},
	} {
		t.Run(c.word, func(t *testing.T) {
			_, said := read(t, program(c.load, c.before, c.after))
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.word) }) {
				t.Errorf("%s%s%s is passed over; said:\n%s", c.load, c.before, c.after, strings.Join(said, "\n"))
			}
		})
	}
	for _, still := range []string{"torch.backends.cuda.matmul.allow_tf32 = True", "model.config.use_cache = False",
		"warm = torch.zeros(1, device=\"cuda\")", "model.train()", "print(model)", "model = model.cuda()",
		"from transformers import EarlyStoppingCallback", "losses = []"} {
		t.Run(still, func(t *testing.T) {
			document, said := read(t, program("", still, ""))
			if document != plain || len(said) != len(saidOfPlain) {
				t.Errorf("%s changes what is read:\n%s\n%s", still, document, strings.Join(said, "\n"))
			}
		})
	}
}

// TestEffectsBehindParsers are programs whose trainer's arguments a parser fills: what they do besides is asked about.
func TestEffectsBehindParsers(t *testing.T) {
	const program = `from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("gpt2")
%s
trainer = Trainer(model=model, args=args)
trainer.train()
`
	const command = "python train.py --per_device_train_batch_size 2 --model_max_length 128 --output_dir o"
	for _, c := range []scriptCase{
		{name: "nothing", program: fmt.Sprintf(program, "model.config.forced_bos_token_id = 1"), command: command},
		{name: "a part is frozen", program: fmt.Sprintf(program, "model.transformer.wte.requires_grad_(False)"),
			command: command, asks: []string{"/training"}, says: "requires_grad_"},
		{name: "another model", program: fmt.Sprintf(program, `teacher = AutoModelForCausalLM.from_pretrained("gpt2-xl")`),
			command: command, asks: []string{"/reserve_bytes"}, says: "gpt2-xl"},
		{name: "more rows", program: fmt.Sprintf(program, "model.resize_token_embeddings(len(tokenizer))"), command: command,
			says: "the embedding has as many rows"},
	} {
		t.Run(c.name, c.run)
	}
}
