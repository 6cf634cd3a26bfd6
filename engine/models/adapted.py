"""Adding an adapter's changes to a loaded base model, so that sentences are read with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from engine.architectures.tensors import Tensors
from engine.models.loaded_modules import find_module
from engine.models.lora import Change
from engine.models.maps import MapReader
from engine.models.sentence import Reader
from engine.values.errors import EngineError


def adapt(
    reader: MapReader,
    changes: Sequence[Change],
    replaced: Mapping[str, str],
    adapter: Tensors,
    is_transposed: bool,
    name: str,
) -> None:
    """Change the weights of a reader's model in their place.

    Raises
    ------
    EngineError : when the model has no such module, or keeps its weight in a form that nothing can be added to.
    """
    assert isinstance(reader, Reader)
    named = dict(reader.model.named_modules())
    for change in changes:
        module = _module(named, change.module)
        weight = getattr(module, "weight", None)
        if module is None and "lm_head" in change.module:
            continue  # a head after the layers, which the maps do not need
        if not isinstance(weight, nn.Parameter) or not weight.is_floating_point():
            raise EngineError(f"{name} changes {change.module}, which the loaded base model does not keep as numbers")
        if weight.is_meta:
            raise EngineError(
                f"{name} cannot be added to weights that are spread over GPUs and main memory; merge it first: "
                "model = model.merge_and_unload()"
            )
        with torch.no_grad():
            weight.copy_(weight.double() + change.of(adapter, weight.detach(), is_transposed))
    for wanted, stored in replaced.items():
        path, _, kind = wanted.rpartition(".")
        parameter = getattr(_module(named, path), kind, None)
        if isinstance(parameter, nn.Parameter):
            with torch.no_grad():
                parameter.copy_(adapter.read(stored))


def _module(named: Mapping[str, nn.Module], path: str) -> nn.Module | None:
    """Find a module whose name may begin otherwise, because the model was trained with a head and is loaded without."""
    tail = path
    while tail:
        if tail in named:
            return named[tail]
        tail = tail.partition(".")[2]
    return find_module(named, path)
