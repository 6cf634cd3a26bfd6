"""A LoRA adapter as PEFT saves it: the base model with its change added, and the change by itself.

The change by itself is shown as stacks of its own, ``decoder-delta`` beside ``decoder``: their Q, K, V and O are those
of ``W' − W``, their QK and OV the changes of the circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, AttentionModule
from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.decoded_tensors import Decoded
from engine.checkpoints.folder import FolderSource
from engine.checkpoints.json_files import plain_file
from engine.checkpoints.locate import Location
from engine.checkpoints.lora import Change, read_settings, taken_apart
from engine.checkpoints.names import ADAPTER_CONFIG
from engine.checkpoints.parameters import stored_parameters
from engine.checkpoints.tensor_reader import Checkpoint, stamps
from engine.checkpoints.weight_files import adapter_file
from engine.values.display_text import counted
from engine.values.errors import EngineError
from engine.values.heads import DELTA, Head
from engine.values.memory import SentenceNeed
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor


CHANGED = "delta:"
"""What stands before a tensor's name where its change is meant."""


class AdapterSource:
    """An adapter's folder and the base model that it changes.

    Attributes
    ----------
    location : of the adapter.
    base : the model that it changes, as it is without it.
    """

    def __init__(self, location: Location, base: FolderSource) -> None:
        self.location, self.base = location, base
        self._settings = read_settings(location.directory)
        file = adapter_file(location.directory)
        self.adapter = Checkpoint(location.directory if file is None else plain_file(file))
        self.changes, self.replaced = taken_apart(self.adapter, self._settings, location.name)
        self._by_tensor: dict[str, Change] = {}
        for change in self.changes:
            name = _find(base.tensors.entries, f"{change.module}.weight")
            if name is not None:
                self._by_tensor[name] = change
        self._replacements = {
            name: stored
            for wanted, stored in self.replaced.items()
            if (name := _find(base.tensors.entries, wanted)) is not None
        }
        if not self._by_tensor and not self._replacements:
            raise EngineError(
                f"{location.name} changes nothing that {base.location.name} has, such as {self.changes[0].module}; "
                "name the model that it was trained on with --base"
            )
        self.tensors: Tensors = self._changed_tensors()
        self.anatomy: Anatomy = self._with_deltas(base.anatomy)

    @property
    def identity(self) -> str:
        """The base model's identity and the adapter's files."""
        files = (*self.adapter.files, self.location.directory / ADAPTER_CONFIG)
        return f"{self.base.identity};{stamps(files)}"

    @property
    def is_transposed(self) -> bool:
        """Whether the changed weights are stored ``[in, out]``."""
        return bool(self._settings.get("fan_in_fan_out"))

    def _changed_tensors(self) -> Tensors:
        """See the base model's tensors with the adapter's changes, and each change by itself."""
        stored = self.base.tensors
        decoders: dict[str, tuple[TensorEntry, Callable[[], Tensor]]] = {}
        for name, source in self._replacements.items():
            decoders[name] = self.adapter.entries[source], partial(self.adapter.read, source)
        for name in self._by_tensor:
            decoders[name] = stored.entries[name], partial(self._changed, name)
        for module in self.base.anatomy.modules.values():
            for name in (*module.weights.values(), *module.biases.values()):
                entry = TensorEntry(stored.entries[name].shape, "float32")
                decoders[f"{CHANGED}{name}"] = entry, partial(self._delta, name)
        return Decoded(stored, decoders)

    def _changed(self, name: str) -> Tensor:
        """Give a weight as the adapter leaves it, in float64."""
        weight = self.base.tensors.read(name)
        return weight.double() + self._by_tensor[name].of(self.adapter, weight, self.is_transposed)

    def _delta(self, name: str) -> Tensor:
        """Give the change of a tensor; zeros where the adapter leaves it alone."""
        stored = self.base.tensors.read(name)
        if name in self._by_tensor:
            return self._by_tensor[name].of(self.adapter, stored, self.is_transposed)
        return self.tensors.read(name).double() - stored.double()

    def _with_deltas(self, base: Anatomy) -> Anatomy:
        """Put a stack of changes beside every stack of which some layer is changed."""
        touched = {*self._by_tensor, *self._replacements}
        changed: dict[Head, AttentionModule] = {}
        notes = [f"adapter of {self.base.location.name}"]
        for place, module in base.modules.items():
            names = {*module.weights.values(), *module.biases.values()}
            if module.latents and touched & {*names, *(each.down for each in module.latents.values())}:
                notes.append("projections in two steps are shown with their change, the change itself is not")
            elif touched & names:
                changed[Head(f"{place.stack}{DELTA}", place.layer)] = _delta_module(module)
        outside = [each.module for each in self.changes if each not in self._by_tensor.values()]
        if outside:
            count = counted(len(outside), "change")
            notes.append(f"the base model has no place for {count}, such as that of {outside[0]}")
        layers = (*base.outline.layers, *(module.outline for module in changed.values()))
        outline = replace(base.outline, name=self.location.name, directory=str(self.location.directory), layers=layers,
                          notes=(*base.outline.notes, *dict.fromkeys(notes)))  # fmt: skip
        return Anatomy(outline, {**base.modules, **changed})

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the base model and of the adapter."""
        return (*self.base.files, *self.adapter.files)

    def sentence_need(self, dtype: str) -> SentenceNeed:
        """Estimate what reading a sentence takes; weights that are changed do not stay in their files."""
        need = self.base.sentence_need(dtype)
        entries = self.base.tensors.entries
        copied = sum(entries[name].stored_bytes for name in {*self._by_tensor, *self._replacements})
        return replace(need, mapped=max(0, need.mapped - copied))

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the base model's tensors and then the adapter's own."""
        return (*self.base.parameters(with_ties), *stored_parameters(self.adapter.entries))

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor: the adapter's own, or the base model's without its change."""
        return self.adapter.parts(name) if name in self.adapter.entries else self.base.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Give the base model's configuration."""
        return self.base.settings()


def _find(entries: Mapping[str, TensorEntry], wanted: str) -> str | None:
    """Find a tensor whose name may begin otherwise, because the model was saved with a head or without."""
    tail = wanted
    while tail and tail not in entries:
        tail = tail.partition(".")[2]
    if tail.count("."):
        return tail
    longer = [name for name in entries if name.endswith(f".{wanted}")]
    return longer[0] if len(longer) == 1 else None


def _delta_module(module: AttentionModule) -> AttentionModule:
    """Describe a layer's change as a layer of its own."""
    outline = replace(module.outline, stack=f"{module.outline.stack}{DELTA}")
    weights = {matrix: f"{CHANGED}{name}" for matrix, name in module.weights.items()}
    biases = {matrix: f"{CHANGED}{name}" for matrix, name in module.biases.items()}
    return replace(module, outline=outline, weights=weights, biases=biases, change_of=module)
