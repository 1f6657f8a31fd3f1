"""Batches of models that read pictures: ids among which tokens stand for them, pixels, labels, as the models' processors lay them out."""

import torch
import transformers


def frozen(model):
    """Takes the tower out of training; a projector behind it is trained. Qwen's merger is a part of the module visual."""
    for name, parameter in model.named_parameters():
        if "visual." in name or "vision_tower." in name or "vision_model." in name:
            parameter.requires_grad_(False)


def batch(job, columns, device="cuda"):
    """A function that puts a batch on the device."""
    training, config = job["training"], job["model"]["hf_config"]
    objective, vision = training["objective"], config["vision_config"]
    rows, images = training["micro_batch"], objective.get("images", 1)
    height, width = objective.get("image_size") or (vision.get("image_size"),) * 2
    kind, patch = config["model_type"], vision["patch_size"]
    token = config.get("image_token_index", config.get("image_token_id"))
    grid = height // patch, width // patch
    tokens, around = grid[0] * grid[1], ()
    shown = lambda: dict(pixel_values=torch.zeros(rows * images, 3, height, width))  # noqa: E731
    if kind in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"):
        tokens //= vision["spatial_merge_size"] ** 2
        around = config["vision_start_token_id"], config["vision_end_token_id"]
        wide = 3 * vision.get("temporal_patch_size", 2) * patch * patch

        def shown():
            return dict(
                pixel_values=torch.zeros(rows * images * grid[0] * grid[1], wide),
                image_grid_thw=torch.tensor([[1, *grid]] * (rows * images)),
            )

    elif kind == "gemma3":
        tokens = config["mm_tokens_per_image"]
    elif kind == "smolvlm":
        tokens //= config["scale_factor"] ** 2

        def shown():
            return dict(
                pixel_values=torch.ones(rows, images, 3, height, width),
                pixel_attention_mask=torch.ones(rows, images, height, width, dtype=torch.long),
            )

    ids, at = torch.full((rows, columns), 3), 4
    for _ in range(images):
        if around:
            ids[:, at], at = around[0], at + 1
        ids[:, at : at + tokens], at = token, at + tokens
        if around:
            ids[:, at] = around[1]
        at += 2
    if at > columns:
        raise ValueError(f"{images} pictures take more than {columns} tokens")

    def fetch():
        given = shown()
        if kind in ("paligemma", "gemma3"):
            kinds = torch.ones(rows, columns, dtype=torch.long)
            if kind == "paligemma":
                kinds[:, :at] = 0
            else:
                kinds = (ids == token).long()
            given["token_type_ids"] = kinds
        if kind.startswith("qwen") and int(transformers.__version__.split(".")[0]) >= 5:  # the processor says which tokens are a picture's
            given["mm_token_type_ids"] = (ids == token).long()
        given.update(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids.clone())
        return (), {k: v.to(device) for k, v in given.items()}

    return fetch
