#!/usr/bin/env python3
"""Trace what is reserved at each step of a run whose batches differ in length, in transformers' own Trainer on the stand-in driver.

    STANDIN=… python lengths.py jobs.ndjson --out rows.jsonl      goes on where it stopped

A case is {"id", "job", "steps"}, and its job has training.lengths with values. The Trainer is not changed: it samples, groups and
accumulates, and transformers' collators pad. A row has the batches as they came, [rows, tokens, whether any is padding], and the
bytes that are reserved after each optimizer step.
"""

import argparse
import json
import os
import subprocess
import sys

import trace as whole


def train(case):
    import standin
    import torch
    import trainers
    import transformers

    import huggingface

    job = case["job"]
    trainers.joined(job)
    given = trainers.Trainers(job)
    training = given.training
    said = training["lengths"]
    most, multiple = training["sequence_length"], said.get("pad_to_multiple_of") or 1
    values = [min(n, most) for n in said["values"]]
    token = huggingface.TOKEN
    classifies = given.config["architectures"][0].endswith("SequenceClassification")
    batches, pending, reserved = [], [], []

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(values)

        def __getitem__(self, i):
            return dict(input_ids=[token] * values[i])

    def collate(rows):
        """DataCollatorWithPadding, without a tokenizer."""
        longest = max(len(row["input_ids"]) for row in rows)
        longest = -(-longest // multiple) * multiple
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for i, row in enumerate(rows):
            mask[i, : len(row["input_ids"])] = 1
        ids = torch.full((len(rows), longest), token)
        padded = bool((mask == 0).any())
        batches.append([len(rows), longest, padded])
        pending.append(padded)
        labels = torch.zeros(len(rows), dtype=torch.long) if classifies else torch.where(mask == 1, ids, -100)
        return dict(input_ids=ids, attention_mask=mask, labels=labels)

    class Watched(transformers.Trainer):
        def training_step(self, *args, **kwargs):
            standin.padding = pending.pop(0)  # of this batch; the loader is one ahead
            return super().training_step(*args, **kwargs)

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            reserved.append(torch.cuda.memory_reserved())

    grouped = said.get("group_by_length", False)
    settings = given.settings(
        transformers.TrainingArguments,
        remove_unused_columns=False,
        max_steps=case["steps"],
        group_by_length=grouped or None,
        train_sampling_strategy="group_by_length" if grouped else None,
        dataloader_drop_last=said.get("drop_last", False),
        logging_steps=10**6,
        seed=7,
    )
    Watched(
        model=huggingface.adapted(given, given.model()),
        args=settings,
        train_dataset=Rows(),
        data_collator=collate,
        callbacks=[Watch],
    ).train()
    played = len(reserved) * training.get("gradient_accumulation", 1)
    return dict(shapes=batches[:played], reserved=reserved, allocated=torch.cuda.max_memory_allocated())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        import accelerate, peft, torch, transformers  # noqa: E401, F401 before the forks, which then begin at once

        for case in map(json.loads, sys.stdin):
            if os.fork() == 0:
                os.environ.update(whole.allocator(case["job"]["training"].get("allocator") or {}))
                row = dict(id=case["id"], job=case["job"], **train(case))
                with open(args.out, "a") as f:
                    f.write(json.dumps(row) + "\n")
                os._exit(0)
            os.wait()
        return
    driver = os.environ["STANDIN"]
    done = whole.done(argparse.Namespace(operations=False, out=args.out))
    cases = [case for case in whole.lines(args.jobs) if case["id"] not in done]
    if not cases:
        return
    env = whole.environment(cases[0]["job"], driver) | dict(HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    worker = [sys.executable, os.path.abspath(__file__), args.jobs, "--out", args.out, "--worker"]
    subprocess.run(worker, input="".join(json.dumps(case) + "\n" for case in cases), env=env, text=True)


if __name__ == "__main__":
    main()
