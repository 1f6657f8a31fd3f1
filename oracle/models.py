"""Models and batches of a job: nanoGPT's from its description, modules of a file of one's own, all others built by transformers from their
configuration."""

import functools
import importlib.util
import math
import os

import pictures
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, c, attention):
        super().__init__()
        self.qkv = nn.Linear(c["n_embd"], 3 * c["n_embd"], bias=c["bias"])
        self.proj = nn.Linear(c["n_embd"], c["n_embd"], bias=c["bias"])
        self.heads, self.dropout, self.fused = c["n_head"], c["dropout"], attention != "eager"
        self.output_dropout, self.score_dropout = nn.Dropout(c["dropout"]), nn.Dropout(c["dropout"])
        if not self.fused:
            size = c["block_size"]
            self.register_buffer("mask", torch.ones(size, size).tril().view(1, 1, size, size))

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        k = k.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        q = q.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :tokens, :tokens] == 0, float("-inf"))
            scores = F.softmax(scores, dim=-1)
            scores = self.score_dropout(scores)
            y = scores @ v
        y = y.transpose(1, 2).contiguous().view(batch, tokens, width)
        return self.output_dropout(self.proj(y))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = nn.Linear(c["n_embd"], 4 * c["n_embd"], bias=c["bias"])
        self.activation = nn.GELU()
        self.proj = nn.Linear(4 * c["n_embd"], c["n_embd"], bias=c["bias"])
        self.dropout = nn.Dropout(c["dropout"])

    def forward(self, x):
        return self.dropout(self.proj(self.activation(self.fc(x))))


