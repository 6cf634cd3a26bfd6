"""Checkpoints whose files call their tensors otherwise than the model does, seen under the model's own names.

transformers renames and converts such tensors while it loads a model. The same rules are applied here to one tensor
at a time, so that no more is read than is asked for. They are internal to transformers; where they are not as this
module expects them, the whole model is loaded instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from engine.architectures.tensors import PART, TensorEntry, Tensors
from engine.checkpoints.decoded_tensors import Decoded
from engine.checkpoints.size_bounds import bounded
from engine.checkpoints.transformers_library import first_line, library_config, load_pretrained, model_class
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from engine.architectures.tensors import Cut


@dataclass
class _Group:
    """Stored tensors that together become one tensor of the model, or several.

    Attributes
    ----------
    converter : of transformers, or None where a tensor is only renamed.
    first : the model's name that the converter is called with.
    sources : stored names, each with the converter's pattern that it fits.
    """

    converter: Any
    first: str
    sources: list[tuple[str, str]] = field(default_factory=list)

    def targets(self) -> list[str]:
        """Name the model's tensors that a converter makes of it."""
        patterns = self.converter.target_patterns
        return [self.first.replace(patterns[0], pattern) for pattern in patterns]


def renamed(stored: Tensors, directory: Path) -> Tensors:
    """See a checkpoint's tensors under the names that they have in the loaded model.

    Raises
    ------
    EngineError : when transformers cannot build the model.
    """
    try:
        model = _empty_model(directory, stored.entries)
        own, groups = model.state_dict(), _grouped(stored, model)
        plain = {group.first: group.sources[0][0] for group in groups if group.converter is None and group.first in own}
        converted = [group for group in groups if group.converter is not None]
        return Decoded(_Called(stored, plain), _decoders(stored, model, converted))
    except Exception:  # transformers' internals are not as they were
        return whole_model(directory)


def _empty_model(directory: Path, entries: Mapping[str, TensorEntry]) -> Any:
    """Build the model without memory for its weights."""
    config = library_config(directory)
    with bounded(entries, is_packed=bool(getattr(config, "quantization_config", None))), torch.device("meta"):
        kind = model_class(directory, {})
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)


class _Called:
    """A checkpoint's tensors under other names, and not in another form.

    Parameters
    ----------
    stored : the tensors.
    names : the stored name of each.
    """

    def __init__(self, stored: Tensors, names: Mapping[str, str]) -> None:
        self._stored, self._names = stored, names
        self.entries: dict[str, TensorEntry] = {name: stored.entries[own] for name, own in names.items()}

    def read(self, name: str) -> Tensor:
        """Give one tensor."""
        return self._stored.read(self._names[name])

    def cutting(self, name: str) -> Cut:
        """Give what cuts parts out of one tensor."""
        return self._stored.cutting(self._names[name])

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through one tensor."""
        return self._stored.parts(self._names[name])

    def step(self, name: str) -> float | None:
        """Give the distance between neighbouring numbers of one tensor."""
        return self._stored.step(self._names[name])


def _grouped(stored: Tensors, model: Any) -> list[_Group]:
    """Say, as transformers' loader does, which stored tensors become which of the model's."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    own = model.state_dict()
    groups: dict[str, _Group] = {}
    for name in sorted(stored.entries):
        target, pattern = rename_source_key(name, renamings, converters, model.base_model_prefix, own)
        if target not in own and name in own:
            target, pattern = name, None
        if target in own:
            group = groups.setdefault(target, _Group(None if pattern is None else by_pattern[pattern], target))
            group.sources.append((name, pattern or name))
    return list(groups.values())


def _decoders(stored: Tensors, model: Any, groups: list[_Group]) -> dict[str, tuple[TensorEntry, Callable[[], Tensor]]]:
    """Make, for every tensor of the model that has to be converted, what reads it."""
    own: Mapping[str, Tensor] = model.state_dict()
    decoders: dict[str, tuple[TensorEntry, Callable[[], Tensor]]] = {}
    for group in groups:
        source = stored.entries[group.sources[0][0]]
        for target in group.targets():
            if target in own:
                entry = TensorEntry(tuple(own[target].shape), source.dtype)
                decoders[target] = entry, _reader(stored, model, group, target)
    return decoders


def _reader(stored: Tensors, model: Any, group: _Group, target: str) -> Callable[[], Tensor]:
    """Make what reads one tensor of the model, by transformers' own conversion of stored ones."""

    def read() -> Tensor:
        converter = deepcopy(group.converter)
        for name, pattern in group.sources:
            converter.add_tensor(group.first, name, pattern, stored.read(name))
        made = converter.convert(group.first, model=model, config=model.config)
        found = made[target]
        tensor: Tensor = found[0] if isinstance(found, list) else found
        if tensor.shape != model.state_dict()[target].shape:
            raise EngineError(f"{target} comes out of its conversion as {list(tensor.shape)}; load the model whole")
        return tensor

    return read


class ModuleTensors:
    """The parameters and buffers of a module in memory, by name; those on a GPU are copied when they are read."""

    def __init__(self, module: nn.Module) -> None:
        self._tensors: Mapping[str, Tensor] = module.state_dict()
        self.entries: dict[str, TensorEntry] = {
            name: TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in self._tensors.items()
            if isinstance(tensor, Tensor)
        }

    def read(self, name: str) -> Tensor:
        """Give one tensor as it is now, in main memory."""
        return self._tensors[name].detach().cpu()

    def cutting(self, name: str) -> Cut:
        """Give what cuts parts out of one tensor as it is now."""
        tensor = self.read(name)
        return lambda view: view(tensor)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through one tensor as it is now."""
        yield from self.read(name).reshape(-1).split(PART)

    def step(self, name: str) -> None:
        """Give None: neighbours of larger numbers are further away."""


def whole_model(directory: Path) -> Tensors:
    """Load a whole model into main memory and see its parameters by name.

    Raises
    ------
    EngineError : when it cannot be loaded.
    """
    try:
        return ModuleTensors(load_pretrained(directory, "auto"))
    except Exception as error:  # whatever a model's own loading code raises
        raise EngineError(f"transformers cannot load {directory}: {first_line(error)}") from error
