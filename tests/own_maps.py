"""The attention probabilities that models of transformers themselves return in eager mode."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

Maps = list[NDArray[np.float32]]
"""(heads, queries, keys) by layer."""


def own_maps(model: Any, ids: Sequence[int]) -> Maps:
    """Give what a model without a second stack returns for a sentence."""
    with torch.no_grad():
        returned = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
    return _of_one(returned.attentions)


def _of_one(attentions: Any) -> Maps:
    return [layer[0].numpy() for layer in attentions]


@lru_cache(maxsize=1)
def eager_model(folder: Path) -> Any:
    """Load a folder's model once for all its sentences."""
    return transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()


def eager_maps(folder: Path, ids: tuple[int, ...]) -> dict[str, Maps]:
    """Give what a folder's model returns for a sentence, by stack; the only stack has no name.

    A stack that returns something else than probabilities is left out.
    """
    model = eager_model(folder)
    sentence = torch.tensor([ids])
    inputs = {"input_ids": sentence, "attention_mask": torch.ones_like(sentence), "output_attentions": True}
    if "decoder_input_ids" not in inspect.signature(model.forward).parameters:
        with torch.no_grad():
            return {"": _of_one(model(**inputs).attentions)}
    begin = getattr(model.config, "decoder_start_token_id", None)
    inputs["decoder_input_ids"] = (
        sentence if begin is None else torch.cat([torch.tensor([[begin]]), sentence[:, :-1]], 1)
    )
    with torch.no_grad():
        returned = model(**inputs, use_cache=False)
    found = {stack: returned[f"{stack}_attentions"] for stack in ("encoder", "decoder", "cross")}
    return {stack: _of_one(each) for stack, each in found.items() if isinstance(each[0], torch.Tensor)}
