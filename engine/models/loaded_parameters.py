"""The parameters of a loaded model: NaN where the checkpoint lacks them, and which of them hold no numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.architectures.finite_numbers import all_finite, not_finite
from engine.models.spread_models import weight_of
from engine.values.errors import EngineError


def lacking_of(module: nn.Module) -> frozenset[str]:
    """Name a module's own parameters that its checkpoint lacks."""
    return getattr(module, "lacking", frozenset())


class _RefusedChoices(TorchFunctionMode):
    """Refuses to make of NaN what hides it: places, as of the largest numbers, answers, or other numbers."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self._said = said

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        results = result if isinstance(result, tuple) else (result,)
        is_choice = name == "nan_to_num" or any(isinstance(x, Tensor) and not x.is_floating_point() for x in results)
        if is_choice and not name.startswith(("new_", "is")) and not name.endswith("_like"):
            given = [x for x in args if isinstance(x, Tensor) and x.ndim and x.is_floating_point() and not x.is_meta]
            if any(bool(x.isnan().any()) for x in given):
                raise EngineError(self._said)
        return result


@contextmanager
def refusing_choices(model: nn.Module) -> Iterator[None]:
    """Keep a model whose checkpoint lacks parameters from choosing by what they take part in, as experts or keys.

    Raises
    ------
    EngineError : within, where it would.
    """
    lacking = [f"{path}.{own}" for path, module in model.named_modules() for own in sorted(lacking_of(module))]
    said = f"the model chooses by numbers that there are not: {_lacks(lacking)}; its spectra still work"
    with _RefusedChoices(said) if lacking else nullcontext():
        yield


def _lacks(names: list[str]) -> str:
    return f"the checkpoint lacks {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}" if names else ""


def broken_parameter(model: nn.Module, within: nn.Module, check: Callable[[], None]) -> str | None:
    """Name the first parameter of a part of a loaded model that holds NaN or infinite numbers, and how many.

    Parameters
    ----------
    model : whose names parameters have.
    within : the part of it that is looked at.
    check : called between parameters, of which a large model has many gigabytes.

    Returns
    -------
    What is said of it, or of those that the checkpoint lacks where all others are numbers; None where there are none.
    """
    prefix = next(path for path, module in model.named_modules() if module is within)
    lacking = []
    for own_name, parameter in within.named_parameters():
        if not parameter.is_floating_point():
            continue
        check()
        name = f"{prefix}.{own_name}".removeprefix(".")
        owner, _, own = name.rpartition(".")
        module = model.get_submodule(owner)
        weight = weight_of(module, own)
        if all_finite(weight):
            continue
        if own not in lacking_of(module):
            return not_finite({name: (weight,)})
        lacking.append(name)
    return _lacks(lacking) or None


def cause_of_nan(model: nn.Module, check: Callable[[], None]) -> str:
    """Say why what a model gives is NaN: its weights, or the range of what it computes in."""
    if (broken := broken_parameter(model, model, check)) is not None:
        return broken
    dtype = next(model.parameters()).dtype
    if dtype in (torch.float16, torch.bfloat16):
        return f"its numbers leave the range of {str(dtype).removeprefix('torch.')}; --dtype float32 may do"
    return "its weights are numbers, and what it makes of them here is none"


def why_no_numbers(model: nn.Module, module: nn.Module, check: Callable[[], None]) -> str:
    """Say why an attention module returns NaN or infinite numbers: its own weights, else what it reads."""
    if (broken := broken_parameter(model, module, check)) is not None:
        return broken
    cause = cause_of_nan(model, check)
    return f"what it reads holds NaN or infinite numbers ({cause}); its spectra still work"
