#!/usr/bin/env python3
"""Trace what a run of transformers' own Trainer does besides its steps: a first evaluation, a checkpoint, resuming from one.

    python phases.py jobs.ndjson --out rows.jsonl      jobs as huggingface.py takes them; a case a line

`training.save` (true where nothing is said, as the Trainer has it) writes a checkpoint after the first optimizer step, and
`training.resume` starts from one that another process has written just before. The most that is allocated in each is in `phases` of a row.
"""

import contextlib
import os
import tempfile

import huggingface
import passes
import trainers


class Phases(passes.Passes):
    """Passes, and what lies between steps as passes of their own."""

    whole = (*passes.Passes.whole, "evaluation", "save", "resume")

    @contextlib.contextmanager
    def watch(self):
        import transformers

        of, kept = transformers.Trainer, {}
        for name, phase in BETWEEN.items():
            kept[name] = getattr(of, name)
            setattr(of, name, method(self, phase, kept[name]))
        try:
            with super().watch():
                yield
        finally:
            for name, call in kept.items():
                setattr(of, name, call)


# What the Trainer calls between its steps.
BETWEEN = dict(
    evaluate="evaluation",
    _save_checkpoint="save",
    _load_from_checkpoint="resume",
    _load_optimizer_and_scheduler="resume",
)


def method(phases, phase, call):
    def run(trainer, *args, **kwargs):
        if call.__name__.startswith("_load_optimizer") and not args[0]:
            return call(trainer, *args, **kwargs)  # asked with nothing to resume from
        return phases.within(phase, call)(trainer, *args, **kwargs)

    run.__name__ = call.__name__
    return run


def train(job):
    """Two optimizer steps of the Trainer, or the second alone where it resumes."""
    folder = tempfile.mkdtemp()
    more = {}
    if job["training"].get("save", True):
        more = dict(save_strategy="steps", save_steps=1, output_dir=folder)
    if not job["training"].get("resume"):
        return huggingface.train(job, **more)
    child = os.fork()
    if not child:
        ended = 1
        with contextlib.suppress(Exception):
            passes.begun()
            huggingface.train(job, save_strategy="steps", save_steps=1, output_dir=folder)
            ended = 0
        os._exit(ended)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError("no checkpoint was written")
    return huggingface.train(job, os.path.join(folder, "checkpoint-1"), **more)


if __name__ == "__main__":
    passes.Passes = Phases
    passes.run(
        ("torch", "transformers", "peft", "accelerate", "values"),
        train,
        __doc__,
        prepare=trainers.sharding.prepare,
        variables=trainers.sharding.variables,
    )
