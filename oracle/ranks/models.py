"""Models.  The nanoGPT one is written from the architecture's description; the others come from transformers."""

import math, jobs, torch, torch.nn as nn, torch.nn.functional as F


class LN(nn.Module):
    def __init__(self, d, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d))
        self.bias = nn.Parameter(torch.empty(d)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c["d"], 3 * c["d"], bias=c["bias"])
        self.proj = nn.Linear(c["d"], c["d"], bias=c["bias"])
        self.h = c["h"]
        self.p = c["dropout"]
        self.drop = nn.Dropout(c["dropout"])
        self.attn_drop = nn.Dropout(c["dropout"])
        self.flash = c.get("attn", "sdpa") == "sdpa"
        if not self.flash:
            self.register_buffer("mask", torch.ones(c["block"], c["block"]).tril().view(1, 1, c["block"], c["block"]))

    def forward(self, x):
        B, T, d = x.shape
        q, k, v = self.qkv(x).split(d, dim=2)
        k = k.view(B, T, self.h, d // self.h).transpose(1, 2)
        q = q.view(B, T, self.h, d // self.h).transpose(1, 2)
        v = v.view(B, T, self.h, d // self.h).transpose(1, 2)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        else:
            a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            a = a.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            a = F.softmax(a, dim=-1)
            a = self.attn_drop(a)
            y = a @ v
        y = y.transpose(1, 2).contiguous().view(B, T, d)
        return self.drop(self.proj(y))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = nn.Linear(c["d"], 4 * c["d"], bias=c["bias"])
        self.act = nn.GELU(approximate=c.get("gelu", "none"))
        self.proj = nn.Linear(4 * c["d"], c["d"], bias=c["bias"])
        self.drop = nn.Dropout(c["dropout"])

    def forward(self, x):
        return self.drop(self.proj(self.act(self.fc(x))))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1 = LN(c["d"], c["bias"])
        self.attn = Attn(c)
        self.ln2 = LN(c["d"], c["bias"])
        self.mlp = MLP(c)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class NanoGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.wte = nn.Embedding(c["V"], c["d"])
        self.wpe = nn.Embedding(c["block"], c["d"])
        self.drop = nn.Dropout(c["dropout"])
        self.h = nn.ModuleList(Block(c) for _ in range(c["L"]))
        self.lnf = LN(c["d"], c["bias"])
        self.head = nn.Linear(c["d"], c["V"], bias=False)
        self.wte.weight = self.head.weight
        self.ckpt = False

    def forward(self, idx, targets):
        pos = torch.arange(idx.shape[1], dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for b in self.h:
            x = torch.utils.checkpoint.checkpoint(b, x, use_reentrant=False) if self.ckpt else b(x)
        x = self.lnf(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def patch_moe():
    """Mixtral: same ops as the library's block, but routing forced balanced (T*k/E tokens per expert), because the
    stand-in device cannot compute which tokens go where."""
    import transformers.models.mixtral.modeling_mixtral as m

    if not hasattr(m, "MixtralBlockSparseTop2MLP"):  # transformers 5 computes the experts without asking
        return

    def forward(self, hidden_states):
        B, T, d = hidden_states.shape
        hidden_states = hidden_states.view(-1, d)
        router_logits = self.gate(hidden_states)
        rw = F.softmax(router_logits, dim=1, dtype=torch.float)
        rw, sel = torch.topk(rw, self.top_k, dim=-1)
        rw /= rw.sum(dim=-1, keepdim=True)
        rw = rw.to(hidden_states.dtype)
        final = torch.zeros((B * T, d), dtype=hidden_states.dtype, device=hidden_states.device)
        mask = F.one_hot(sel, num_classes=self.num_experts).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0)  # noqa: F841 (a variable of transformers' loop)
        per = -(-B * T * self.top_k // self.num_experts)
        for e in range(self.num_experts):
            idx = torch.zeros(per, dtype=torch.long, device=final.device)
            top_x = torch.zeros(per, dtype=torch.long, device=final.device)
            layer = self.experts[e]
            cur = hidden_states[None, top_x].reshape(-1, d)
            cur = layer(cur) * rw[top_x, idx, None]
            final.index_add_(0, top_x, cur.to(hidden_states.dtype))
        return final.reshape(B, T, d), router_logits

    m.MixtralSparseMoeBlock.forward = forward


def patch_routed(name):
    """The same for OLMoE and Qwen3's mixture, where torch.where would find no tokens for an expert (OlmoeSparseMoeBlock,
    Qwen3MoeSparseMoeBlock, transformers 4.57). Only the latter asks which experts have any."""
    import importlib

    m = importlib.import_module(f"transformers.models.{name}.modeling_{name}")

    def forward(self, hidden_states):
        B, T, d = hidden_states.shape
        hidden_states = hidden_states.view(-1, d)
        router_logits = self.gate(hidden_states)
        rw = F.softmax(router_logits, dim=1, dtype=torch.float)
        rw, sel = torch.topk(rw, self.top_k, dim=-1)
        if self.norm_topk_prob:
            rw /= rw.sum(dim=-1, keepdim=True)
        rw = rw.to(hidden_states.dtype)
        final = torch.zeros((B * T, d), dtype=hidden_states.dtype, device=hidden_states.device)
        mask = F.one_hot(sel, num_classes=self.num_experts).permute(2, 1, 0)
        if name == "qwen3_moe":
            hit = torch.greater(mask.sum(dim=(-1, -2)), 0)  # noqa: F841 (a variable of transformers' loop)
        per = -(-B * T * self.top_k // self.num_experts)
        for e in range(self.num_experts):
            layer = self.experts[e]
            idx = torch.zeros(per, dtype=torch.long, device=final.device)
            top_x = torch.zeros(per, dtype=torch.long, device=final.device)
            state = hidden_states[None, top_x].reshape(-1, d)
            cur = layer(state) * rw[top_x, idx, None]
            final.index_add_(0, top_x, cur.to(hidden_states.dtype))
        return final.reshape(B, T, d), router_logits

    mixture = next(v for n, v in vars(m).items() if n.endswith("SparseMoeBlock"))
    if not any(n.endswith("Experts") for n in vars(m)):
        mixture.forward = forward


def build(cfg, real=False):
    """(model on the CPU, function that puts one batch on the GPU -> (args, kwargs), vocabulary or None).
    real=True: the batch holds random valid ids (a real GPU reads them)."""
    B, T = cfg["batch"], cfg["seq"]

    def ids(rows, cols, hi):
        return (torch.randint(0, hi, (rows, cols)) if real else torch.empty(rows, cols, dtype=torch.long)).to("cuda")

    def ones(rows, cols):
        return (torch.ones(rows, cols, dtype=torch.long) if real else torch.empty(rows, cols, dtype=torch.long)).to("cuda")

    def cls(n):
        return (torch.randint(0, n, (B,)) if real else torch.empty(B, dtype=torch.long)).to("cuda")

    def pixels(c, s):
        return (torch.randn if real else torch.empty)(B, c, s, s).to("cuda")

    if cfg["family"] == "nanogpt":
        c = dict(cfg["model"])
        c.setdefault("bias", False)
        c.setdefault("dropout", 0.0)
        c.setdefault("block", T)
        c["attn"] = cfg.get("attn", "sdpa")
        m = NanoGPT(c)
        m.ckpt = bool(cfg.get("ckpt"))

        def batch():
            return (ids(B, T, c["V"]), ids(B, T, c["V"])), {}

        return m, batch, c["V"]
    conf = jobs.hf_config_object(cfg["hf_config"], cfg.get("attn", "sdpa"))
    if conf.model_type == "mixtral" and not real:
        patch_moe()
    if conf.model_type in ("olmoe", "qwen3_moe") and not real:
        patch_routed(conf.model_type)
    klass = jobs.model_class(cfg["hf_config"])
    m = klass(conf)
    m.tie_weights()
    name = klass.__name__
    if name.endswith("ForImageClassification"):

        def batch():
            return (), dict(pixel_values=pixels(conf.num_channels, conf.image_size), labels=cls(conf.num_labels))

        return m, batch, None
    if name.endswith("ForSequenceClassification"):

        def batch():
            return (), dict(input_ids=ids(B, T, conf.vocab_size), attention_mask=ones(B, T), labels=cls(conf.num_labels))

        return m, batch, None
    if name == "CLIPModel":
        v = conf.vision_config

        def batch():
            return (), dict(
                input_ids=ids(B, T, conf.text_config.vocab_size),
                attention_mask=ones(B, T),
                pixel_values=pixels(v.num_channels, v.image_size),
                return_loss=True,
            )

        return m, batch, None
    if name == "WhisperForConditionalGeneration":

        def batch():
            return (), dict(
                input_features=(torch.randn if real else torch.empty)(B, conf.num_mel_bins, 2 * conf.max_source_positions).to("cuda"),
                labels=ids(B, T, conf.vocab_size),
            )

        return m, batch, conf.vocab_size
    if getattr(conf, "is_encoder_decoder", False):
        Td = cfg.get("tgt", T)

        def batch():
            return (), dict(input_ids=ids(B, T, conf.vocab_size), attention_mask=ones(B, T), labels=ids(B, Td, conf.vocab_size))

        return m, batch, conf.vocab_size

    words = conf.get_text_config().vocab_size  # of a model with towers, too, on a batch of text

    def batch():
        i = ids(B, T, words)
        return (), dict(input_ids=i, attention_mask=ones(B, T), labels=ids(B, T, words))

    return m, batch, words
