#!/usr/bin/env python3
"""Trace jobs in trl's own trainers on the stand-in driver.

    python trainers.py jobs.ndjson --out rows.jsonl     a case a line: id, job, truth, versions

A line of jobs.ndjson is {"id": ..., "job": {...}}, the job being a document as `vramplan estimate` takes it, with model.hf_config and
training.objective. The trainer is not changed: it gets a model made of the configuration, a data set of words of the job's lengths and its own
configuration, and runs two optimizer steps.
$STANDIN is the folder that driver/build.sh made for the Python that runs this, which has trl and datasets besides a stack's releases:

    pip install "trl==0.26.2" datasets        or trl==1.16.0
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time

import passes

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks"))
import sharding

WORDS = ["<pad>", "<eos>", "<unk>", "a", "b", "c"]
HALF = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
OPTIMIZERS = {
    ("adamw", "fused"): "adamw_torch_fused",
    ("adamw", "foreach"): "adamw_torch",
    ("sgd", None): "sgd",
    ("adafactor", None): "adafactor",
    ("schedule-free-adamw", None): "schedule_free_adamw",
    ("schedule-free-sgd", None): "schedule_free_sgd",
    ("schedule-free-radam", None): "schedule_free_radam",
    ("stable-adamw", None): "stable_adamw",
    ("adalomo", None): "adalomo",
    ("lomo", None): "lomo",
    ("apollo-adamw", None): "apollo_adamw",
}


def tokenizer(transformers):
    """Splits at spaces, and knows six words."""
    import tokenizers

    words = tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>")
    whole = tokenizers.Tokenizer(words)
    whole.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=1 << 20,
        model_input_names=["input_ids", "attention_mask"],
    )
    made.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    return made


def model(config, dtype, labels=0, attention=None, under=None, dropout=None):
    """A model of the class that the configuration names, or of the one of its family that gives classes, with the attention that the
    library chooses where nothing is said; under is what from_pretrained would make it in."""
    import torch
    import transformers

    given = transformers.CONFIG_MAPPING[config["model_type"]].from_dict(dict(config), attn_implementation=attention)
    if dropout is not None:
        import models

        models.drop(given, dropout)
    given.eos_token_id = WORDS.index("<eos>")  # else a family's own may be the token that is sampled
    name = config["architectures"][0]
    if labels:
        given.num_labels, given.pad_token_id = labels, 0
        name = transformers.AutoModelForSequenceClassification._model_mapping[type(given)].__name__
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, HALF[dtype]))
    try:
        with under or contextlib.nullcontext():
            made = getattr(transformers, name)(given)
    finally:
        torch.set_default_dtype(before)
    made.tie_weights()
    made.config._name_or_path = "local/model"
    return made


def stored(config, dtype, lora, labels=0, attention=None):
    """The same with linear layers as bitsandbytes quantises them, as from_pretrained makes it of published weights: a file of zeros
    that takes no room on the disk."""
    import torch
    import transformers

    half = getattr(torch, HALF[dtype])
    with torch.device("meta"):
        empty = model(config, dtype, labels, attention)
    empty.config.dtype = half
    folder, at, header = tempfile.mkdtemp(), 0, {"__metadata__": {"format": "pt"}}
    tied = set(empty._tied_weights_keys or ()) if empty.config.get_text_config().tie_word_embeddings else ()
    for name, x in empty.state_dict().items():
        if name not in tied:
            size = x.numel() * x.element_size()
            header[name] = dict(dtype={2: {"bf16": "BF16", "fp16": "F16"}.get(dtype), 4: "F32"}[x.element_size()])
            header[name].update(shape=list(x.shape), data_offsets=[at, at := at + size])
    empty.config.save_pretrained(folder)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)
    if lora["base_precision"] == "int8":
        how = transformers.BitsAndBytesConfig(load_in_8bit=True)
    else:
        how = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=lora.get("double_quantization", False),
            bnb_4bit_compute_dtype=half,
        )
    return type(empty).from_pretrained(folder, quantization_config=how, dtype=half, attn_implementation=attention)


def target(names):
    """The modules that get adapters, as peft takes them: a word for all linear layers and an expression are no lists."""
    if isinstance(names, str):
        return names
    alone = len(names) == 1 and (names[0] == "all-linear" or set(names[0]) & set("*+?()[]|\\^$"))
    return names[0] if alone else list(names)


class Trainers:
    """The trainers of trl, each with what it is given for a job."""

    def __init__(self, job):
        self.job, self.zero = job, None
        self.training, self.objective = job["training"], job["training"].get("objective") or {}
        self.config = job["model"]["hf_config"]
        self.kind = self.objective.get("kind")
        t = self.training
        pure = {"bf16": "bf16", "fp16": "fp16"}.get(t.get("precision"), "fp32")
        if lora := t.get("lora"):  # a base is stored in the computation's type where nothing is said
            half = {"amp-bf16": "bf16", "amp-fp16": "fp16"}.get(t.get("precision", "amp-bf16"), pure)
            pure = half if self.quantised() else lora.get("base_precision", half)
        self.dtype = (t.get("states") or {}).get("weights", pure)
        self.rows = 8 * t["micro_batch"] * t.get("gradient_accumulation", 1)
        self.prompt, self.completion = self.objective.get("prompt_tokens"), self.objective.get("completion_tokens")

    def quantised(self):
        """Whether the base of the adapters is bitsandbytes'."""
        return (self.training.get("lora") or {}).get("base_precision") in ("nf4", "int8")

    def checkpointing(self):
        """The mode of gradient checkpointing; None where nothing is said."""
        given = self.training.get("gradient_checkpointing")
        return given.get("mode", "full") if isinstance(given, dict) else given

    def model(self, config=None, dtype=None, labels=0):
        attention = self.training.get("attention")
        attention = "sdpa" if attention == "flash" else attention
        if self.quantised() and config is None:
            return stored(self.config, self.dtype, self.training["lora"], labels, attention)
        under = sharding.zero_init(self.zero) if self.zero else None
        return model(config or self.config, dtype or self.dtype, labels, attention, under, self.training.get("dropout"))

    def settings(self, of, **own):
        """The trainer's configuration; of its own settings those that the release has."""
        t, precision = self.training, self.training.get("precision", "amp-bf16")
        optimizer = t.get("optimizer") or {"name": "adamw", "implementation": "fused"}
        optimizer = {"name": optimizer} if isinstance(optimizer, str) else optimizer
        checkpointing = t.get("gradient_checkpointing") or {}
        if isinstance(checkpointing, str):
            checkpointing = {"mode": checkpointing}
        reentrant = {"use_reentrant": checkpointing["reentrant"]} if "reentrant" in checkpointing else None
        has = of.__dataclass_fields__
        given = dict(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=t["micro_batch"],
            gradient_accumulation_steps=t.get("gradient_accumulation", 1),
            max_steps=passes.STEPS,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            bf16=precision == "amp-bf16",
            fp16=precision == "amp-fp16",
            optim=OPTIMIZERS[optimizer["name"], optimizer.get("implementation")],
            gradient_checkpointing_kwargs=reentrant,
            max_grad_norm=0.0 if t.get("clip_grad_norm") is False else 1.0,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            label_smoothing_factor=t.get("label_smoothing", 0.0),
            neftune_noise_alpha=t.get("neftune_noise_alpha"),
            ddp_find_unused_parameters=(t.get("distributed") or {}).get("find_unused_parameters"),
        )
        loss = t.get("loss") or {}
        if (loss if isinstance(loss, str) else loss.get("kind")) == "fused-linear":
            given["use_liger_kernel"] = True
        if evaluation := t.get("evaluation"):
            given.update(eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=self.evaluated(evaluation))
        if checkpointing:  # the trainer's own default where nothing is said
            given["gradient_checkpointing"] = checkpointing["mode"] == "full"
        given.update({k: v for k, v in own.items() if k in has and v is not None})
        given.update(sharding.settings(self.job))
        made = of(**given)
        if sharding.stage(self.job) == 3 and t["distributed"].get("zero_init", True):
            self.zero = made.hf_deepspeed_config.config  # models are made under it from here on
        return made

    def evaluated(self, evaluation):
        """The batch of an evaluation."""
        return evaluation.get("micro_batch", self.training["micro_batch"])

    def adapters(self, task="CAUSAL_LM"):
        lora = self.training.get("lora")
        if not lora:
            return None
        import peft

        return peft.LoraConfig(
            r=lora["rank"],
            lora_alpha=lora.get("alpha", 2 * lora["rank"]),
            lora_dropout=lora.get("dropout", 0.0),
            target_modules=target(lora["target_modules"]),
            use_dora=lora.get("dora", False),
            modules_to_save=lora.get("modules_to_save") and list(lora["modules_to_save"]),
            task_type=task,
            **{name: lora[name] for name in passes.OF_PEFT if name in lora},
        )

    def lengths(self, most):
        """That of each row: with padding, every other one is shorter by a quarter."""
        padded = self.training.get("attention_mask") == "explicit"
        return [most - most // 4 if padded and i % 2 else most for i in range(self.rows)]

    def data(self, rows):
        import datasets

        datasets.disable_progress_bars()
        return datasets.Dataset.from_list(list(rows))

    def reference(self):
        """The second model, where the job has one."""
        o = self.objective
        kind = o.get("reference", "adapter-off" if self.training.get("lora") else "separate")
        if kind == "separate" or kind == "precomputed" and o.get("reference_resident"):
            return self.model(dtype=o.get("reference_dtype"))
        return None

    def make(self):
        import trl
        import transformers

        self.trl, self.tokenizer = trl, tokenizer(transformers)
        return getattr(self, {"cpo": "pairs", "simpo": "pairs", "orpo": "pairs", "rloo": "grpo"}.get(self.kind, self.kind))()

    def trainer(self, of, settings, data, task="CAUSAL_LM", **models):
        if evaluation := self.training.get("evaluation"):  # of two batches
            models["eval_dataset"] = data.select(range(min(len(data), 2 * self.evaluated(evaluation))))
        return of(args=settings, train_dataset=data, processing_class=self.tokenizer, peft_config=self.adapters(task), **models)

    def found(self, kind, trainer, settings):
        """A trainer and its settings, which releases keep in different places."""
        if hasattr(self.trl, trainer) and (kind in ("sft", "dpo", "reward", "grpo", "rloo") or trl_is_new(self.trl)):
            return getattr(self.trl, trainer), getattr(self.trl, settings)
        place = importlib.import_module(f"trl.experimental.{kind}")
        return getattr(place, trainer), getattr(place, settings)

    def sft(self):
        o, tokens = self.objective, self.training["sequence_length"]
        of, settings = self.found("sft", "SFTTrainer", "SFTConfig")
        rows = [tokens] * self.rows if o.get("packing") else self.lengths(tokens)
        given = self.settings(
            settings,
            max_length=tokens,
            packing=bool(o.get("packing")),
            packing_strategy=o.get("packing_strategy"),
            padding_free=bool(o.get("padding_free")),
            loss_type=one(o.get("loss_type")),
        )
        if given.padding_free and not given.packing and trl_is_new(self.trl):
            given.max_length = None  # which it refuses to enforce then
        return self.trainer(of, given, self.data({"input_ids": [passes.TOKEN] * n} for n in rows), model=self.model())

    def compared(self):
        chosen, rejected = self.lengths(self.completion), self.lengths(self.completion)[::-1]
        return self.data(
            {"prompt": words(p), "chosen": " " + words(c - 1, "b"), "rejected": " " + words(r - 1, "c")}
            for p, c, r in zip(self.lengths(self.prompt), chosen, rejected)
        )

    def dpo(self):
        o = self.objective
        of, settings = self.found("dpo", "DPOTrainer", "DPOConfig")
        given = self.settings(
            settings,
            max_length=self.prompt + self.completion,
            max_prompt_length=self.prompt,
            precompute_ref_log_probs=o.get("reference") == "precomputed",
            loss_type=o.get("loss_type"),
            label_smoothing=1e-3 if "exo_pair" in (o.get("loss_type") or ()) else None,  # which it must have
            use_logits_to_keep=o.get("use_logits_to_keep"),
            padding_free=o.get("padding_free"),
        )
        return self.trainer(of, given, self.compared(), model=self.model(), ref_model=self.reference())

    def pairs(self):
        name = "orpo" if self.kind == "orpo" else "cpo"
        of, settings = self.found(name, name.upper() + "Trainer", name.upper() + "Config")
        simple = dict(loss_type="simpo", cpo_alpha=0.0) if self.kind == "simpo" else {}
        given = self.settings(settings, max_length=self.prompt + self.completion, max_prompt_length=self.prompt, **simple)
        return self.trainer(of, given, self.compared(), model=self.model())

    def kto(self):
        of, settings = self.found("kto", "KTOTrainer", "KTOConfig")
        o = self.objective
        # before 1.0 it leaves room for a first token, which this tokenizer has not (_process_tokens)
        room = 0 if trl_is_new(self.trl) else 1
        given = self.settings(
            settings,
            max_length=self.prompt + self.completion + room,
            max_prompt_length=self.prompt,
            precompute_ref_log_probs=o.get("reference") == "precomputed",
            loss_type=one(o.get("loss_type")),
        )
        rows = (
            {"prompt": words(self.prompt), "completion": " " + words(self.completion - 1, "cb"[i % 2]), "label": bool(i % 2)}
            for i in range(max(self.rows, 8))
        )
        return self.trainer(of, given, self.data(rows), model=self.model(), ref_model=self.reference())

    def reward(self):
        of, settings = self.found("reward", "RewardTrainer", "RewardConfig")
        tokens = self.training["sequence_length"]
        suffix = "ids" if trl_is_new(self.trl) else "input_ids"
        rows = self.lengths(tokens)
        data = self.data(
            {f"chosen_{suffix}": [passes.TOKEN] * a, f"rejected_{suffix}": [passes.TOKEN] * b} for a, b in zip(rows, rows[::-1])
        )
        return self.trainer(of, self.settings(settings, max_length=tokens), data, "SEQ_CLS", model=self.model(labels=1))

    def gkd(self):
        of, settings = self.found("gkd", "GKDTrainer", "GKDConfig")
        o, tokens = self.objective, self.training["sequence_length"]
        prompt = o.get("prompt_tokens", tokens // 2)
        asked = [{"role": "user", "content": words(prompt)}, {"role": "assistant", "content": words(tokens - prompt, "b")}]
        given = self.settings(settings, max_length=tokens, lmbda=0.0, beta=o.get("beta"), max_new_tokens=tokens - prompt)
        teacher = self.model(o["teacher"]["hf_config"], o.get("teacher_dtype", "bf16"))
        data = self.data({"messages": asked} for _ in range(self.rows))
        return self.trainer(of, given, data, model=self.model(), teacher_model=teacher)

    def grpo(self):
        name = self.kind.upper()
        of, settings = self.found(self.kind, name + "Trainer", name + "Config")
        o = self.objective
        beta = o.get("beta", 0.0 if self.kind == "grpo" else 0.05)
        given = self.settings(
            settings,
            max_prompt_length=self.prompt,
            max_completion_length=self.completion,
            beta=beta,
            loss_type=one(o.get("loss_type")),
            **{k: o.get(k) for k in ("num_generations", "steps_per_generation", "num_iterations")},
        )
        if beta and not self.training.get("lora"):  # the trainer loads the reference by its name: here it is made
            place = sys.modules[of.__module__]
            if hasattr(place, "create_model_from_path"):
                place.create_model_from_path = lambda *_, **__: self.model()
            type(self.model()).from_pretrained = classmethod(lambda *_, **__: self.model())
            import transformers

            config = transformers.CONFIG_MAPPING[self.config["model_type"]].from_dict(dict(self.config))
            transformers.AutoConfig.from_pretrained = classmethod(lambda *_, **__: config)
        data = self.data({"prompt": words(self.prompt)} for _ in range(max(self.rows, 8)))

        def reward(completions, **_):
            return [float(i % 2) for i in range(len(completions))]

        return self.trainer(of, given, data, model=self.model(), reward_funcs=reward)

    def ppo(self):
        of, settings = self.found("ppo", "PPOTrainer", "PPOConfig")
        t = self.training
        given = self.settings(
            settings,
            response_length=self.completion,
            num_ppo_epochs=1,
            num_mini_batches=1,
            num_sample_generations=0,
            local_rollout_forward_batch_size=self.objective.get("rollout_forward_batch", 64),
            total_episodes=passes.STEPS * t["micro_batch"] * t.get("gradient_accumulation", 1),
        )
        given.max_steps = -1
        data = self.data({"input_ids": [passes.TOKEN] * self.prompt} for _ in range(max(self.rows, 16)))
        return self.trainer(
            of,
            given,
            data,
            eval_dataset=data,
            model=self.model(),
            ref_model=None if t.get("lora") else self.model(),
            reward_model=self.model(labels=1),
            value_model=self.model(labels=1),
        )


def words(n, word="a"):
    return " ".join([word] * n)


def one(loss_types):
    """The loss of a trainer that takes no list of them."""
    return loss_types[0] if isinstance(loss_types, list) and loss_types else loss_types


def trl_is_new(trl):
    """From 1.0 on its trainers are written anew."""
    return int(trl.__version__.split(".")[0]) > 0


def joined(job):
    """Makes this process the rank of a job on several GPUs that ranks/ traces: nothing is sent."""
    distributed = job["training"].get("distributed")
    if not distributed:
        return
    import accelerate.data_loader
    import accelerate.utils
    import group
    import transformers

    group.join(distributed.get("rank", 0), distributed["world_size"], sharding.on_the_host(job))
    sharding.patch(job)
    accelerate.data_loader.synchronize_rng_states = lambda *_, **__: None  # would set generators to what rank 0 "sent"
    ended = transformers.Trainer.training_step

    def watched(*args, **kwargs):
        out = ended(*args, **kwargs)
        time.sleep(0.3)  # NCCL's watchdog looks every 0.1 s which collectives are over
        return out

    transformers.Trainer.training_step = watched


def train(job):
    """Two optimizer steps of the trainer of a job."""
    import standin  # noqa: F401 the device, before a model is built

    joined(job)
    trainer = Trainers(job).make()
    trainer.train()
    return trainer


NEEDS = ("torch", "transformers", "datasets", "peft", "accelerate", "trl", "values")
NEEDS += tuple(f"trl.trainer.{kind}_trainer" for kind in "sft dpo kto reward grpo rloo".split())
NEEDS += tuple(f"trl.experimental.{kind}.{kind}_trainer" for kind in "orpo cpo kto gkd ppo".split())

if __name__ == "__main__":
    passes.run(NEEDS, train, __doc__, prepare=sharding.prepare, variables=sharding.variables)
