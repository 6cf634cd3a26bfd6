"""The attention probabilities that models of transformers themselves return in eager mode."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

Maps = list[NDArray[np.float32]]
"""(heads, queries, keys) by layer."""


def eager_maps(folder: Path, ids: tuple[int, ...]) -> dict[str, Maps]:
    """Give what a folder's model returns for a sentence, by stack."""
    return returned_maps(transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval(), ids)


def returned_maps(model: Any, ids: Sequence[int]) -> dict[str, Maps]:
    """Give what a model returns for a sentence, by stack; the only stack has no name.

    A stack that returns something else than probabilities is left out.
    """
    sentence = torch.tensor([ids])
    inputs: dict[str, Any] = {"input_ids": sentence, "attention_mask": torch.ones_like(sentence)}
    taken = inspect.signature(model.forward).parameters
    if "use_cache" in taken:
        inputs["use_cache"] = False
    if is_of_two_sides := "decoder_input_ids" in taken:
        begin = getattr(model.config, "decoder_start_token_id", None)
        shifted = sentence if begin is None else torch.cat([torch.tensor([[begin]]), sentence[:, :-1]], 1)
        inputs["decoder_input_ids"] = shifted
    with torch.no_grad():
        returned = model(**inputs, output_attentions=True)
    stacks = {stack: f"{stack}_attentions" for stack in ("encoder", "decoder", "cross")}
    found = {stack: returned[name] for stack, name in (stacks if is_of_two_sides else {"": "attentions"}).items()}
    return {
        stack: [layer[0].numpy() for layer in layers]
        for stack, layers in found.items()
        if isinstance(layers[0], torch.Tensor)
    }
