#!/usr/bin/env python3
"""Trace jobs of models that read pictures in transformers' Trainer on the stand-in driver.

    python seeing.py jobs.ndjson --out rows.jsonl           training.objective of the kind vision-language; a case a line

The Trainer is not changed; batches are those of pictures.py. Whole traces of a loop of our own are `trace.py pictures.ndjson --events`.
"""

import passes
import trainers


def train(job):
    """Two optimizer steps of the Trainer."""
    import standin  # noqa: F401 the device, before a model is built
    import pictures
    import torch
    import transformers
    import values

    given = trainers.Trainers(job)
    t = given.training
    model = given.model()
    if t["objective"].get("freeze_vision"):
        pictures.frozen(model)
    adapters = given.adapters()
    if adapters:
        import peft

        checkpointed = given.checkpointing() == "full"
        if given.quantised() and t["lora"].get("upcast_base", True):
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpointed)
        elif checkpointed:
            model.enable_input_require_grads()
        model = peft.get_peft_model(model, adapters)
    batch = pictures.batch(job, t["sequence_length"], device="cpu")

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return given.rows

        def __getitem__(self, i):
            return dict(i=i)

    class Followed(transformers.TrainerCallback):
        """The Trainer switches checkpointing on when training begins, before it says so."""

        def on_train_begin(self, args, state, control, model=None, **kwargs):
            values.entered().follow(model)

    trainer = transformers.Trainer(
        model=model,
        args=given.settings(transformers.TrainingArguments, remove_unused_columns=False),
        train_dataset=Rows(),
        data_collator=lambda rows: {name: value.clone() for name, value in batch()[1].items()},
        callbacks=[Followed()],
    )
    del model
    trainer.train()
    return trainer


if __name__ == "__main__":
    passes.run(("torch", "transformers", "peft", "accelerate", "values"), train, __doc__)
