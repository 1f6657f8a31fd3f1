"""The fronts for training loops without PyTorch, on objects of our own: python3 loops_alone.py PACKAGE PROGRAM URL KEY."""
import contextlib
import io
import os
import sys
import types
sys.path.insert(0, sys.argv[1])
import vramplan
from vramplan import _describe, _observe as v, _program, _run

_program.program = lambda: sys.argv[2]
url, key = sys.argv[3], sys.argv[4]
job = {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4090"]}
answer = vramplan.report(job, measured={"allocated_bytes": 3000000000}, url=url, key=key, run="run-1")
assert answer["measured"]["allocated_bytes"] == 3000000000, answer
again = v.report(job, measured={"allocated_bytes": 3000000000}, url=url + "/", key=key, run="run-1")
assert again["id"] == answer["id"], again

# A torch and a driver of our own: 3 GB reserved at the peak and 2 GB now, of 2.4 GB that the process has.

said = v.say
class NVMLError(Exception): pass
class Properties: uuid = "6f1c"
torch = types.SimpleNamespace(__version__="2.9.1+cu128", version=types.SimpleNamespace(cuda="12.8", hip=None), cuda=types.SimpleNamespace(
    current_device=lambda: 1, get_device_properties=lambda i: Properties, memory_reserved=lambda: 2000000000,
    max_memory_reserved=lambda: 3000000000, max_memory_allocated=lambda: 2900000000))
sys.modules["torch"] = torch
def process(pid, used): return types.SimpleNamespace(pid=pid, usedGpuMemory=used)
def driver(processes, prefix="GPU-", cards=1):
    def by_uuid(uuid):
        if uuid != prefix + "6f1c": raise NVMLError(uuid)
        return "card"
    sys.modules["pynvml"] = types.SimpleNamespace(NVMLError=NVMLError, nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: cards,
        nvmlDeviceGetHandleByIndex=lambda i: "card", nvmlDeviceGetHandleByUUID=by_uuid, nvmlDeviceGetComputeRunningProcesses=lambda card: processes)
me, other = os.getpid(), os.getpid() + 1
own = process(me, 2400000000)
def reports(device, why):
    says = []
    v.say = says.append
    measured = v.measure()
    assert measured.get("device_bytes") == device, (measured, says)
    assert measured["allocated_bytes"] == 2900000000 and measured["reserved_bytes"] == 3000000000, measured
    assert len(says) == (device is None) and why in "".join(says), says

for processes, device, why in [
    ([own], 3400000000, ""),
    ([process(other, 9000000000), own], 3400000000, ""),
    ([process(other, 2400000000)], 3400000000, ""),  # in a container, alone on the card
    ([process(other, 2400000000), process(other + 1, 1)], None, "names 2 processes on the card"),
    ([], None, "names 0 processes on the card"),
    ([process(me, None)], None, "does not say what a process takes"),
    ([process(me, 1900000000)], None, "has 1900000000 bytes, and PyTorch has reserved 2000000000"),
]:
    driver(processes)
    reports(device, why)
driver([own], prefix="MIG-")
reports(3400000000, "")
driver([own], prefix="another card: ")
reports(None, "NVMLError")
del Properties.uuid
driver([own])
reports(3400000000, "")
driver([own], cards=2)
reports(None, "which of several cards")
torch.version.hip = "6.4"
reports(None, "AMD")
torch.version.hip = None
sys.modules["pynvml"] = None  # as where it is not installed
reports(None, "pip install nvidia-ml-py")
Properties.uuid = "6f1c"
driver([own])
v.say = said
answer = v.report(job, url=url, key=key)
assert answer["measured"]["device_bytes"] == 3400000000 and answer["versions"]["torch"] == "2.9.1" and answer["torch"] == "2.9.1", answer
del sys.modules["torch"]


# ---- objects as those of transformers, peft and PyTorch, as far as they are looked at

class Tensor:
    def __init__(self, *shape, dtype="torch.float32", trained=True, values=()):
        self.shape, self.dtype, self.requires_grad, self.values = shape, dtype, trained, values
    def numel(self):
        n = 1
        for side in self.shape: n *= side
        return n
    def __ne__(self, other): return Tensor(values=[x != other for x in self.values])
    def all(self): return all(self.values)

class Config:
    model_type, _attn_implementation, is_encoder_decoder = "gpt2", "sdpa", False
    def __init__(self, **keys): self.keys = dict(model_type="gpt2", n_layer=2, n_embd=64, n_head=2, vocab_size=1000, n_positions=128, **keys)
    def to_dict(self): return self.keys

def layers(trained=True, dtype="torch.float32"):
    e, tensors = 64, {"wte": Tensor(1000, 64), "wpe": Tensor(128, 64), "ln_f": Tensor(128)}
    for i in range(2):
        tensors[f"h.{i}"] = Tensor(12 * e * e + 13 * e)
    for t in tensors.values(): t.requires_grad, t.dtype = trained, dtype
    return tensors

class Hook:
    def __init__(self, list, hook): self.list, self.hook = list, hook; list.append(hook)
    def remove(self): self.list.remove(self.hook)

class GPT2LMHeadModel:
    def __init__(self, **parameters):
        self.config, self.tensors, self.training, self.hooks, self.parts = Config(), layers() | parameters, True, [], []
    def named_parameters(self): return self.tensors.items()
    def parameters(self): return self.tensors.values()
    def modules(self): return [self] + self.parts
    def register_forward_pre_hook(self, hook, with_kwargs=False): return Hook(self.hooks, hook)
    def __call__(self, **given):
        for hook in list(self.hooks): hook(self, (), given)

class Optimizer:
    def __init__(self, model, kind="AdamW", place="torch.optim.adamw", **settings):
        self.param_groups = [dict(settings, params=list(model.parameters()))]
        self.hooks = []
        self.__class__ = type(kind, (Optimizer,), {"__module__": place, "__init__": Optimizer.__init__})
    def register_step_post_hook(self, hook): return Hook(self.hooks, hook)
    def step(self):
        for hook in list(self.hooks): hook(self, (), {})

def batch(rows=2, tokens=64, mask=None, **more):
    given = dict(input_ids=Tensor(rows, tokens), labels=Tensor(rows, tokens), **more)
    if mask: given["attention_mask"] = Tensor(rows, tokens, values=mask)
    return given

def described(model, optimizer=None, autocast=None, mask=None, given=None, more=None):
    return _describe.describe(model, _describe.batch_of((), batch(mask=mask, **(more or {}))), optimizer, autocast, given=given)

model = GPT2LMHeadModel()
found = described(model, Optimizer(model, fused=True), "bf16", mask=[1, 1])
assert not found.unclear and found.parameters == found.trained == 172288, (found.unclear, found.parameters)
assert found.job["model"]["hf_config"]["architectures"] == ["GPT2LMHeadModel"]
assert found.job["training"] == {"framework": "pytorch", "micro_batch": 2, "sequence_length": 64, "attention": "sdpa",
    "gradient_checkpointing": "none", "precision": "amp-bf16", "optimizer": {"name": "adamw", "implementation": "fused"}}, found.job["training"]
assert described(model, mask=[1, 0]).job["training"]["attention_mask"] == "explicit"
assert described(model, given={"clip_grad_norm": False, "attention": "eager"}).job["training"]["attention"] == "eager"

# What is stored and computed in which type.
for dtype, autocast, precision, states in [
    ("torch.float32", None, "fp32", None), ("torch.float32", "fp16", "amp-fp16", None), ("torch.bfloat16", None, "bf16", None),
    ("torch.bfloat16", "bf16", "amp-bf16", {"weights": "bf16"}), ("torch.float16", None, "fp16", None)]:
    training = described(GPT2LMHeadModel(**layers(dtype=dtype)), autocast=autocast).job["training"]
    assert (training["precision"], training.get("states")) == (precision, states), training

# Optimizers, by their classes.
for kind, place, settings, said in [
    ("AdamW", "torch.optim.adamw", {"foreach": None}, {"name": "adamw"}),
    ("Adam", "torch.optim.adam", {"foreach": False}, {"name": "adam", "implementation": "for-loop"}),
    ("SGD", "torch.optim.sgd", {"momentum": 0.9, "foreach": True}, {"name": "sgd-momentum", "implementation": "foreach"}),
    ("SGD", "torch.optim.sgd", {"momentum": 0}, {"name": "sgd"}),
    ("Adam", "torch.optim.adam", {"amsgrad": True}, {"name": "amsgrad"}),
    ("Adafactor", "transformers.optimization", {}, {"name": "adafactor", "implementation": "transformers"}),
    ("Adafactor", "torch.optim._adafactor", {}, {"name": "adafactor", "implementation": "torch"}),
    ("AdamW8bit", "bitsandbytes.optim.adamw", {}, {"name": "adamw-8bit"}),
    ("PagedAdamW8bit", "bitsandbytes.optim.adamw", {}, {"name": "paged-adamw-8bit"})]:
    found = described(model, Optimizer(model, kind, place, **settings))
    assert found.job["training"]["optimizer"] == said and not found.unclear, (kind, found)
wrapped = type("AcceleratedOptimizer", (), {"optimizer": Optimizer(model)})()
assert described(model, wrapped).job["training"]["optimizer"]["name"] == "adamw"

# Checkpointing, as layers carry it.
def block(on, **keywords):
    return types.SimpleNamespace(gradient_checkpointing=on, _gradient_checkpointing_func=types.SimpleNamespace(keywords=keywords))
for part, said in [(block(False), "none"), (block(True), {"mode": "full"}), (block(True, use_reentrant=False), {"mode": "full", "reentrant": False})]:
    model.parts = [part]
    assert described(model).job["training"]["gradient_checkpointing"] == said
model.parts = []

# Adapters, and a base that bitsandbytes packed.
class PeftModel(GPT2LMHeadModel):
    def __init__(self, base, **settings):
        super().__init__()
        self.base, self.tensors = base, dict(base.tensors, **{"c_attn.lora_A.default": Tensor(8, 64), "c_attn.lora_B.default": Tensor(192, 8)})
        self.peft_config = {"default": types.SimpleNamespace(**dict(dict(peft_type="PeftType.LORA", r=8, lora_alpha=16, lora_dropout=0.1, target_modules={"c_attn"}, bias="none"), **settings))}
    def get_base_model(self): return self.base
frozen = GPT2LMHeadModel(**layers(trained=False, dtype="torch.bfloat16"))
found = described(PeftModel(frozen), autocast="bf16")
assert found.job["training"]["lora"] == {"rank": 8, "alpha": 16.0, "dropout": 0.1, "target_modules": ["c_attn"], "base_precision": "bf16", "adapter_dtype": "fp32"}, found
assert found.trained == 8 * 64 + 192 * 8 and not found.unclear
packed = Tensor(12 * 64 * 32, dtype="torch.uint8", trained=False)
packed.quant_state, packed.quant_type, packed.compress_statistics = types.SimpleNamespace(shape=(12 * 64, 64)), "nf4", True
base = GPT2LMHeadModel(**layers(trained=False))
base.tensors["h.0"] = packed
base.parts = [type("Linear4bit", (), {"__module__": "bitsandbytes.nn.modules", "weight": packed})()]
found = described(PeftModel(base), autocast="bf16")
assert {k: found.job["training"]["lora"][k] for k in ("base_precision", "double_quantization", "upcast_base")} == {"base_precision": "nf4", "double_quantization": True, "upcast_base": True}, found
assert found.parameters == 172288 - 13 * 64 + 8 * 64 + 192 * 8 and not found.unclear, found

# What no document says is named, and never guessed.
class Mine: pass
strange = GPT2LMHeadModel()
strange.tensors["h.1"] = Tensor(12 * 64 * 64 + 13 * 64, dtype="torch.bfloat16")
flex = GPT2LMHeadModel()
flex.config._attn_implementation = "flex_attention"
for found, words in [
    (described(Mine()), "Mine is no model of transformers"),
    (described(model, Optimizer(model, "Shampoo", "mine")), "the optimizer is mine.Shampoo"),
    (described(strange), "weights are stored in several types: bf16, fp32"),
    (described(flex), "attention is flex_attention"),
    (described(model, more={"pixel_values": Tensor(2, 3, 8, 8)}), "the model is given pixel_values"),
    (described(model, Optimizer(frozen)), "5 parameters get gradients and are not the optimizer's"),
    (described(PeftModel(frozen, peft_type="PeftType.IA3")), "adapters are peft's IA3"),
    (described(PeftModel(frozen, bias="all")), "adapters train biases (all)"),
    (described(PeftModel(frozen, rank_pattern={"c": 4})), "adapters have rank_pattern")]:
    assert words in "; ".join(found.unclear), found.unclear

# ---- a loop of our own: nothing is loaded that measures, and the program answers

@contextlib.contextmanager
def listening():
    text, before = io.StringIO(), sys.stderr
    sys.stderr = text
    try: yield text
    finally: sys.stderr = before

def loop(model, raises=None, forwards=({}, {}, {}, {}), optimizer=None, **settings):
    optimizer = optimizer or Optimizer(model, fused=True)
    with listening() as text:
        try:
            with vramplan.watch(model, optimizer, **settings) as run:
                for given in forwards:
                    model(**batch(**given))
                    optimizer.step()
                if raises: raise raises
        except BaseException as error:
            if error is not raises and not isinstance(error, vramplan.DoesNotFit): raise
            return text.getvalue(), error
    assert not model.hooks, model.hooks
    return text.getvalue(), run

said, run = loop(GPT2LMHeadModel(), gpu="rtx-4090")
for words in ("gpt2, 2 × 64 tokens: ", " allocated, ", "assumed: ", "optimizer adamw, fused", "fits: rtx-4090 has 23.52 GiB for it", "after 3 steps: nothing is measured"):
    assert words in said, (words, said)
assert run.result["peak"]["allocated_bytes"] > 0 and not run.broken
assert "{" not in said, said
said, error = loop(GPT2LMHeadModel(), gpu={"name": "toy", "memory_bytes": 64 << 20}, refuse=True)
assert isinstance(error, vramplan.DoesNotFit) and "does not fit: toy has " in str(error) and error.result["peak"], (said, error)
said, run = loop(GPT2LMHeadModel(), gpu={"name": "toy", "memory_bytes": 64 << 20})
assert "does not fit: toy has " in said and run.steps == 4, said
said, run = loop(GPT2LMHeadModel(), forwards=({}, {"tokens": 128}), steps=2)
assert run.job["training"]["sequence_length"] == 128, run.job

# An error of memory is explained, raised again, and others are left alone.
full = RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 2.00 MiB is free. "
    "Of the allocated memory 23.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.")
