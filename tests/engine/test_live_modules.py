"""Heads of modules in memory whose outputs go through more than a projection, or through other libraries' parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

import engine
from engine.values.errors import EngineError
from tests.handmade import HEADS, WIDTH, FusedCausal, Speaker


class NormedHeads(FusedCausal):
    """Each head's output is normed by itself before the output projection."""

    width = WIDTH // HEADS

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(self.width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
        written: Tensor = self.c_proj(self.norm(mixed.flatten(2).unflatten(2, (-1, self.width))).flatten(2))
        return written


class NormedTogether(NormedHeads):
    """All heads' outputs are normed together, so that none is by itself what the output projection reads."""

    width = WIDTH


class Around(nn.Module):
    """A model of transformers inside a module that returns its states alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = transformers.GPT2Model(transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=50))

    def forward(self, ids: Tensor) -> Tensor:
        states: Tensor = self.inner(ids)[0]
        return states


def test_heads_that_are_normed_one_by_one_are_found_and_marked() -> None:
    torch.manual_seed(0)
    model = Speaker(NormedHeads)
    opened = engine.open_module(model)
    part: Any = model.blocks[1].looking
    narrow = WIDTH // HEADS
    for head in range(HEADS):
        expected = part.c_proj.weight[:, head * narrow : (head + 1) * narrow].detach().numpy()
        np.testing.assert_array_equal(opened[f"L1H{head}"].W_O, expected)
    assert "outputs beyond OV" in opened.outline.layers[0].marks
    assert "scores beyond QK" not in opened.outline.layers[0].marks


def test_heads_that_are_normed_together_are_declined() -> None:
    with pytest.raises(EngineError, match="no projection reads its heads one beside the other"):
        engine.open_module(Speaker(NormedTogether))


def test_projections_that_are_stored_transposed_are_followed() -> None:
    model = Around()
    opened = engine.open_module(model)
    part: Any = model.inner.h[1].attn
    np.testing.assert_array_equal(opened["L1H2"].W_K, part.c_attn.weight[:, 32 + 16 : 32 + 24].T.detach().numpy())
    assert opened.outline.layers[1].marks == ("query/key bias",)
