"""Modules of half precision that compute in float32 for a while: what they do is seen without their rounding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from engine.models.spread_models import weights_loaded

HALVES = frozenset({torch.float16, torch.bfloat16})


@contextmanager
def in_float32(*modules: nn.Module) -> Iterator[None]:
    """Bring the weights of modules and of all their parts, those of half precision as float32.

    They are given back as they were, bit by bit.
    """
    with weights_loaded(*modules):
        parts = [part for module in modules for each in (module.parameters(), module.buffers()) for part in each]
        halves = {id(part): (part, part.data) for part in parts if part.dtype in HALVES}
        try:
            with torch.inference_mode(False):
                for part, stored in halves.values():
                    part.data = stored.float()
            yield
        finally:
            for part, stored in halves.values():
                part.data = stored


def as_float32(values: Any) -> Any:
    """Take all tensors of half precision, however they are nested, as float32."""
    return tree_map(lambda each: each.float() if isinstance(each, Tensor) and each.dtype in HALVES else each, values)


def as_half(values: Any, dtype: torch.dtype) -> Any:
    """Take all float32 tensors, however they are nested, as one of half precision."""
    return tree_map(
        lambda each: each.to(dtype) if isinstance(each, Tensor) and each.dtype == torch.float32 else each, values
    )


def half_precision(module: nn.Module) -> torch.dtype | None:
    """Give the half precision that a module computes in, or None where it has none."""
    return next((each.dtype for each in module.parameters() if each.dtype in HALVES), None)
