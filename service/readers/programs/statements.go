package programs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	syntax "github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// movers are calls that change what a step keeps, or how much of the card there is, whatever they are called on: hooks,
// limits, other kernels (torch 2.9 torch/autograd/graph.py, torch/cuda/memory.py, torch/backends/cuda and
// torch/nn/attention; transformers 4.57.6 modeling_utils.py; liger-kernel 0.6 monkey_patch.py).
var movers = strings.Fields("set_per_process_memory_fraction saved_tensors_hooks save_on_cpu register_forward_hook " +
	"register_forward_pre_hook register_full_backward_hook register_post_accumulate_grad_hook enable_flash_sdp " +
	"enable_mem_efficient_sdp enable_cudnn_sdp sdpa_kernel set_attn_implementation to_bettertransformer " +
	"set_default_dtype set_default_tensor_type exec")

// models are calls that put another model, or a copy, on the card.
var models = strings.Fields("pipeline LLM SentenceTransformer CrossEncoder AveragedModel create_reference_model EMAModel " +
	"ExponentialMovingAverage ModelEma ModelEmaV2 ModelEmaV3")

// keepsModel are calls whose result is the model that they were given, or one that is read elsewhere.
var keepsModel = strings.Fields("get_peft_model prepare_model_for_kbit_training compile to cuda cpu train eval half float " +
	"bfloat16 double prepare for_training requires_grad_")

// patched are attributes of trainers and modules that decide what a step does.
var patched = strings.Fields("forward backward compute_loss training_step prediction_step create_optimizer optimizer " +
	"create_optimizer_and_scheduler")

// stillOfLoad are arguments of from_pretrained that are read, or that move no memory where one card is seen
// (transformers 4.57.6 modeling_utils.py, unsloth models/loader.py).
var stillOfLoad = strings.Fields("pretrained_model_name_or_path model_name dtype torch_dtype attn_implementation " +
	"load_in_4bit load_in_8bit full_finetuning max_seq_length quantization_config trust_remote_code revision token cache_dir " +
	"use_auth_token low_cpu_mem_usage device_map use_cache local_files_only use_safetensors subfolder force_download proxies " +
	"num_labels id2label label2id problem_type ignore_mismatched_sizes pad_token_id eos_token_id bos_token_id config " +
	"use_flash_attention_2 fast_inference gpu_memory_utilization max_lora_rank use_gradient_checkpointing random_state " +
	"finetuning_task state_dict output_loading_info offload_folder offload_state_dict variant hidden_dropout_prob " +
	"attention_probs_dropout_prob device tokenizer_name code_revision adapter_kwargs use_exact_model_name rope_scaling " +
	"fix_tokenizer resize_model_vocab disable_log_stats float8_kv_cache unsloth_vllm_standby from_tf from_flax mirror " +
	"load_in_16bit auto_model whisper_language whisper_task")

// statements asks about what stands between a model that is loaded and its training and that no field says.
func (e *effects) statements() {
	trainer, line := e.trainerName()
	own := map[string]bool{}
	e.Tree().Walk(func(n *syntax.Node) bool {
		switch {
		case n.Is("FunctionDef", "AsyncFunctionDef"):
			own[n.Name] = true
		case n.Is("Delete"):
			for _, t := range n.List("targets") {
				if text := e.text(t); e.ofTrained(text) && text != e.trained {
					e.ask("del "+text, n.Line)
				}
			}
		}
		return true
	})
	e.Tree().Walk(func(n *syntax.Node) bool {
		if n.Is("Assign") && n.Line < line {
			e.assigned(n, own)
			e.beside(n)
		}
		return true
	})
	for _, c := range e.Calls {
		e.moves(c, trainer, line)
	}
	for _, s := range e.Sets {
		e.patches(s.Name, s.Line, trainer)
	}
	e.loaded()
}

func (e *effects) text(n *syntax.Node) string {
	return strings.Join(strings.Fields(string(e.Source[n.Start:n.End])), "")
}

// trainerName is what the trainer is assigned to, and the line of its call.
func (e *effects) trainerName() (name string, line int) {
	call, ok := e.TrainerCall()
	if !ok {
		return "", 0
	}
	e.Tree().Walk(func(n *syntax.Node) bool {
		if v := n.Part("value"); n.Is("Assign") && v.Is("Call") && v.Line == call.Line && len(n.List("targets")) == 1 {
			name = e.text(n.List("targets")[0])
		}
		return true
	})
	return name, call.Line
}

// assigned asks about a call that makes another model of the trained one.
func (e *effects) assigned(n *syntax.Node, own map[string]bool) {
	targets, value := n.List("targets"), n.Part("value")
	if e.trained == "" || len(targets) != 1 || !value.Is("Call") || e.text(targets[0]) != e.trained {
		return
	}
	name := e.text(value.Part("func"))
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(name, e.trained+".") && retyped.MatchString(name+"(") {
		e.ask(last, n.Line)
	}
	if slices.Contains(keepsModel, last) || own[name] || !e.reached(last, n.Line) ||
		loadsModel.MatchString(name) && !loadsAdapters.MatchString(name) {
		return
	}
	if !slices.ContainsFunc(e.Calls, func(c decode.Call) bool { // the first model that there is
		return c.Line < n.Line && loadsModel.MatchString(c.Name)
	}) {
		return
	}
	e.ask(strings.Trim(name, "()"), n.Line)
}

// retyped is a change of type behind another call: model.to("cuda").float().
var retyped = regexp.MustCompile(`\)\.(half|float|double|bfloat16)\(`)

// besides are names of models that stand beside the trained one.
var besides = regexp.MustCompile(`^(self\.)?(teacher|ref|reference|critic|judge|draft|reward_model|rm|` +
	`(teacher|ref|reference|critic|judge|draft|old)_(model|policy|net))$`)