class Block(nn.Module):
    def __init__(self, c, attention):
        super().__init__()
        self.ln1, self.attn = LayerNorm(c["n_embd"], c["bias"]), Attention(c, attention)
        self.ln2, self.mlp = LayerNorm(c["n_embd"], c["bias"]), MLP(c)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class NanoGPT(nn.Module):
    """nanoGPT's model.py, from its architecture."""

    def __init__(self, c, attention, checkpoints):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c["vocab_size"], c["n_embd"]), nn.Embedding(c["block_size"], c["n_embd"])
        self.drop, self.h = nn.Dropout(c["dropout"]), nn.ModuleList(Block(c, attention) for _ in range(c["n_layer"]))
        self.lnf, self.head = LayerNorm(c["n_embd"], c["bias"]), nn.Linear(c["n_embd"], c["vocab_size"], bias=False)
        self.wte.weight = self.head.weight
        self.checkpointing, self.reentrant = checkpoints is not None, (checkpoints or {}).get("reentrant", False)

    def forward(self, idx, targets):
        pos = torch.arange(idx.shape[1], dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.reentrant) if self.checkpointing else block(x)
        x = self.lnf(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def _balanced_mixtral():
    """transformers before 5 loops over the experts that have tokens, which the device cannot say here. The same operations, with
    tokens x experts_per_token / experts tokens for each. (transformers 5 computes the experts without asking.)"""
    import transformers.models.mixtral.modeling_mixtral as module

    if not hasattr(module, "MixtralBlockSparseTop2MLP"):
        return

    def forward(self, hidden_states):
        batch, tokens, width = hidden_states.shape
        hidden_states = hidden_states.view(-1, width)
        router_logits = self.gate(hidden_states)
        weights = F.softmax(router_logits, dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.top_k, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        weights = weights.to(hidden_states.dtype)
        final = torch.zeros((batch * tokens, width), dtype=hidden_states.dtype, device=hidden_states.device)
        mask = F.one_hot(chosen, num_classes=self.num_experts).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0)  # noqa: F841 (the library holds it through the loop)
        each = -(-batch * tokens * self.top_k // self.num_experts)
        for e in range(self.num_experts):
            idx = torch.zeros(each, dtype=torch.long, device=final.device)
            top_x = torch.zeros(each, dtype=torch.long, device=final.device)
            expert = self.experts[e]
            current = hidden_states[None, top_x].reshape(-1, width)
            current = expert(current) * weights[top_x, idx, None]
            final.index_add_(0, top_x, current.to(hidden_states.dtype))
        return final.reshape(batch, tokens, width), router_logits

    module.MixtralSparseMoeBlock.forward = forward


def _balanced_routed(name):
    """The same for the mixtures of DeepSeek V3, GLM 4.5 and dots.llm1 in transformers before 5, whose experts are modules (DeepseekV3MoE.moe,
    Glm4MoeMoE.moe, Dots1MoE.moe, 4.57): torch.where finds as many tokens for each."""
    import importlib

    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    mixture = next(vars(module)[n] for n in ("DeepseekV3MoE", "Glm4MoeMoE", "Dots1MoE") if n in vars(module))
    if not hasattr(mixture, "moe"):
        return

    def moe(self, hidden_states, topk_indices, topk_weights):
        final = torch.zeros_like(hidden_states, dtype=topk_weights.dtype)
        expert_mask = F.one_hot(topk_indices, num_classes=len(self.experts))
        expert_mask = expert_mask.permute(2, 0, 1)
        each = -(-topk_indices.numel() // len(self.experts))
        for expert_idx in range(len(self.experts)):
            expert = self.experts[expert_idx]
            mask = expert_mask[expert_idx]  # noqa: F841 (the library holds it while the expert computes)
            token_indices = torch.zeros(each, dtype=torch.long, device=final.device)
            weight_indices = torch.zeros(each, dtype=torch.long, device=final.device)
            expert_weights = topk_weights[token_indices, weight_indices]
            expert_input = hidden_states[token_indices]
            expert_output = expert(expert_input)
            weighted_output = expert_output * expert_weights.unsqueeze(-1)
            final.index_add_(0, token_indices, weighted_output)
        return final.type(hidden_states.dtype)

    mixture.moe = moe


# Mixtures whose blocks ask for it in one of these words.
_BALANCED_BLOCKS = (
    *("ernie4_5_moe", "hunyuan_v1_moe", "granitemoe", "granitemoeshared", "granitemoehybrid"),
    *("qwen2_moe", "qwen3_moe", "olmoe"),
)


def _balanced_blocks(name):
    """The same for the blocks of other mixtures in transformers before 5: the text of each forward is the library's but for what
    asks the device how many tokens an expert has."""
    import importlib
    import inspect
    import textwrap

    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    asks = {
        "torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()": "torch.greater(expert_mask.sum(dim=(-1, -2)), 0)",
        "for expert_idx in expert_hit:": "for expert_idx in range(self.num_experts):",
        "torch.where(expert_mask[expert_idx].squeeze(0))": "_found(expert_mask)",
        "torch.where(expert_mask[expert_idx])": "_found(expert_mask)",
        "expert_size = expert_size.tolist()": "expert_size = _shares(top_k_indices.numel(), self.num_experts)",
    }

    def _found(mask):
        each = -(-mask.shape[1] * mask.shape[2] // mask.shape[0])
        zeros = [torch.zeros(each, dtype=torch.long, device=mask.device) for _ in range(2)]
        return zeros[0], zeros[1]

    def _shares(rows, count):
        return [(i + 1) * rows // count - i * rows // count for i in range(count)]

    for block in vars(module).copy().values():
        if not (inspect.isclass(block) and issubclass(block, torch.nn.Module) and block.__module__ == module.__name__):
            continue
        if "forward" not in vars(block) or hasattr(block.forward, "balanced"):
            continue
        if hasattr(block.forward, "__wrapped__"):  # transformers 5 has these computed by another function (use_experts_implementation)
            continue
        text = inspect.getsource(block.forward)
        if not any(asked in text for asked in asks):
            continue
        for asked, instead in asks.items():
            text = text.replace(asked, instead)
        space = dict(vars(module), _found=_found, _shares=_shares)
        exec(textwrap.dedent(text), space)
        block.forward = space["forward"]
        block.forward.balanced = True


def _class(config):
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as causal

    named = (config.get("architectures") or [None])[0]
    return getattr(transformers, named or causal[config["model_type"]])


# What configurations call the two probabilities of a job's dropout.
_HIDDEN = (
    *("embd_pdrop", "resid_pdrop", "hidden_dropout_prob", "hidden_dropout", "resid_dropout", "embd_dropout", "embed_dropout"),
    "residual_dropout",
    *("dropout", "dropout_rate", "embedding_dropout", "mlp_dropout"),
)
_ATTENTION = ("attn_pdrop", "attention_probs_dropout_prob", "attention_dropout", "attn_dropout")


def drop(config, dropout):
    """Puts a job's dropout, a number or an object, into a configuration."""
    both = dropout if isinstance(dropout, dict) else dict(hidden=dropout, attention=dropout)
    for names, probability in ((_HIDDEN, both.get("hidden")), (_ATTENTION, both.get("attention"))):
        for name in names:
            if probability is not None and hasattr(config, name):
                setattr(config, name, probability)


def _transformers(config, attention, dropout):
    from transformers import CONFIG_MAPPING

    left_out = ("quantization_config", "auto_map", "attn_implementation", "_attn_implementation", "dtype", "torch_dtype")
    given = {k: v for k, v in config.items() if k not in left_out}
    made = CONFIG_MAPPING[config["model_type"]].from_dict(given, attn_implementation=attention)
    drop(made, dropout)
    if made.model_type == "mixtral":
        _balanced_mixtral()
    if made.model_type in ("deepseek_v3", "glm4_moe", "dots1"):
        _balanced_routed(made.model_type)
    if made.model_type in _BALANCED_BLOCKS:
        _balanced_blocks(made.model_type)
    model = _class(config)(made)
    model.tie_weights()
    return model, made


class Outcome:
    """what a module of one's own returned, and the loss of it"""

    def __init__(self, output, loss):
        self.output, self.loss = output, loss


def _own_loss(output, _):
    return output if isinstance(output, torch.Tensor) else output["loss"] if isinstance(output, dict) else output.loss


class _WithLoss:
    """calls a module and its loss, as a training loop does"""

    def __init__(self, model, loss):
        self.model, self.loss = model, loss

    def __call__(self, *args, **kwargs):
        output = self.model(*args, **kwargs)
        return Outcome(output, self.loss(output, kwargs or args))


def _module(job):
    """{"file": "modules.py", "build": ..., "inputs": ..., "loss": ..., "layers": ...}: functions of that file, as the recorder takes them, and the name of
    the list of layers, or those of several, that are checkpointed where the job says so"""
    named = job["model"]["module"]
    spec = importlib.util.spec_from_file_location("own_" + os.path.basename(named["file"])[:-3], named["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loss = getattr(module, named["loss"]) if named.get("loss") else _own_loss
    return getattr(module, named["build"])(), getattr(module, named["inputs"]), loss


def _checkpointed(model, layers, reentrant):
    """each layer of a list of a module of one's own checkpointed, as a training script wraps them"""
    for layer in model.get_submodule(layers):
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=bool(reentrant))


def _own(job, stored):
    model, inputs, loss = _module(job)
    training = job["training"]
    if checkpoints(job):
        for layers in job["model"]["module"]["layers"].split(","):
            _checkpointed(model, layers, checkpoints(job).get("reentrant"))

    def put(x):
        if not isinstance(x, torch.Tensor):
            return x
        return (x.to(stored) if x.is_floating_point() else x).to("cuda")

    def batch():
        given = inputs(training["micro_batch"], training.get("sequence_length"))
        return ((), {k: put(v) for k, v in given.items()}) if isinstance(given, dict) else (tuple(map(put, given)), {})

    return model, batch, _WithLoss(model, loss)


def sees(job):
    """Whether pictures stand among the tokens."""
    return (job["training"].get("objective") or {}).get("kind") == "vision-language"


def checkpoints(job):
    """gradient_checkpointing "full" as its object, None where nothing is checkpointed."""
    given = job["training"].get("gradient_checkpointing")
    given = {"mode": given} if isinstance(given, str) else given
    return given if given and given.get("mode", "full") == "full" else None


def build(job):
    """The model on the CPU in the type that the job stores it in, a function that puts a batch on the device, and for a module of one's own
    what is called for its forward and loss."""
    training = job["training"]
    attention = {"flash": "sdpa"}.get(training.get("attention", "sdpa"), training.get("attention", "sdpa"))
    lora, nano = training.get("lora"), job["model"].get("nanogpt")
    precision = training.get("precision", "amp-bf16")
    stored = DTYPES.get(precision, torch.float32)
    if lora:  # a base in the type that is computed in, unless the job says another
        stored = DTYPES[lora.get("base_precision") or precision.removeprefix("amp-").replace("tf32", "fp32")]
    stored = DTYPES.get((training.get("states") or {}).get("weights"), stored)
    torch.set_default_dtype(stored)
    try:
        if job["model"].get("module"):
            return _own(job, stored)
        if nano:
            nano = {"bias": False, **nano, "dropout": training.get("dropout", nano.get("dropout", 0.0))}
            model = NanoGPT(nano, attention, checkpoints(job))
            made = None
        else:
            model, made = _transformers(job["model"]["hf_config"], attention, training.get("dropout"))
    finally:
        torch.set_default_dtype(torch.float32)

    if sees(job):
        if training["objective"].get("freeze_vision"):
            pictures.frozen(model)
        columns = training.get("sequence_length") or getattr(made, "max_position_embeddings", 1)
        return model, pictures.batch(job, columns)
    return model, lambda rows=training["micro_batch"]: _batch(job, model, made or nano, stored, rows)


def whole(shape, below):
    """Ids, labels and classes from 1 to below, of which nobody reads the values: a card, which computes with them, is given others (card.py)."""
    return torch.empty(*shape, dtype=torch.long)


def attended(shape):
    """The mask of a batch without padding."""
    return torch.empty(*shape, dtype=torch.long)


def _batch(job, model, made, stored, rows):
    """Positional and named arguments of a forward over so many sequences; made is the configuration of transformers or nanoGPT's."""
    training = job["training"]
    columns, precision = training.get("sequence_length"), training.get("precision", "amp-bf16")

    choices = (job["model"].get("head") or {}).get("choices")

    words = made["vocab_size"] if isinstance(made, dict) else getattr(made.get_text_config(), "vocab_size", 2)

    def shape(length=None):
        return (rows, *([choices] if choices else []), length or columns)

    def ids(length=None):
        return whole(shape(length), words).to("cuda")

    def mask():
        return attended(shape()).to("cuda")

    def classes(labels):
        return (torch.empty(rows) if labels == 1 else whole((rows,), labels)).to("cuda")

    def pixels(c):
        return torch.empty(rows, c.num_channels, c.image_size, c.image_size).to("cuda")

    if isinstance(made, dict):
        columns = columns or made["block_size"]
        return (ids(), ids()), {}
    columns = columns or getattr(made, "max_position_embeddings", None) or getattr(made, "n_positions", 1)
    name = type(model).__name__
    if name.endswith("ForImageClassification"):
        return (), dict(pixel_values=pixels(made), labels=classes(made.num_labels))
    if name.endswith("ForSequenceClassification"):
        return (), dict(input_ids=ids(), attention_mask=mask(), labels=classes(made.num_labels))
    if name.endswith("ForMultipleChoice"):
        return (), dict(input_ids=ids(), attention_mask=mask(), labels=classes(choices + 1))
    if name.endswith("ForQuestionAnswering"):
        return (), dict(input_ids=ids(), attention_mask=mask(), start_positions=classes(2), end_positions=classes(2))
    if name == "CLIPModel":
        image = made.vision_config
        return (), dict(input_ids=ids(), attention_mask=mask(), pixel_values=pixels(image), return_loss=True)
    if name == "WhisperForConditionalGeneration":
        frames = 2 * made.max_source_positions
        # in float32, which autocast converts, or in the type of the weights that they meet unconverted
        dtype = torch.float32 if precision.startswith("amp-") else stored
        return (), dict(input_features=torch.empty(rows, made.num_mel_bins, frames, dtype=dtype).to("cuda"), labels=ids())
    target = (training.get("target_sequence_length") or columns) if getattr(made, "is_encoder_decoder", False) else columns
    labels = whole(shape(target), made.num_labels if name.endswith("ForTokenClassification") else words)
    return (), dict(input_ids=ids(), attention_mask=mask(), labels=labels.to("cuda"))
