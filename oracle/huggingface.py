#!/usr/bin/env python3
"""Trace jobs in transformers' own Trainer on the stand-in driver, on one GPU.

    python huggingface.py jobs.ndjson --out rows.jsonl      models that read tokens, with any head; a case a line

The Trainer is not changed: it gets a model made of the configuration, rows of the job's length and its own arguments, and runs two
optimizer steps. What it sets on a model, and what a loop that imitates it would miss, is in these rows.
"""

import passes
import trainers

TOKEN = passes.TOKEN


def labels(job, architecture, tokens):
    """What a row says besides its tokens, by the head that reads it."""
    import torch

    if architecture.endswith("QuestionAnswering"):
        return dict(start_positions=torch.tensor(1), end_positions=torch.tensor(2))
    if architecture.endswith("SequenceClassification"):
        return dict(labels=torch.tensor(0))
    if architecture.endswith("TokenClassification"):
        return dict(labels=torch.zeros(tokens, dtype=torch.long))
    return dict(labels=torch.full((job["training"].get("target_sequence_length") or tokens,), TOKEN))


def compiled(training):
    """Whether the Trainer compiles the model."""
    asked = training.get("compile")
    return asked.get("model", False) if isinstance(asked, dict) else bool(asked)


def adapted(given, model):
    """The model with the job's adapters, as users of the Trainer put them there."""
    adapters = given.adapters(None)
    if not adapters:
        return model
    import peft

    checkpointed = given.checkpointing() == "full"
    if given.quantised() and given.training["lora"].get("upcast_base", True):
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpointed)
    elif checkpointed:
        model.enable_input_require_grads()
    narrow = given.training["lora"].get("adapter_dtype", "fp32") != "fp32"
    return peft.get_peft_model(model, adapters, autocast_adapter_dtype=not narrow)


def train(job, resumed=None, **besides):
    """Two optimizer steps of the Trainer, or those that are left to a checkpoint; besides are arguments of a run."""
    import standin  # noqa: F401 the device, before a model is built
    import torch
    import transformers

    trainers.joined(job)
    given = trainers.Trainers(job)
    tokens, padded = given.training["sequence_length"], given.training.get("attention_mask") == "explicit"
    architecture = given.config["architectures"][0]

    class Rows(torch.utils.data.Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return self.rows

        def __getitem__(self, i):
            mask = torch.ones(tokens, dtype=torch.long)
            if padded and i % 2:
                mask[: tokens // 4] = 0
            row = dict(input_ids=torch.full((tokens,), TOKEN), attention_mask=mask)
            return row | labels(job, architecture, tokens)

    evaluation, more = given.training.get("evaluation"), {}
    if evaluation:
        more["eval_dataset"] = Rows(2 * given.evaluated(evaluation))
        if evaluation.get("keep_logits"):  # evaluate() asks for the loss alone where there are no metrics
            more["compute_metrics"] = lambda _: {}
    # made first: under DeepSpeed's stage 3 models are made as the arguments say
    settings = given.settings(
        transformers.TrainingArguments,
        remove_unused_columns=False,
        torch_compile=compiled(given.training),
        prediction_loss_only=not evaluation.get("keep_logits", False) if evaluation else None,
        **besides,
    )
    trainer = transformers.Trainer(
        model=adapted(given, given.model()),
        args=settings,
        train_dataset=Rows(given.rows),
        data_collator=transformers.default_data_collator,
        **more,
    )
    trainer.train(resume_from_checkpoint=resumed)
    return trainer


if __name__ == "__main__":
    passes.run(
        ("torch", "transformers", "peft", "accelerate", "values"),
        train,
        __doc__,
        prepare=trainers.sharding.prepare,
        variables=trainers.sharding.variables,
    )