// beside asks about a model that a function makes, of this file or of another: what it loads, and whether it goes to
// the card, is not followed. Those that load it in place ModelsBeside asks about.
func (e *effects) beside(n *syntax.Node) {
	targets, value := n.List("targets"), n.Part("value")
	if len(targets) != 1 || !value.Is("Call") {
		return
	}
	name, made := e.text(targets[0]), e.text(value.Part("func"))
	last := made[strings.LastIndexByte(made, '.')+1:]
	if !besides.MatchString(name) || name == e.trained || e.placedCalls().counted(name) ||
		strings.Contains(e.text(value), "from_pretrained(") || !e.reached(last, n.Line) || slices.Contains(models, last) ||
		last == "deepcopy" {
		return
	}
	e.d.Ask("/reserve_bytes", "How many bytes does "+name+" take beside the trained model?",
		setting.Span{File: e.File, Line: n.Line}.Where()+": "+made+" makes it")
}

// reached reports whether a call of that name and line was followed.
func (e *effects) reached(last string, line int) bool {
	return slices.ContainsFunc(e.Calls, func(c decode.Call) bool {
		return c.Last() == last && c.Line >= line && c.Line <= line+maxCallLines
	})
}

// maxCallLines is over how many lines a call's beginning may be away from its statement's.
const maxCallLines = 3

// moves asks about a call by what it is.
func (e *effects) moves(c decode.Call, trainer string, trains int) {
	last := c.Last()
	of := strings.TrimSuffix(strings.TrimSuffix(c.Name, last), ".")
	first := ""
	if len(c.Position) > 0 {
		first = c.Position[0].Text
	}
	switch {
	case slices.Contains(movers, last), strings.Contains(last, "apply_liger_kernel"):
		e.ask(last, c.Line)
	case last == "setattr" && first != "" && (first == trainer || e.ofTrained(first)):
		e.ask(last, c.Line)
	case last == "add_callback" && of == trainer && trainer != "":
		if name := className.FindString(first); !slices.Contains(stillCallbacks, name) {
			e.d.Uncertain("/training", "what callbacks hold (%s) is not in the answer",
				setting.Span{File: e.File, Line: c.Line}.Where())
		}
	case last == "setup_chat_format":
		e.d.Uncertain("/model", "the embedding has as many rows as the checkpoint's: %s (%s) gives it others", c.Name,
			setting.Span{File: e.File, Line: c.Line}.Where())
	case c.Line < trains && (slices.Contains(models, last) && !e.references(last) ||
		last == "deepcopy" && e.ofTrained(first)):
		e.d.Ask("/reserve_bytes", "How many bytes does what "+c.Name+" makes take beside the trained model?",
			setting.Span{File: e.File, Line: c.Line}.Where())
	case c.Line < trains && e.fills(c):
		e.d.Uncertain("/reserve_bytes", "what %s (%s) puts on the card is not in the answer", c.Name,
			setting.Span{File: e.File, Line: c.Line}.Where())
	}
}

// references says whether a call makes the reference that the kind of training counts.
func (e *effects) references(last string) bool {
	trainer, ok := e.TrainerCall()
	kind := strings.ToLower(strings.TrimSuffix(trainer.Last(), "Trainer"))
	return ok && last == "create_reference_model" && Kinds[kind].Reference
}

// fills says whether a call makes a tensor on the card of more than a few numbers.
func (e *effects) fills(c decode.Call) bool {
	const few = 1 << 16
	device, _ := c.Keywords.Peek("device")
	if !strings.Contains(device.Text, "cuda") || !slices.Contains([]string{"torch.zeros", "torch.ones", "torch.empty",
		"torch.rand", "torch.randn", "torch.full"}, c.Name) {
		return false
	}
	n := int64(1)
	for _, v := range c.Position {
		i, isInt := v.Int()
		if !isInt || i < 0 || i > few {
			return true
		}
		if n *= i; n > few {
			return true
		}
	}
	return len(c.Position) == 0
}

// patches asks about an attribute that decides what a step does, and about types that are changed in a loop.
func (e *effects) patches(name string, line int, trainer string) {
	root, last, ok := cutLast(name)
	switch {
	case !ok || e.ofTrained(name): // which is asked about by itself
	case last == "data":
		if of := e.goesOver(root, line); of == "" || of != root && e.ofTrained(of) {
			e.ask(name, line)
		}
	case slices.Contains(patched, last) && root != "self":
		e.ask(name, line)
	case root == trainer && last == "model":
		e.ask(name, line)
	}
}

func cutLast(name string) (root, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// loaded asks about arguments of the call that loads the trained model which are about the model.
func (e *effects) loaded() {
	call, ok := e.ModelCall()
	if !ok {
		return
	}
	for _, key := range call.Keywords.Keys() {
		v, _ := call.Keywords.Peek(key)
		if !strings.Contains(key, ".") && !slices.Contains(stillOfLoad, key) && (v.Unknown != "" || !v.Off()) {
			e.ask(key, v.Origin.At.Line)
		}
	}
	if v, given := call.Keywords.Peek("config"); given && v.Given() {
		for _, c := range e.Calls {
			if c.Last() == "from_pretrained" && strings.Contains(c.Name, "Config.") {
				e.configured(c)
			}
		}
	}
}

// configured asks about what a configuration is told otherwise than its checkpoint says.
func (e *effects) configured(c decode.Call) {
	for _, key := range c.Keywords.Keys() {
		v, _ := c.Keywords.Peek(key)
		if strings.Contains(key, ".") || slices.Contains(stillOfLoad, key) {
			continue
		}
		if _, err := strconv.ParseBool(v.Text); v.Unknown != "" || err != nil {
			e.ask(key, v.Origin.At.Line)
		}
	}
}