said, error = loop(GPT2LMHeadModel(), raises=full, gpu="rtx-4090")
assert error is full and said.count("out of memory: ") == 1, said
said, error = loop(GPT2LMHeadModel(), raises=KeyError("x"), gpu="rtx-4090")
assert isinstance(error, KeyError) and "out of memory" not in said, said

# What goes wrong here is one line, and the run goes on.
class Odd(GPT2LMHeadModel):
    def named_parameters(self): raise ValueError("odd\nmore")
said, run = loop(Odd())
assert said == "vramplan: this run is not watched any further: ValueError: odd\n" and run.steps == 0, said
wrong = GPT2LMHeadModel()
wrong.tensors["more"] = Tensor(7)
said, run = loop(wrong)
assert "172,295 parameters of which 172,295 are trained, its document 172,288" in said and run.result is None, said
good, _program.program = _program.program, lambda: "/nowhere"
said, run = loop(GPT2LMHeadModel())
assert said.count("\n") == 1 and "FileNotFoundError" in said, said
_program.program = good
said, run = loop(GPT2LMHeadModel(), optimizer=Optimizer(model, "Mine", "mine"))
assert "not estimated, since no job document says it exactly: the optimizer is mine.Mine" in said, said

# A service that is named gets what was measured, once.
_run._measure = lambda out_of_memory: {"allocated_bytes": 4000000000, **({"out_of_memory": True} if out_of_memory else {})}
said, error = loop(GPT2LMHeadModel(), raises=full, job=job, service=url, key=key, gpu="rtx-4090")
assert error is full and "not reported" not in said, said
said, run = loop(GPT2LMHeadModel(), job=job, gpu="rtx-4090")
assert "after 3 steps: allocated 3.73 GiB measured, " in said, said
said, run = loop(GPT2LMHeadModel(), optimizer=Optimizer(model, "Mine", "mine"), service=url, key=key)
assert "the run was not reported: there is no job document of it" in said, said

assert v.report(job, measured={}, url=url, key=key) is None
assert v.report(job, measured={"allocated_bytes": 1}, url=url, key="wrong") is None
assert v.report(job, measured={"allocated_bytes": 1}, url="http://127.0.0.1:1", key=key) is None
assert v.report({"not json": object()}, measured={}, url=url, key=key) is None
