"""A GPT-2 of two layers whose heads are made by hand, so that what each looks at is known.

The residual stream holds a token's content (64 random signs), its position (one of 128) and, written by the first
layer, the content of the token before. MLPs write nothing.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from torch import Tensor

from tests import tiny_models

CONTENT, POSITIONS = 64, 128
WIDTH = 2 * CONTENT + POSITIONS
PLACE = slice(CONTENT, CONTENT + POSITIONS)
BEFORE = slice(CONTENT + POSITIONS, WIDTH)
HEAD = WIDTH // 2
"""Rows of a head; there are two in a layer."""


def save(directory: Path) -> Path:
    """Make the model and write it: L0H0 previous token, L0H1 uniform, L1H0 induction, L1H1 equal tokens."""
    config = transformers.GPT2Config(
        vocab_size=tiny_models.VOCABULARY, n_positions=POSITIONS, n_embd=WIDTH, n_layer=2, n_head=2, n_inner=8,
        bos_token_id=0, eos_token_id=1, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    model = transformers.GPT2Model(config).eval()
    content, place, before = torch.zeros(3, WIDTH, HEAD)
    content[:CONTENT, :CONTENT] = before[BEFORE, :CONTENT] = torch.eye(CONTENT)
    place[PLACE] = torch.eye(POSITIONS)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if ".ln_" in f".{name}" and name.endswith("weight") else 0.0)
        signs = torch.randint(2, (len(model.wte.weight), CONTENT), generator=generator)
        model.wte.weight[:, :CONTENT] = 2.0 * signs - 1
        model.wpe.weight[:, PLACE] = 8 * torch.eye(POSITIONS)
        first, second = (block.attn for block in model.h)
        _plant(first.c_attn.weight, 0, 1.5 * place, 1.5 * place.roll(1, dims=1), content)
        first.c_proj.weight[:CONTENT, BEFORE] = torch.eye(CONTENT)
        _plant(second.c_attn.weight, 0, 2 * content, 2 * before, content)
        _plant(second.c_attn.weight, 1, 2 * content, 2 * content, content)
    return tiny_models.save(model, directory)


def _plant(fused: Tensor, head: int, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Write a head's matrices, (width, rows), into the columns of a fused projection."""
    for place, matrix in enumerate((query, key, value)):
        start = place * WIDTH + head * HEAD
        fused[:, start : start + HEAD] = matrix
