"""A LoRA adapter as PEFT saves it: the base model with the adapter's changes, and the changes alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.outline import Anatomy, AttentionModule
from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.converted_tensors import Conversion, ConvertedTensors
from engine.checkpoints.model_folders import ADAPTER_CONFIG, MISTYPED, adapter_file, read_object
from engine.checkpoints.source import FolderSource, Location, Source, stored_parameters
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import DELTA, Head
from engine.values.memory import SentenceNeed
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "base_model.model."
"""PEFT puts it before the names of the modules of the trained model."""

UNREADABLE = (
    "layer_replication",
    "alora_invocation_tokens",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "target_parameters",
)
"""Settings under which an adapter is more than the product of two factors for each module."""

PATTERNS = {"r": "rank_pattern", "lora_alpha": "alpha_pattern"}
"""By setting, the one that overrides it for some modules."""

_PART = re.compile(r"(?P<module>.+)\.lora_(?P<part>A|B|embedding_A|embedding_B|magnitude_vector)(?:\.weight)?")


@dataclass(frozen=True)
class ModuleChange:
    """An adapter's change of one module's weight.

    Attributes
    ----------
    module : its name in the trained model.
    adapter : the adapter's tensors.
    down, up : the names of the factors, (r, in) and (out, r); for an embedding (r, vocabulary) and (d_model, r).
    magnitudes : the name of the lengths of the changed weight's rows, (out,); empty without.
    scale : of the product.
    is_transposed : whether the weight is stored ``[in, out]``, as an embedding is.
    """

    module: str
    adapter: Tensors
    down: str
    up: str
    magnitudes: str
    scale: float
    is_transposed: bool

    def delta(self, weight: Tensor) -> Tensor:
        """Compute the change of a weight, in the weight's shape and in float64.

        Raises `EngineError` when the shapes of the factors, or of the change and the weight, do not match.
        """
        down, up = (self.adapter.read(name).double() for name in (self.down, self.up))
        if down.ndim != 2 or up.ndim != 2 or up.shape[1] != down.shape[0]:
            raise EngineError(
                f"the adapter's tensors of {self.module} have shapes {list(up.shape)} and {list(down.shape)}, of which "
                "there is no product; download or save the adapter again"
            )
        product: Tensor = self.scale * (up @ down)  # (out, in); of an embedding (d_model, vocabulary)
        delta = (product.T if self.is_transposed else product).to(weight.device)
        if delta.shape != weight.shape:
            raise EngineError(
                f"the adapter changes {self.module} by {list(delta.shape)}, the base model has {list(weight.shape)}; "
                "give the base model that it was trained on: --base"
            )
        if not self.magnitudes:
            return delta
        size = self.adapter.read(self.magnitudes).double().flatten().to(weight.device)
        changed = weight.double() + delta
        lengths = changed.norm(dim=0 if self.is_transposed else 1)
        if size.shape != lengths.shape:
            raise EngineError(
                f"the adapter has {len(size)} magnitudes for the {len(lengths)} rows of {self.module}; save it again"
            )
        factor = size / lengths
        difference: Tensor = changed * (factor if self.is_transposed else factor[:, None]) - weight.double()
        return difference


def read_settings(directory: Path) -> dict[str, Any]:
    """Read ``adapter_config.json``.

    Raises `EngineError` when it cannot be read, or the adapter does not just add to weights.
    """
    settings = read_object(directory / ADAPTER_CONFIG)
    kind = settings.get("peft_type")
    if kind != "LORA":
        raise EngineError(f"{directory} is an adapter of kind {kind}; attn-tui reads LORA, whose changes are matrices")
    begun = settings.get("init_lora_weights")
    if isinstance(begun, str) and begun.startswith(("pissa", "olora", "corda", "loftq", "lora_ga")):
        raise EngineError(
            f"{directory} starts from {begun}, which changes the base model too; convert it to plain LoRA or merge it"
        )
    for setting in UNREADABLE:
        if settings.get(setting):
            raise EngineError(
                f"{directory} uses {setting}, which attn-tui cannot add to a weight; merge the adapter first"
            )
    return settings


def _sort_changes(
    adapter: Checkpoint, settings: Mapping[str, Any], name: str
) -> tuple[tuple[ModuleChange, ...], dict[str, str]]:
    """Sort an adapter's tensors into changes of modules, and tensors that replace the base model's."""
    parts: dict[str, dict[str, str]] = {}
    replaced: dict[str, str] = {}
    for stored in adapter.entries:
        plain = stored.removeprefix(PREFIX).replace(".base_layer.", ".")
        found = _PART.fullmatch(plain)
        if found is not None:
            parts.setdefault(found["module"], {})[found["part"]] = stored
        elif ".lora_" in plain:
            raise EngineError(f"{name} keeps {stored}, which attn-tui cannot add to a weight; merge the adapter first")
        else:
            replaced[plain] = stored
    if not parts and not replaced:
        raise EngineError(f"{name} changes nothing: there are no tensors in its file")
    changes = []
    for module, names in parts.items():
        is_embedding = "embedding_A" in names
        sides = ("embedding_A", "embedding_B") if is_embedding else ("A", "B")
        if lost := [side for side in sides if side not in names]:
            raise EngineError(f"{name} has no lora_{lost[0]} for {module}; download or save the adapter again")
        down, up = (names[side] for side in sides)
        rank = next(iter(adapter.entries[down].shape), 0)
        stated, alpha = (_setting(name, settings, module) for name in ("r", "lora_alpha"))
        if stated not in (rank, None) or rank < 1 or alpha is None:
            raise EngineError(
                f"{name} says rank {stated} and alpha {alpha} for {module}, whose tensors have rank {rank}; "
                "adapter_config.json and the weights do not match; save the adapter again"
            )
        magnitudes = names.get("magnitude_vector", "")
        if magnitudes and not settings.get("use_dora"):
            raise EngineError(f"{name} keeps magnitudes but does not say use_dora; save the adapter again")
        root = math.sqrt(rank) if settings.get("use_rslora") else rank
        is_transposed = is_embedding or bool(settings.get("fan_in_fan_out"))
        changes.append(ModuleChange(module, adapter, down, up, magnitudes, float(alpha) / root, is_transposed))
    return tuple(changes), replaced


def _setting(name: str, settings: Mapping[str, Any], module: str) -> Any:
    """Look up a module's setting: its own, by the end of its name as PEFT does, or else the one for all modules."""
    for pattern, value in (settings.get(PATTERNS[name]) or {}).items():
        try:
            if re.fullmatch(rf"(?:.*\.)?(?:{pattern})", module):
                return value
        except re.error as error:
            raise EngineError(
                f"{ADAPTER_CONFIG}: {PATTERNS[name]} has '{pattern}', which is not a regular expression ({error}); "
                "correct it there"
            ) from error
    return settings.get(name)


