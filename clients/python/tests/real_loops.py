"""The fronts for training loops in the loops themselves: python real_loops.py [name …], in an environment with torch, transformers,
peft and lightning, on the stand-in driver of oracle/ (make loops) or, with none preloaded, on the CPU.

Every case trains small models for a few steps and holds what was predicted before the first against PyTorch's own counters. Each has
a process of its own, as counters and loaded libraries are a process's.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile

ON_DEVICE = "libcuda" in os.environ.get("LD_PRELOAD", "")
TOLERANCE = 5e-4


def begin():
    """PyTorch, and what the stand-in driver cannot answer."""
    if ON_DEVICE:
        sys.path.insert(0, os.environ["ORACLE"])
        import standin  # noqa: F401
    import torch

    torch.set_num_threads(1)
    return torch


def llama(transformers, torch, dtype=None, **changed):
    """A small model whose parts are those of large ones."""
    sizes = dict(vocab_size=3200, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8)
    config = transformers.LlamaConfig(**{**sizes, "num_key_value_heads": 4, "max_position_embeddings": 512, **changed})
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        return transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def rows(torch, tokens, count=64):
    return [dict(input_ids=torch.full((tokens,), 3), attention_mask=torch.ones(tokens, dtype=torch.long), labels=torch.full((tokens,), 3)) for _ in range(count)]


def held(run, torch, said):
    """What was predicted is what was measured, and both were said."""
    assert "assumed: " in said and "× " in said, said
    assert not run.broken, said
    if not ON_DEVICE:
        assert "nothing is measured" in said, said
        return
    took, peak = torch.cuda.max_memory_allocated(), run.result["peak"]["allocated_bytes"]
    if run.bound:
        least = run._estimate({**run.job, "training": {**run.job["training"], **run.least}})["peak"]["allocated_bytes"]
        assert least <= took <= peak, (least, took, peak, said)
    else:
        assert abs(peak / took - 1) <= TOLERANCE, (peak, took, said)
    assert re.search(r"after \d+ steps: allocated .* measured, .* predicted", said), said
    print(f"  allocated {took} measured, {peak} predicted ({100 * (peak / took - 1):+.4f} %)")


@contextlib.contextmanager
def listening():
    """What is written to standard error, which is shown as well."""
    text, before = io.StringIO(), sys.stderr
    sys.stderr = text
    try:
        yield text
    finally:
        sys.stderr = before
        before.write(text.getvalue())


def trainer(tokens=128, adapters=None, dtype=None, sizes=None, callback=None, **arguments):
    """A run of transformers' Trainer: the callback, and what it said."""
    torch = begin()
    import transformers
    import vramplan.hf

    callback = callback or vramplan.hf.Callback()
    model = llama(transformers, torch, dtype, **(sizes or {}))
    if adapters:
        import peft

        if arguments.get("gradient_checkpointing"):
            model.enable_input_require_grads()
        model = peft.get_peft_model(model, peft.LoraConfig(**adapters))
    settings = dict(max_steps=4, per_device_train_batch_size=4, report_to="none", save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False)
    settings.update(arguments, output_dir=tempfile.mkdtemp(), use_cpu=not ON_DEVICE)
    evaluation = {"eval_dataset": rows(torch, tokens, 8)} if "eval_strategy" in arguments else {}
    made = transformers.Trainer(
        model=model, args=transformers.TrainingArguments(**settings), train_dataset=rows(torch, tokens), callbacks=[callback],
        data_collator=transformers.default_data_collator, **evaluation,
    )
    with listening() as text:
        made.train()
    return torch, callback, text.getvalue()


def trainer_plain():
    torch, callback, said = trainer(bf16=True)
    held(callback.run, torch, said)


def trainer_pure_accumulated():
    torch, callback, said = trainer(dtype=torch_of("bfloat16"), gradient_accumulation_steps=2, optim="adamw_torch")
    held(callback.run, torch, said)


