package readers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/readers"
)

// scriptCase is a program as people write it, and what has to be read of it.
type scriptCase struct {
	name, program string
	// command starts the program train.py; without one it is handed over alone.
	command string
	// script is a script that starts it, in place of a command.
	script string
	// requirements is a requirements.txt beside it.
	requirements string
	set          []readers.Said
	// want are fields of the document by their pointers, as JSON; "" for a field that must not be there.
	want map[string]string
	// asks are pointers of questions that have to be there; nothing else may be asked.
	asks []string
	// refused is part of a refusal's sentence; says is part of a question or an assumption.
	refused, says string
}

func (c *scriptCase) read(t *testing.T) *readers.Answer {
	t.Helper()
	catalog := service.EmbeddedCatalog()
	s := readers.Source{Dir: "/job", Set: c.set, Pictures: func(name string) readers.Pictures {
		return readers.PicturesOf(catalog.ShowsPictures(name))
	}, ModelType: catalog.ModelType, HasModel: func(name string) bool {
		_, err := catalog.Model(name)
		return err == nil
	}, ReadFile: func(name string) ([]byte, error) {
		if name == "/job/train.py" && c.program != "" {
			return []byte(c.program), nil
		}
		if name == "/job/job.sh" && c.script != "" {
			return []byte(c.script), nil
		}
		if name == "/job/requirements.txt" && c.requirements != "" {
			return []byte(c.requirements), nil
		}
		return nil, fs.ErrNotExist
	}}
	switch {
	case c.script != "":
		s.Files = []string{"job.sh"}
	case c.command == "":
		s.Files = []string{"train.py"}
	default:
		s.Command = strings.Fields(c.command)
	}
	answer, err := readers.Read(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (c *scriptCase) run(t *testing.T) {
	t.Helper()
	answer := c.read(t)
	if c.refused != "" {
		if len(answer.Jobs) > 0 || len(answer.Refusals) == 0 || !strings.Contains(answer.Refusals[0].Say, c.refused) {
			t.Errorf("%d jobs, refusals %+v; want one that says %q", len(answer.Jobs), answer.Refusals, c.refused)
		}
		return
	}
	if len(answer.Jobs) != 1 {
		t.Fatalf("%d jobs, refusals %+v", len(answer.Jobs), answer.Refusals)
	}
	job := answer.Jobs[0]
	for pointer, want := range c.want {
		if got := fieldOf(t, job.Document, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
	var asked []string
	said := ""
	for _, q := range job.Questions {
		asked = append(asked, q.Pointer)
		said += q.Ask + " " + q.Why + "\n"
	}
	for _, a := range job.Assumptions {
		said += a.Say + "\n"
	}
	slices.Sort(asked)
	slices.Sort(c.asks)
	if !slices.Equal(asked, c.asks) {
		t.Errorf("asked about %v, want %v\n%s", asked, c.asks, said)
	}
	if !strings.Contains(said, c.says) {
		t.Errorf("said:\n%swant %q among it", said, c.says)
	}
}

// fieldOf is a field of a document as JSON, "" where it is not there.
func fieldOf(t *testing.T, document []byte, pointer string) string {
	t.Helper()
	var at any
	if err := json.Unmarshal(document, &at); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(pointer, "/")[1:] {
		object, _ := at.(map[string]any)
		inner, ok := object[name]
		if !ok {
			return ""
		}
		at = inner
	}
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestModelInitArguments are the arguments that trl's configurations hand to from_pretrained.
func TestModelInitArguments(t *testing.T) {
	const lora = "/training/lora/base_precision"
	program := func(class, trainer, arguments, model string) string {
		return fmt.Sprintf(`import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import %[1]s, %[2]s
config = %[1]s(output_dir="out", per_device_train_batch_size=2, bf16=True, max_length=512, %[3]s)
trainer = %[2]s(model=%[4]s, args=config, peft_config=LoraConfig(r=8))
`, class, trainer, arguments, model)
	}
	const name = `"Qwen/Qwen2.5-0.5B"`
	for _, c := range []scriptCase{
		{name: "a string", program: program("SFTConfig", "SFTTrainer", `model_init_kwargs={"torch_dtype": "bfloat16"}`, name),
			want: map[string]string{lora: `"bf16"`}},
		{name: "torch's type by the new name", program: program("SFTConfig", "SFTTrainer",
			`model_init_kwargs={'dtype': torch.float16, 'attn_implementation': 'eager', 'revision': 'main'}`, name),
			want: map[string]string{lora: `"fp16"`, "/training/attention": `"eager"`}},
		{name: "a call of dict", program: program("RewardConfig", "RewardTrainer",
			`model_init_kwargs=dict(dtype="bfloat16", device_map=placed())`, name),
			want: map[string]string{lora: `"bf16"`}},
		{name: "what is quantized beside it does not hide the type", program: "bnb = other()\n" +
			program("SFTConfig", "SFTTrainer", `model_init_kwargs={"dtype": "bfloat16", "quantization_config": bnb}`, name),
			want: map[string]string{lora: `"bf16"`}, asks: []string{"/training"}, says: "quantization_config"},
		{name: "a name that holds it", program: "kwargs = dict(dtype='bfloat16')\n" +
			program("SFTConfig", "SFTTrainer", `model_init_kwargs=kwargs`, name), want: map[string]string{lora: `"bf16"`}},
		{name: "a name whose dictionary is changed", program: "kwargs = dict(dtype='bfloat16')\nkwargs['dtype'] = f()\n" +
			program("SFTConfig", "SFTTrainer", `model_init_kwargs=kwargs`, name), asks: []string{"/training/precision"}},
		{name: "a type that is not known", program: program("SFTConfig", "SFTTrainer",
			`model_init_kwargs={"dtype": chosen()}`, name), asks: []string{"/training/precision"}},
		{name: "arguments that are handed over by a dictionary", program: "more = {'gradient_accumulation_steps': 4}\n" +
			program("SFTConfig", "SFTTrainer", `**more`, name),
			want: map[string]string{"/training/gradient_accumulation": "4"}},
		{name: "arguments that cannot be followed", program: program("SFTConfig", "SFTTrainer", `**more()`, name),
			asks: []string{"/training"}, says: "**more()"},
		{name: "a model that is loaded already ignores them", program: program("SFTConfig", "SFTTrainer",
			`model_init_kwargs={"dtype": "float16"}`, `AutoModelForCausalLM.from_pretrained("gpt2", dtype="bfloat16")`),
			want: map[string]string{lora: `"bf16"`, "/model/preset": `"gpt2"`}},
		{name: "the trained model is the one that the trainer is given", program: `from trl import *
judge = AutoModelForSequenceClassification.from_pretrained("gpt2", dtype="float32")
policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
trainer = SFTTrainer(model=policy, args=SFTConfig(per_device_train_batch_size=2, bf16=False, max_length=512))
`, want: map[string]string{"/model/preset": name, "/training/precision": `"bf16"`},
			asks: []string{"/reserve_bytes"}},
		{name: "a class of a family", program: `import torch
model = Qwen2ForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, bf16=True, max_length=512))
`, want: map[string]string{"/model/preset": name, "/training/states/weights": `"bf16"`}},
		{name: "a model with pictures", program: `import torch
model = AutoModelForImageTextToText.from_pretrained("google/gemma-3-4b-it", torch_dtype=torch.bfloat16)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, bf16=True, max_length=512))
`, want: map[string]string{"/model/preset": `"google/gemma-3-4b-it"`, "/training/states/weights": `"bf16"`,
			"/training/objective/kind": `"vision-language"`}, says: "pictures"},
		{name: "the same model, text alone", program: `import torch
model = AutoModelForCausalLM.from_pretrained("google/gemma-3-4b-it", torch_dtype=torch.bfloat16)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, bf16=True, max_length=512))
`, want: map[string]string{"/model/preset": `"google/gemma-3-4b-it"`, "/training/objective": ""}},
		{name: "a model that is never without pictures", program: `import torch
model = Qwen2_5_VLForConditionalGeneration.from_pretrained("Qwen/Qwen2.5-VL-7B-Instruct", torch_dtype=torch.bfloat16)
trainer = Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=2, bf16=True))
`, set: []readers.Said{{Path: "training.sequence_length", Value: "2048"}},
			want: map[string]string{"/model/preset": `"Qwen/Qwen2.5-VL-7B-Instruct"`,
				"/training/objective/kind": `"vision-language"`}, says: "pictures"},
		{name: "a model with pictures that nobody has", program: `import torch
model = AutoModelForImageTextToText.from_pretrained("OpenGVLab/InternVL3-8B-hf", torch_dtype=torch.bfloat16)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, bf16=True, max_length=512))
`, refused: "--objective vision-language"},
		{name: "rows without padding", program: program("SFTConfig", "SFTTrainer", "packing=True", name),
			want: map[string]string{"/training/objective": ""}, says: "objective.packing=true"},
		{name: "no length", program: `trainer = SFTTrainer(model="gpt2", args=SFTConfig(per_device_train_batch_size=2,
    bf16=True, max_length=None))`, want: map[string]string{"/training/sequence_length": ""},
			asks: []string{"/training/sequence_length"}, says: "max_length is none"},
	} {
		t.Run(c.name, c.run)
	}
	grpo := scriptCase{program: program("GRPOConfig", "GRPOTrainer", `model_init_kwargs={"torch_dtype": "bfloat16"},
    max_completion_length=128, max_prompt_length=128`, name), want: map[string]string{lora: `"bf16"`}}
	t.Run("GRPO", grpo.run)
}

// TestLiteralConfiguration are programs whose parser fills a class of their own, and that configure the trainer by
// themselves.
func TestLiteralConfiguration(t *testing.T) {
	const program = `from dataclasses import dataclass
from peft import LoraConfig
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer

@dataclass
class ScriptArgs:
    model_name: str = "Qwen/Qwen2.5-0.5B"
    lora_r: int = 16
    use_rank: bool = False

args = HfArgumentParser(ScriptArgs).parse_args_into_dataclasses()[0]
config = GRPOConfig(output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=8, bf16=True,
                    num_generations=4, max_prompt_length=256, max_completion_length=512,
                    model_init_kwargs={"dtype": "bfloat16"})
trainer = GRPOTrainer(model=args.model_name, reward_funcs=[f], args=config, peft_config=LoraConfig(r=args.lora_r))
trainer.train()
`
	want := map[string]string{"/training/micro_batch": "4", "/training/gradient_accumulation": "8",
		"/training/objective/completion_tokens": "512", "/training/lora/rank": "16", "/model/preset": `"Qwen/Qwen2.5-0.5B"`}
	said := map[string]string{"/training/micro_batch": "4", "/training/lora/rank": "64"}
	for _, c := range []scriptCase{
		{name: "alone", program: program, want: want},
		{name: "launched", program: program, command: "accelerate launch train.py --lora_r 64", want: said},
		{name: "a value that nobody knows is asked for", command: "python train.py --lora_r 64",
			program: strings.Replace(program, "_batch_size=4", "_batch_size=chosen()", 1),
			asks:    []string{"/training/micro_batch"}},
		{name: "a class that the parser fills has the command's values", command: "python train.py " +
			"--per_device_train_batch_size 2 --model_name_or_path gpt2 --max_length 128 --bf16 True",
			program: "from trl import *\na, = HfArgumentParser((SFTConfig,)).parse_args_into_dataclasses()\n" +
				"SFTTrainer(args=a)\n", want: map[string]string{"/training/micro_batch": "2"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestOwnValues are values that the program has from its own arguments and classes.
func TestOwnValues(t *testing.T) {
	program := func(before, batch, accumulation string) string {
		return before + `
from trl import SFTConfig, SFTTrainer
config = SFTConfig(output_dir="out", per_device_train_batch_size=` + batch + `, bf16=True, max_length=512,
                   gradient_accumulation_steps=` + accumulation + `)
SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=config).train()
`
	}
	const parser = `import argparse
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=2)
p.add_argument("--total", type=int, default=16)
p.add_argument("--size", default="0.5B")
p.add_argument("--rest", type=int, required=True)
args = p.parse_args()
`
	const class = `from dataclasses import dataclass
@dataclass
class Cfg:
    bs: int = 4
    acc: int = 8
`
	const micro, accumulation = "/training/micro_batch", "/training/gradient_accumulation"
	both := func(m, a string) map[string]string { return map[string]string{micro: m, accumulation: a} }
	for _, c := range []scriptCase{
		{name: "defaults", program: program(parser, "args.batch_size", "args.total // args.batch_size"),
			want: both("2", "8"), says: "defaults"},
		{name: "the command's", program: program(parser, "args.batch_size", "args.total // args.batch_size"),
			command: "python train.py --batch-size 4 --rest 1", want: both("4", "4")},
		{name: "by the short flag", program: program(parser, "args.batch_size", "args.total // args.batch_size"),
			command: "python train.py -b 8 --rest 1", want: both("8", "2")},
		{name: "by the beginning", program: program(parser, "args.batch_size", "2"),
			command: "python train.py --batch 8 --rest 1", want: both("8", "2")},
		{name: "through a name", program: program(parser+"n = args.batch_size\n", "n", "args.total // n"),
			command: "python train.py -b 1 --rest 1", want: both("1", "16")},
		{name: "a required one without a command", program: program(parser, "args.rest", "1"), asks: []string{micro}},
		{name: "what is assigned afterwards", program: program(parser+"args.batch_size = best()\n", "args.batch_size", "1"),
			asks: []string{micro}},
		{name: "an instance", program: program(class+"cfg = Cfg()\n", "cfg.bs", "cfg.acc"), want: both("4", "8")},
		{name: "an instance with arguments", program: program(class+"cfg = Cfg(bs=2)\n", "cfg.bs", "cfg.acc // cfg.bs"),
			want: both("2", "4")},
		{name: "an instance that is changed", program: program(class+"cfg = Cfg()\ncfg.bs = best()\n", "cfg.bs", "cfg.acc"),
			want: map[string]string{accumulation: "8"}, asks: []string{micro}},
		{name: "an instance by position", program: program(class+"cfg = Cfg(2)\n", "cfg.bs", "1"), want: both("2", "1")},
		{name: "a class", program: program("class CFG:\n    bs = 2\n", "CFG.bs", "1"), want: both("2", "1")},
		{name: "a class that sets its own", program: program("class C:\n    bs = 2\n    def __post_init__(self):\n"+
			"        self.bs = best()\ncfg = C()\n", "cfg.bs", "1"), asks: []string{micro}},
		{name: "any attribute may be set", program: program(class+"cfg = Cfg()\nfor k in x:\n    setattr(cfg, k, 1)\n",
			"cfg.bs", "1"), asks: []string{micro}},
		{name: "a string with values", program: strings.Replace(program(parser, "1", "1"), `"Qwen/Qwen2.5-0.5B"`,
			`f"Qwen/Qwen2.5-{args.size}"`, 1), command: "python train.py --size 1.5B --rest 1",
			want: map[string]string{"/model/preset": `"Qwen/Qwen2.5-1.5B"`}},
		{name: "a string with a format", program: strings.Replace(program(parser, "1", "1"), `"Qwen/Qwen2.5-0.5B"`,
			`f"Qwen/Qwen2.5-{args.total:3d}B"`, 1), asks: []string{"/model"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestUnslothPrecision is what unsloth trains in where neither bf16 nor fp16 is on.
func TestUnslothPrecision(t *testing.T) {
	program := func(load, peft, arguments, trainer string) string {
		return `from unsloth import FastLanguageModel
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-1B", max_seq_length=1024` + load + `)
` + peft + `
trainer = ` + trainer + `(model=model, args=SFTConfig(per_device_train_batch_size=2` + arguments + `))
`
	}
	const adapters = "model = FastLanguageModel.get_peft_model(model, r=16)"
	const precision = "/training/precision"
	for _, c := range []scriptCase{
		{name: "adapters", program: program("", adapters, "", "SFTTrainer"),
			want: map[string]string{precision: `"amp-bf16"`}},
		{name: "both said to be off", program: program("", adapters, ", bf16=False, fp16=False", "SFTTrainer"),
			want: map[string]string{precision: `"amp-bf16"`}},
		{name: "loaded in float16", program: program(", dtype=torch.float16", adapters, "", "SFTTrainer"),
			want: map[string]string{precision: `"amp-fp16"`}},
		{name: "said", program: program("", adapters, ", fp16=True", "SFTTrainer"),
			want: map[string]string{precision: `"amp-fp16"`}},
		{name: "loaded in a type that nobody knows", program: program(", dtype=chosen()", adapters, "", "SFTTrainer"),
			want: map[string]string{precision: ""}, asks: []string{precision}},
		{name: "the whole model", program: program(", full_finetuning=True", "", "", "SFTTrainer"),
			want: map[string]string{precision: ""}, asks: []string{precision}},
		{name: "another trainer", program: program("", adapters, "", "Trainer"),
			want: map[string]string{precision: ""}, asks: []string{precision}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestOtherTrainerClasses are programs of other kinds, which are named with what to use for them.
func TestOtherTrainerClasses(t *testing.T) {
	const program = `args = SentenceTransformerTrainingArguments(output_dir="out", per_device_train_batch_size=64)
trainer = SentenceTransformerTrainer(model=SentenceTransformer("gpt2"), args=args, train_dataset=data)
`
	for _, c := range []scriptCase{
		{name: "pairs", program: program, refused: "--objective contrastive"},
		{name: "pairs, started", program: program, command: "python train.py", refused: "--objective contrastive"},
		{name: "a cross-encoder", program: strings.Replace(program, "= SentenceTransformerT", "= CrossEncoderT", 2),
			refused: "cross-encoder"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestCheckpointingByCall are programs that switch the trained model's checkpoints themselves.
func TestCheckpointingByCall(t *testing.T) {
	program := func(calls, args string) string {
		return `from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
judge = AutoModelForCausalLM.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")
` + calls + `
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4` + args + `)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
`
	}
	const pointer, on, off = "/training/gradient_checkpointing", "model.gradient_checkpointing_enable(",
		"model.gradient_checkpointing_disable()"
	reentrant := func(kind string) string { return on + `gradient_checkpointing_kwargs={"use_reentrant": ` + kind + "})" }
	length := []readers.Said{{Path: "sequence_length", Value: "512"}, {Path: "reserve_bytes", Value: "523MiB"}}
	for _, c := range []scriptCase{
		{name: "on", program: program(on+")", ""), want: map[string]string{pointer: `"full"`}},
		{name: "not the default kind", program: program(reentrant("True"), ""),
			want: map[string]string{pointer: `{"mode":"full","reentrant":true}`}},
		{name: "the default kind", program: program(reentrant("False"), ""), want: map[string]string{pointer: `"full"`}},
		{name: "the argument switches nothing off", program: program(on+")", ", gradient_checkpointing=False"),
			want: map[string]string{pointer: `"full"`}},
		{name: "off again", program: program(on+")\n"+off, ""), want: map[string]string{pointer: `"none"`}},
		{name: "the argument switches it on", program: program(off, ", gradient_checkpointing=True"),
			want: map[string]string{pointer: `"full"`}},
		{name: "another model", program: program("judge.gradient_checkpointing_enable()", ""),
			want: map[string]string{pointer: `"none"`}},
		{name: "perhaps", program: program("if small:\n    "+on+")", ""), want: map[string]string{pointer: `"none"`},
			says: "under a condition"},
	} {
		c.set = length
		t.Run(c.name, c.run)
	}
}

// TestModelsBeside are programs that load more than one model.
func TestModelsBeside(t *testing.T) {
	program := func(before, trainer, behind string) string {
		return `from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer
` + before + `
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4)
trainer = ` + trainer + `
trainer.train()
` + behind
	}
	const own, plain = `model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")`, "Trainer(model=model, args=args)"
	teacher := own + "\n" + `teacher = AutoModelForCausalLM.from_pretrained("gpt2-xl")`
	first := `teacher = AutoModelForCausalLM.from_pretrained("gpt2-xl")` + "\n" + own
	length := []readers.Said{{Path: "sequence_length", Value: "512"}}
	for _, c := range []scriptCase{
		{name: "one", program: program(own, plain, "")},
		{name: "a teacher", program: program(teacher, plain, ""), asks: []string{"/reserve_bytes"}},
		{name: "a teacher before", program: program(first, plain, ""), asks: []string{"/reserve_bytes"}},
		{name: "of another branch", program: program("if small:\n    "+own+"\nelse:\n    "+
			`model = AutoModelForCausalLM.from_pretrained("gpt2-xl")`, plain, "")},
		{name: "when the training is over", program: program(own, plain,
			`base = AutoModelForCausalLM.from_pretrained("gpt2")`+"\n")},
		{name: "adapters on it", program: program(own+"\n"+`tuned = PeftModelForCausalLM.from_pretrained(model, "a")`, plain, "")},
		{name: "a reference of its kind", program: program(own+"\n"+
			`ref = (
    AutoModelForCausalLM.from_pretrained("gpt2"))
ref_model = ref`, "Trainer(model=model, args=args)\nDPOTrainer(model=model, ref_model=ref_model, args=DPOConfig(output_dir='o'))", ""),
			asks: []string{"/training/objective/completion_tokens", "/training/objective/prompt_tokens"}},
		{name: "a function behind", program: program("def merge(path):\n    base = "+
			`AutoModelForCausalLM.from_pretrained(path)`+"\n    return base\n"+own, plain, "merge(1)\n")},
		{name: "trained in one breath", program: program(own, "Trainer(model=model, args=args).train()",
			`again = AutoModelForCausalLM.from_pretrained("gpt2")`+"\n")},
		{name: "by another name in the other branch", program: program("if small:\n    base = "+
			`AutoModelForCausalLM.from_pretrained("gpt2")`+"\n    model = get_peft_model(base, config)\nelse:\n    "+own,
			plain, "")},
		{name: "deleted before", program: program(own+"\ndel model\n"+
			`base_model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")`, plain, "")},
		{name: "calls in strings", program: program(own+"\n"+`print(f"{len(data)} of {sum(p.numel() for p in model.parameters()):,}")`,
			plain, "")},
		{name: "the library's own loss", program: program(own+`
class Same(Trainer):
    def compute_loss(self, model, inputs, **more):
        return super().compute_loss(model, inputs, **more)
`, "Same(model=model, args=args)", "")},
		{name: "a loss of its own", program: program(teacher+`
class Distils(Trainer):
    def compute_loss(self, model, inputs):
        return (model(**inputs).logits - teacher(**inputs).logits).pow(2).mean()
`, "Distils(model=model, args=args)", ""), asks: []string{"/reserve_bytes"}, says: "what Distils.compute_loss keeps"},
		{name: "a loss of its own, alone", program: program(own+`

class Weighted(Trainer):
    weight = 2

    def log(self, logs):
        pass

    def compute_loss(self, model, inputs): return 1

def compute_loss(x): return x
`, "Weighted(model=model, args=args)", ""), says: "what Weighted.compute_loss keeps"},
	} {
		c.set = length
		t.Run(c.name, c.run)
	}
}

// TestStrangeTrainers are programs whose trainer is no library's that is read, or that call none.
func TestStrangeTrainers(t *testing.T) {
	program := func(imports, trainer string) string {
		return `from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
` + imports + `
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4)
` + trainer + "\n"
	}
	length := []readers.Said{{Path: "sequence_length", Value: "512"}}
	for _, c := range []scriptCase{
		{name: "the library's", program: program("", "Trainer(model=model, args=args).train()")},
		{name: "somebody's", program: program("from play.loop import SelfPlayTrainer", "SelfPlayTrainer(model=model, args=args).train()"),
			asks: []string{"/training"}},
		{name: "by another name", program: program("from play.loop import (\n    Loop,\n    PlayTrainer as MyTrainer,\n)",
			"MyTrainer(model=model, args=args).train()"), asks: []string{"/training"}},
		{name: "beside an example", program: program("from trainer_qa import QuestionAnsweringTrainer",
			"QuestionAnsweringTrainer(model=model, args=args).train()")},
		{name: "none", program: "from transformers import TrainingArguments\nfrom vllm import LLM\n" +
			"args = TrainingArguments(output_dir=\"out\", per_device_train_batch_size=4)\n" +
			"LLM(model=\"gpt2\").generate(load(args))\n", refused: "no trainer is called"},
		{name: "of a vocabulary", program: program("from tokenizers.trainers import BpeTrainer",
			"t = BpeTrainer(vocab_size=5)\nTrainer(model=model, args=args).train()")},
		{name: "in words", program: program("from utils import (\n    data,  # for SFTTrainer\n)",
			"Trainer(model=model, args=args).train()")},
		{name: "either way", program: program("try:\n    from trl import MyTrainer\nexcept ImportError:\n    "+
			"from back import MyTrainer", "Trainer(model=model, args=args).train()")},
	} {
		c.set = length
		t.Run(c.name, c.run)
	}
}

// TestMomentumOfSGD: the Trainer takes SGD's momentum from optim_args since transformers 5.3.
func TestMomentumOfSGD(t *testing.T) {
	program := func(args string) string {
		return `from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4, optim="sgd"` + args + `)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
`
	}
	said := func(release string) []readers.Said {
		return []readers.Said{{Path: "versions.transformers", Value: release}, {Path: "sequence_length", Value: "512"}}
	}
	const pointer, plain = "/training/optimizer", `{"implementation":"foreach","name":"sgd"}`
	for _, c := range []scriptCase{
		{name: "none", program: program(""), set: said("5.23.0"), want: map[string]string{pointer: plain}},
		{name: "asked for", program: program(`, optim_args="momentum=0.9, nesterov=True"`), set: said("5.23.0"),
			want: map[string]string{pointer: `{"name":"sgd-momentum"}`}},
		{name: "nothing", program: program(`, optim_args="momentum=0"`), set: said("5.23.0"),
			want: map[string]string{pointer: plain}},
		{name: "left aside", program: program(`, optim_args="momentum=0.9"`), set: said("4.57.6"),
			want: map[string]string{pointer: plain}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestPreparedBase: a program may prepare the quantised base itself, which trl's trainers do no more.
func TestPreparedBase(t *testing.T) {
	const pointer = "/training/lora/upcast_base"
	program := func(call string) string {
		return `from peft import LoraConfig, prepare_model_for_kbit_training
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="bfloat16",
    quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"))
` + call + `
trainer = SFTTrainer(model=model, args=SFTConfig(output_dir="x", per_device_train_batch_size=2, max_length=512),
    train_dataset=data, peft_config=LoraConfig(r=8, target_modules="all-linear"))
`
	}
	for _, c := range []scriptCase{
		{name: "left", program: program(""), want: map[string]string{pointer: ""}},
		{name: "prepared", program: program("model = prepare_model_for_kbit_training(model)"),
			want: map[string]string{pointer: "true"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestEffects are programs that do something with the model, its adapters or the trainer beside training it.
func TestEffects(t *testing.T) {
	program := func(model, trainer string) string {
		return `import os, torch
from peft import *
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")
` + model + `
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4)
Trainer(model=model, args=args` + trainer + ").train()\n"
	}
	lora := func(more string) string {
		return program("model = get_peft_model(model, LoraConfig(r=4, target_modules=['c_attn']"+more+"))", "")
	}
	asks := []string{"/training"}
	length := []readers.Said{{Path: "sequence_length", Value: "512"}}
	for _, c := range []scriptCase{
		{name: "no cache", program: program("model.config.use_cache = False\nmodel.to('cuda')\nmodel.train()", "")},
		{name: "stopping early", program: program("", ", callbacks=[EarlyStoppingCallback(3)], optimizers=(None, s)")},
		{name: "frozen", program: program("model.transformer.requires_grad_(False)", ""), asks: asks, says: "requires_grad_"},
		{name: "frozen by a loop", program: program("for n, p in model.named_parameters():\n    p.requires_grad = 'head' in n", ""),
			asks: asks, says: "requires_grad"},
		{name: "another one frozen", program: program("for p in vae.parameters():\n    p.requires_grad = False", "")},
		{name: "frozen where no path goes", program: program("if False:\n    model.requires_grad_(False)", "")},
		{name: "of another type", program: program("model = model.half()", ""), asks: asks, says: "model.half"},
		{name: "moved to a type", program: program("model.to(torch.bfloat16)", ""), asks: asks, says: "model.to"},
		{name: "fewer layers", program: program("model.transformer.h = model.transformer.h[:4]", ""), asks: asks},
		{name: "more rows", program: program("model.resize_token_embeddings(50304)", ""), says: "gives it others"},
		{name: "compiled", program: program("model = torch.compile(model)", ""),
			want: map[string]string{"/training/compile": "true"}},
		{name: "an optimizer of its own", program: program("", ", optimizers=(own(), None)"), asks: asks, says: "optimizers"},
		{name: "a loss of its own", program: program("", ", compute_loss_func=f"), asks: asks, says: "compute_loss_func"},
		{name: "callbacks", program: program("", ", callbacks=[EMA()]"), says: "callbacks"},
		{name: "no LoRA", program: program("model = get_peft_model(model, IA3Config())", ""), asks: asks, says: "IA3Config"},
		{name: "LoRA", program: lora(", lora_alpha=8, bias='none', task_type='CAUSAL_LM', init_lora_weights=True")},
		{name: "biases", program: lora(", bias='all'"), asks: asks, says: "bias"},
		{name: "other ranks", program: lora(", rank_pattern={'c_attn': 64}"), asks: asks, says: "rank_pattern"},
		{name: "the allocator", program: program("os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'", ""),
			want: map[string]string{"/training/allocator": `{"expandable_segments":true}`}},
		{name: "the allocator's words", program: program("os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:64'", ""),
			want: map[string]string{"/training/allocator": `{"max_split_size_mb":64}`}},
		{name: "the allocator in front", program: program("", ""),
			command: "PYTORCH_ALLOC_CONF=expandable_segments:True python train.py",
			want:    map[string]string{"/training/allocator": `{"expandable_segments":true}`}},
		{name: "the program has the last word", command: "PYTORCH_ALLOC_CONF=expandable_segments:True python train.py",
			program: program("os.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:False'", ""),
			want:    map[string]string{"/training/allocator": ""}},
		{name: "a branch of the command line", command: "python train.py --train",
			program: "import argparse\np = argparse.ArgumentParser()\np.add_argument('--train', action='store_true')\n" +
				"if p.parse_args().train:\n    " + strings.ReplaceAll(strings.TrimSpace(program("", "")), "\n", "\n    ")},
		{name: "a branch that no argument takes",
			program: "import argparse\np = argparse.ArgumentParser()\np.add_argument('--train', action='store_true')\n" +
				"if p.parse_args().train:\n    " + strings.ReplaceAll(strings.TrimSpace(program("", "")), "\n", "\n    "),
			refused: "configures no trainer"},
	} {
		c.set = length
		t.Run(c.name, c.run)
	}
}

// TestAllocatorOfScript: what a script exports sets the allocator of what it starts, or is in doubt.
func TestAllocatorOfScript(t *testing.T) {
	const program = "from transformers import Trainer, TrainingArguments\n" +
		"Trainer(model=AutoModelForCausalLM.from_pretrained('gpt2'), args=TrainingArguments('o', " +
		"per_device_train_batch_size=2)).train()\n"
	for _, c := range []struct{ export, want, says string }{
		{"expandable_segments:True", `{"expandable_segments":true}`, ""},
		{"garbage_collection_threshold:0.6,max_split_size_mb:64",
			`{"garbage_collection_threshold":0.6,"max_split_size_mb":64}`, ""},
		{"'roundup_power2_divisions:[256:1,>:8],expandable_segments:true'", `{"expandable_segments":true}`, "[256:1"},
		{"expandable_segments:False", "", ""},
		{"$CONF", "", "$CONF is not set"},
	} {
		t.Run(c.export, (&scriptCase{program: program, asks: []string{"/training/sequence_length"}, says: c.says,
			script: "#!/bin/bash\nexport PYTORCH_CUDA_ALLOC_CONF=" + c.export + "\npython train.py\n",
			want:   map[string]string{"/training/allocator": c.want}}).run)
	}
}
