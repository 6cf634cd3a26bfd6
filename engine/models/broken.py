"""Which of a model's weights keep what it computes from being numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from engine.models.finite import all_finite, not_finite
from engine.models.waiting import weight_of


def broken_parameter(model: nn.Module, within: nn.Module, breathe: Callable[[], None]) -> str | None:
    """Name the first parameter of a part of a loaded model that holds NaN or infinite numbers, and how many.

    Parameters
    ----------
    model : whose names parameters have.
    within : the part of it that is looked at.
    breathe : called between parameters, of which a large model has many gigabytes.

    Returns
    -------
    What is said of it, or None where every number is one.
    """
    prefix = next(path for path, module in model.named_modules() if module is within)
    names = [
        f"{prefix}.{name}".removeprefix(".") for name, each in within.named_parameters() if each.is_floating_point()
    ]
    for name in names:
        breathe()
        owner, _, own = name.rpartition(".")
        weight = weight_of(model.get_submodule(owner), own)
        if not all_finite(weight):
            return not_finite({name: (weight,)})
    return None


def cause_of_nan(model: nn.Module, breathe: Callable[[], None]) -> str:
    """Say why what a model gives is NaN: its weights, or the range of what it computes in."""
    if (broken := broken_parameter(model, model, breathe)) is not None:
        return broken
    dtype = next(model.parameters()).dtype
    if dtype in (torch.float16, torch.bfloat16):
        return f"its numbers leave the range of {str(dtype).removeprefix('torch.')}; --dtype float32 may do"
    return "its weights are numbers, and what it makes of them here is none"


def why_no_numbers(model: nn.Module, module: nn.Module, breathe: Callable[[], None]) -> str:
    """Say why an attention module returns NaN or infinite numbers: its own weights, else what it reads."""
    if (broken := broken_parameter(model, module, breathe)) is not None:
        return broken
    cause = cause_of_nan(model, breathe)
    return f"what it reads holds NaN or infinite numbers ({cause}); its spectra still work"
