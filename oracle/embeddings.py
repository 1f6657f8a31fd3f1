#!/usr/bin/env python3
"""Trace jobs in sentence-transformers' own trainer on the stand-in driver.

    python embeddings.py jobs.ndjson --out rows.jsonl       training.objective of the kind contrastive; a case a line

The trainer and the losses are the library's. The model is made of model.hf_config, the texts are words of the job's length.
`pip install sentence-transformers==5.7.0 datasets` beside a stack's releases.
"""

import json
import tempfile

import passes
import trainers

LOSSES = {
    "mnrl": "MultipleNegativesRankingLoss",
    "symmetric-mnrl": "MultipleNegativesSymmetricRankingLoss",
    "triplet": "TripletLoss",
    "cosine-similarity": "CosineSimilarityLoss",
    "contrastive": "ContrastiveLoss",
    "online-contrastive": "OnlineContrastiveLoss",
    "cosent": "CoSENTLoss",
    "angle": "AnglELoss",
    "mse": "MSELoss",
}
COLUMNS = ("anchor", "positive", "negative", "negative_2", "negative_3", "negative_4")


def loss_of(job, losses, model, width):
    """The library's loss of the job's name."""
    o = job["training"]["objective"]
    name = o.get("loss", "mnrl")
    if name == "cached-mnrl":
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=o.get("mini_batch", 32))
    if name == "matryoshka-mnrl":
        lengths = o.get("matryoshka_dims") or [width, width // 2, width // 4]
        return losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model), list(lengths))
    return getattr(losses, LOSSES[name])(model)


def labels(job, width, rows):
    """The column of labels, where the loss reads one: a number of a pair, or an embedding."""
    name = job["training"]["objective"].get("loss", "mnrl")
    if name in ("contrastive", "online-contrastive"):
        return {"label": [i % 2 for i in range(rows)]}
    if name in ("cosent", "angle", "cosine-similarity"):
        return {"score": [i / rows for i in range(rows)]}
    return {"label": [[0.5] * width] * rows} if name == "mse" else {}


def train(job):
    """Two optimizer steps of SentenceTransformerTrainer."""
    import standin  # noqa: F401 the device, before a model is built
    import datasets
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers import losses, models

    datasets.disable_progress_bars()
    given = trainers.Trainers(job)
    t, o, folder = given.training, given.objective, tempfile.mkdtemp()
    with open(f"{folder}/config.json", "w") as f:
        json.dump(given.config, f)
    words = trainers.tokenizer(transformers)
    words.model_max_length = t["sequence_length"]
    words.save_pretrained(folder)

    def load(_, path, *args, config=None, **kwargs):
        before = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, trainers.HALF[given.dtype]))
        try:
            made = config or transformers.AutoConfig.from_pretrained(folder)
            return transformers.AutoModel.from_config(made, attn_implementation=t.get("attention", "sdpa"))
        finally:
            torch.set_default_dtype(before)

    transformers.AutoModel.from_pretrained = classmethod(load)
    body = models.Transformer(folder, max_seq_length=t["sequence_length"])
    width = body.get_word_embedding_dimension()
    pooling = models.Pooling(width, pooling_mode=o.get("pooling", "mean"))
    model = SentenceTransformer(modules=[body, pooling], device="cuda")
    if adapters := given.adapters("FEATURE_EXTRACTION"):
        model.add_adapter(adapters)
    data = given.data(
        {c: trainers.words(t["sequence_length"], "abc"[i % 3]) + f" u{row}" for i, c in enumerate(COLUMNS[: o.get("texts", 2)])}
        for row in range(given.rows)
    )
    for name, values in labels(job, width, given.rows).items():
        data = data.add_column(name, values)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=given.settings(SentenceTransformerTrainingArguments),
        train_dataset=data,
        loss=loss_of(job, losses, model, width),
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    passes.run(("torch", "transformers", "datasets", "peft", "sentence_transformers", "values"), train, __doc__)
