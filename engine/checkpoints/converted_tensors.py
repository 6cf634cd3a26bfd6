"""Tensors that a model calls otherwise than its files do, or that stand for others: decoded, changed or put together.

transformers renames and converts some checkpoints' tensors while it loads a model. The same rules are applied here to
one tensor at a time, so that no more is read than is asked for. They are internal to transformers; where they are not
as this module expects them, the whole model is loaded instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry, Tensors, View, whole
from engine.checkpoints.size_bounds import free_memory
from engine.checkpoints.transformers_library import (
    empty_model,
    first_line,
    library_config,
    load_pretrained,
    model_class,
)
from engine.values.errors import EngineError
from engine.values.memory import size

if TYPE_CHECKING:
    from torch import Tensor, nn

CONVERSION_BYTES = 24
"""What a number takes while its tensor is made as a whole: stored integers, and float32 copies of them."""


@dataclass(frozen=True)
class Conversion:
    """How one tensor is made.

    Attributes
    ----------
    entry : its shape, and the dtype that says how finely it is stored.
    make : makes it.
    step : as `Tensors.steps`, where it is made of whole numbers or of a few levels.
    """

    entry: TensorEntry
    make: Callable[[], Tensor]
    step: Callable[[], float] | None = None


class ConvertedTensors(Tensors):
    """Tensors of which some are as stored, and others are made of stored ones.

    Parameters
    ----------
    stored : as they are in the files.
    conversions : of those that are made.
    names : of each that is as stored, its stored name; all have their own unless given.
    """

    def __init__(
        self, stored: Tensors, conversions: Mapping[str, Conversion], names: Mapping[str, str] | None = None
    ) -> None:
        self._stored = stored
        names = {name: name for name in stored.entries} if names is None else names
        self._names = {name: own for name, own in names.items() if name not in conversions}
        self._conversions = conversions
        self.entries = {name: stored.entries[own] for name, own in self._names.items()}
        self.entries |= {name: conversion.entry for name, conversion in conversions.items()}
        self.read_in_parts = {name for name, own in self._names.items() if own in stored.read_in_parts}
        self.steps = {name: stored.steps[own] for name, own in self._names.items() if own in stored.steps}
        self.steps |= {name: each.step for name, each in conversions.items() if each.step is not None}

    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor, or what a view leaves of it; one that has to be made is made as a whole."""
        if name in self._names:
            return self._stored.read(self._names[name], view)
        return view(self._conversions[name].make())

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of one tensor; `EngineError` when there is no room to make it."""
        needed, free = CONVERSION_BYTES * self.entries[name].parameters, free_memory()
        if name in self._conversions and free is not None and needed > free:
            raise EngineError(f"to decode it takes {size(needed)} of memory, and {size(free)} are free")
        yield from super().parts(name)


class ModuleTensors(Tensors):
    """The parameters and buffers of a module in memory, by name; those on a GPU are copied when they are read."""

    def __init__(self, module: nn.Module) -> None:
        from torch import Tensor

        self._tensors: Mapping[str, Tensor] = module.state_dict()
        self.entries = {
            name: TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in self._tensors.items()
            if isinstance(tensor, Tensor)
        }

    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor as it is now, or what a view leaves of it, in main memory."""
        return view(self._tensors[name].detach()).cpu()


def rename_tensors(stored: Tensors, directory: Path) -> Tensors:
    """See a checkpoint's tensors under the names that they have in the loaded model.

    Raises `EngineError` when transformers cannot build the model.
    """
    try:
        config = library_config(directory)
        return _convert_names(stored, empty_model(model_class(config, stored.entries), config, stored.entries))
    except Exception:  # transformers' internals are not as they were
        return whole_model(directory)


def _convert_names(stored: Tensors, model: Any) -> Tensors:
    """Find, as transformers' loader does, which stored tensors become which of the model's."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    own: dict[str, Tensor] = model.state_dict()
    sources: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for name in sorted(stored.entries):
        target, pattern = rename_source_key(name, renamings, converters, model.base_model_prefix, own)
        if target not in own and name in own:
            target, pattern = name, None
        if target in own:
            sources[target].append((name, pattern))
    names: dict[str, str] = {}
    conversions: dict[str, Conversion] = {}
    for first, several in sources.items():
        name, pattern = several[0]
        if pattern is None:
            names[first] = name
            continue
        converter = by_pattern[pattern]
        for target_pattern in converter.target_patterns:
            target = first.replace(converter.target_patterns[0], target_pattern)
            if target in own:
                entry = TensorEntry(tuple(own[target].shape), stored.entries[name].dtype)
                make = partial(_convert, stored, model, converter, several, first, target)
                conversions[target] = Conversion(entry, make)
    return ConvertedTensors(stored, conversions, names)


def _convert(
    stored: Tensors, model: Any, converter: Any, sources: Sequence[tuple[str, str | None]], first: str, target: str
) -> Tensor:
    """Make one of the model's tensors by transformers' own conversion, which is called with the first that it makes."""
    converter = deepcopy(converter)
    for name, pattern in sources:
        converter.add_tensor(first, name, pattern or name, stored.read(name))
    found = converter.convert(first, model=model, config=model.config)[target]
    tensor: Tensor = found[0] if isinstance(found, list) else found
    if tensor.shape != model.state_dict()[target].shape:
        raise EngineError(f"{target} comes out of its conversion as {list(tensor.shape)}; load the model whole")
    return tensor


def whole_model(directory: Path) -> Tensors:
    """Load a whole model into main memory and see its parameters by name; `EngineError` when it cannot be loaded."""
    try:
        return ModuleTensors(load_pretrained(directory, "auto"))
    except Exception as error:  # whatever a model's own loading code raises
        raise EngineError(f"transformers cannot load {directory}: {first_line(error)}") from error