CHANGED = "delta:"
"""Stands before a tensor's name for its change."""


class AdapterSource(Source):
    """An adapter at a location, and the unchanged base model."""

    def __init__(self, location: Location, base: FolderSource) -> None:
        self.location, self.base = location, base
        settings = read_settings(location.directory)
        file = adapter_file(location.directory)
        self.adapter = Checkpoint(location.directory if file is None else file)
        self.opened = OpenedFiles((*base.opened.files, *self.adapter.opened.files))
        self.descriptions = (*base.descriptions, location.directory / ADAPTER_CONFIG)
        try:
            self.changes, self.replaced = _sort_changes(self.adapter, settings, location.name)
        except MISTYPED as error:
            file = location.directory / ADAPTER_CONFIG
            raise EngineError(
                f"{file} has settings that attn-tui cannot read ({error}); save the adapter again"
            ) from error
        entries = base.tensors.entries
        by_name = {_find(entries, f"{change.module}.weight"): change for change in self.changes}
        self._changes = {name: change for name, change in by_name.items() if name is not None}
        sources = {_find(entries, wanted): stored for wanted, stored in self.replaced.items()}
        self._replacements = {name: stored for name, stored in sources.items() if name is not None}
        if not self._changes and not self._replacements:
            modules = (*(change.module for change in self.changes), *self.replaced)
            raise EngineError(
                f"{location.name} changes nothing that {base.location.name} has, such as {modules[0]}; "
                "name the model that it was trained on with --base"
            )
        self.tensors = self._changed_tensors()
        self.anatomy = self._with_deltas(base.anatomy)

    def _changed_tensors(self) -> Tensors:
        stored = self.base.tensors
        conversions: dict[str, Conversion] = {}
        for name, source in self._replacements.items():
            conversions[name] = Conversion(self.adapter.entries[source], partial(self.adapter.read, source))
        for name in self._changes:
            make = partial(self._changed_weight, name)
            conversions[name] = Conversion(stored.entries[name], make, stored.steps.get(name))
        for module in self.base.anatomy.modules.values():
            for name in (*module.weights.values(), *module.biases.values()):
                entry = TensorEntry(stored.entries[name].shape, "float32")
                conversions[f"{CHANGED}{name}"] = Conversion(entry, partial(self._change, name))
        return ConvertedTensors(stored, conversions)

    def _changed_weight(self, name: str) -> Tensor:
        weight = self.base.tensors.read(name)
        return weight.double() + self._changes[name].delta(weight)

    def _change(self, name: str) -> Tensor:
        """Compute the change of a tensor; zeros if the adapter does not change it."""
        stored = self.base.tensors.read(name)
        if name in self._changes:
            return self._changes[name].delta(stored)
        return self.tensors.read(name).double() - stored.double()

    def _with_deltas(self, base: Anatomy) -> Anatomy:
        touched = {*self._changes, *self._replacements}
        changed: dict[Head, AttentionModule] = {}
        notes = [f"adapter of {self.base.location.name}"]
        for place, module in base.modules.items():
            names = {*module.weights.values(), *module.biases.values()}
            if module.latents and touched & {*names, *(each.down for each in module.latents.values())}:
                notes.append("two-step projections are shown with the adapter, not the change alone")
            elif touched & names:
                own = replace(module.outline, stack=f"{place.stack}{DELTA}")
                weights, biases = (
                    {matrix: f"{CHANGED}{name}" for matrix, name in several.items()}
                    for several in (module.weights, module.biases)
                )
                changed[own.name] = replace(module, outline=own, weights=weights, biases=biases, change_of=module)
        outside = [each.module for each in self.changes if each not in self._changes.values()]
        if outside:
            count = quantity(len(outside), "change")
            notes.append(f"the base model has no place for {count}, such as that of {outside[0]}")
        layers = (*base.outline.layers, *(module.outline for module in changed.values()))
        outline = replace(base.outline, name=self.location.name, directory=str(self.location.directory), layers=layers,
                          notes=(*base.outline.notes, *dict.fromkeys(notes)))  # fmt: skip
        return Anatomy(outline, {**base.modules, **changed})

    def sentence_need(self, dtype: str) -> SentenceNeed:
        """Estimate the memory for reading a sentence; changed weights do not stay in their files."""
        need = self.base.sentence_need(dtype)
        entries = self.base.tensors.entries
        copied = sum(entries[name].stored_bytes for name in {*self._changes, *self._replacements})
        return replace(need, mapped=max(0, need.mapped - copied))

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the base model's tensors and then the adapter's own."""
        return (*self.base.parameters(with_ties), *stored_parameters(self.adapter.entries))

    def parts(self, name: str) -> Iterator[Tensor]:
        """Iterate over the numbers of a listed tensor: the adapter's own, or the base model's without its change."""
        return self.adapter.parts(name) if name in self.adapter.entries else self.base.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Return the base model's configuration."""
        return self.base.settings()


def _find(entries: Mapping[str, TensorEntry], wanted: str) -> str | None:
    """Find a tensor whose prefix may differ, because the model was saved with or without a head."""
    tail = wanted
    while tail and tail not in entries:
        tail = tail.partition(".")[2]
    if tail.count("."):
        return tail
    longer = [name for name in entries if name.endswith(f".{wanted}")]
    return longer[0] if len(longer) == 1 else None