def trainer_adapters_checkpointed():
    torch, callback, said = trainer(
        dtype=torch_of("bfloat16"), bf16=True, gradient_checkpointing=True, adapters=dict(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    held(callback.run, torch, said)


def trainer_evaluates():
    torch, callback, said = trainer(bf16=True, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8)
    held(callback.run, torch, said)


def trainer_refused():
    """A run that does not fit is stopped before its first step."""
    import vramplan.hf

    with expected(vramplan.DoesNotFit, "does not fit"):
        trainer(bf16=True, callback=vramplan.hf.Callback(refuse=True, gpu={"name": "small", "memory_bytes": 256 << 20}))


def trainer_out_of_memory():
    """Memory runs out in the middle of a run: the first line says why, and the error comes through."""
    if not ON_DEVICE:
        return
    begin()
    with listening() as text:
        try:
            trainer(tokens=512, bf16=True, per_device_train_batch_size=32, sizes=dict(vocab_size=32000))
        except Exception as error:
            assert type(error).__name__ == "OutOfMemoryError", error
        else:
            raise AssertionError("memory did not run out")
    said = text.getvalue()
    for words in ("out of memory: ", "first way out: ", "does not fit"):
        assert words in said, said


def loop(optimizer=None, step=None, compiled=False, model=None, **watched):
    """A plain loop under watch()."""
    torch = begin()
    import transformers
    import vramplan

    device = "cuda" if ON_DEVICE else "cpu"
    model = (model or llama(transformers, torch)).to(device)
    optimizer = (optimizer or torch.optim.AdamW)(model.parameters(), lr=1e-4)
    with listening() as text, vramplan.watch(model, optimizer, **watched) as run:
        for _ in range(4):
            ids = torch.full((4, 128), 3, device=device)
            with torch.autocast(device, dtype=torch.bfloat16):
                out = model(input_ids=ids, labels=ids)
            if step:
                step(out.loss)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return torch, run, text.getvalue()


def loop_plain():
    torch, run, said = loop(training={"clip_grad_norm": True})
    held(run, torch, said)


def loop_other_optimizer():
    torch, run, said = loop(optimizer=torch_of("optim").RMSprop, training={"clip_grad_norm": True})
    held(run, torch, said)


def loop_unknown_optimizer():
    """What no document says is said, and nothing is estimated."""
    torch = begin()

    class Mine(torch.optim.SGD):
        pass

    _, run, said = loop(optimizer=Mine)
    assert "not estimated, since no job document says it exactly: the optimizer is " in said and run.result is None, said


def loop_own_model():
    torch = begin()

    class Out(dict):
        __getattr__ = dict.__getitem__

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(16, 16)

        def forward(self, input_ids, labels):
            return Out(loss=self.table(input_ids).sum())

    _, run, said = loop(model=Own())
    assert "Own is no model of transformers" in said and run.result is None and not run.broken, said


def lightning_plain(**more):
    torch = begin()
    import lightning
    import transformers
    import vramplan.lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = llama(transformers, torch)

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    callback = vramplan.lightning.Callback()
    fit = lightning.Trainer(
        max_steps=4, precision="bf16-mixed", accelerator="gpu" if ON_DEVICE else "cpu", devices=1, callbacks=[callback], logger=False, gradient_clip_val=1.0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, **more,
    )
    data = torch.utils.data.DataLoader(rows(torch, 128), batch_size=4)
    with listening() as text:
        fit.fit(Module(), data)
    held(callback.run, torch, text.getvalue())


def lightning_accumulated():
    lightning_plain(accumulate_grad_batches=2)


def rank(**arguments):
    """A run of the Trainer as the first rank of two: on the stand-in driver the other says nothing (oracle/ranks), on the CPU it runs."""
    torch = begin()
    if ON_DEVICE:
        sys.path.insert(0, os.path.join(os.environ["ORACLE"], "ranks"))
        os.environ.update(TORCH_NCCL_ENABLE_MONITORING="0", TORCH_NCCL_DUMP_ON_TIMEOUT="0", STANDIN_ZERO_MAX=str(1 << 20))
        import accelerate.data_loader
        import group

        group.join(0, 2)
        accelerate.data_loader.synchronize_rng_states = lambda *_, **__: None  # would set generators to what the other rank "sent"
    elif "RANK" not in os.environ:
        place = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
        ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, **place, RANK=str(r), LOCAL_RANK=str(r))) for r in range(2)]
        assert [r.wait() for r in ranks] == [0, 0]
        return
    _, callback, said = trainer(bf16=True, **arguments)
    spread = callback.run.job["training"]["distributed"]
    assert spread["world_size"] == 2, spread
    if os.environ.get("RANK") == "0":
        held(callback.run, torch, said)
    else:
        assert "vramplan" not in said, said
    if not ON_DEVICE:
        torch.distributed.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def trainer_ddp():
    rank()


def trainer_fsdp2():
    if ON_DEVICE:
        rank(fsdp="full_shard auto_wrap", fsdp_config={"version": 2})


def torch_of(name):
    return getattr(begin(), name)


@contextlib.contextmanager
def expected(kind, words):
    try:
        yield
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


CASES = [
    trainer_plain, trainer_pure_accumulated, trainer_adapters_checkpointed, trainer_evaluates, trainer_refused, trainer_out_of_memory,
    loop_plain, loop_other_optimizer, loop_unknown_optimizer, loop_own_model, lightning_plain, lightning_accumulated,
    trainer_ddp, trainer_fsdp2,
]  # fmt: skip
SMALL = {"trainer_out_of_memory": "2048"}  # MiB of the card

if __name__ == "__main__":
    names = [case.__name__ for case in CASES]
    if os.environ.get("ALONE"):
        globals()[sys.argv[1]]()
        sys.exit()
    failed = []
    for name in sys.argv[1:] or names:
        print(name, flush=True)
        environment = dict(os.environ, ALONE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", STANDIN_TOTAL_MIB=SMALL.get(name, str(1 << 20)))
        if subprocess.run([sys.executable, os.path.abspath(__file__), name], env=environment).returncode:
            failed.append(name)
    print(f"{len(failed)} failed: {' '.join(failed)}" if failed else "all passed")
    sys.exit(1 if failed else 0)
