"""What a LoRA adapter's files say: its settings, and what it does to which module's weight.

An adapter changes ``W`` by ``ΔW = s · B A`` with ``s = α / r``, or ``α / √r`` where it says so (Hu et al. 2021;
Kalajdzievski 2023). One with magnitudes has ``m · (W + ΔW) / ‖W + ΔW‖`` row by row (DoRA, Liu et al. 2024).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from engine.architectures.tensors import Tensors
from engine.checkpoints.json_files import (
    FLAG,
    NUMBER,
    OBJECT_OF_NUMBERS,
    OBJECT_OF_WHOLES,
    PATH,
    TEXT,
    WHOLE,
    Kind,
    read_object,
    shown,
)
from engine.checkpoints.names import ADAPTER_CONFIG
from engine.checkpoints.tensor_reader import Checkpoint
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "base_model.model."
"""What PEFT puts before the names that modules have in the model that was trained."""

CHANGES_THE_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Ways of beginning an adapter that take something out of the base model's own weights."""

UNREADABLE = (
    "layer_replication",
    "alora_invocation_tokens",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "target_parameters",
)
"""Settings under which an adapter is more than a sum of two factors for each module."""

FIELDS: Mapping[str, Kind] = {
    "peft_type": TEXT,
    "base_model_name_or_path": PATH,
    **dict.fromkeys(("use_dora", "use_rslora", "fan_in_fan_out"), FLAG),
    "r": WHOLE,
    "lora_alpha": NUMBER,
    "rank_pattern": OBJECT_OF_WHOLES,
    "alpha_pattern": OBJECT_OF_NUMBERS,
}
"""What the fields of ``adapter_config.json`` hold."""

LONGEST_PATTERN = 1000
"""Characters that a pattern of names may have."""

PATTERN_SECONDS = 0.5
"""How long all patterns of an adapter together may be compared with names; the package counts the processor's time."""

_NAME = re.compile(r"[\w.-]+")
"""What a pattern is that is a name, or the end of one."""

_PART = re.compile(r"(?P<module>.+)\.lora_(?P<part>A|B|embedding_A|embedding_B|magnitude_vector)(?:\.weight)?")


@dataclass(frozen=True)
class Change:
    """What an adapter does to one module's weight.

    Attributes
    ----------
    module : its name in the model that was trained.
    parts : the names of its tensors in the adapter's file: ``A`` (r, in), ``B`` (out, r), ``magnitude_vector`` (out,).
    scale : of the product.
    """

    module: str
    parts: Mapping[str, str]
    scale: float

    def of(self, adapter: Tensors, weight: Tensor, is_transposed: bool) -> Tensor:
        """Give the change of a weight, in its own shape and in float64.

        Raises
        ------
        EngineError : when the weight has another shape than the change, or the change has none.
        """
        kind = "embedding_" if self.is_embedding else ""
        down, up = (adapter.read(self.parts[f"{kind}{side}"]).double() for side in "AB")
        if down.ndim != 2 or up.ndim != 2 or up.shape[1] != down.shape[0]:
            raise EngineError(
                f"the adapter's tensors of {self.module} have shapes {list(up.shape)} and {list(down.shape)}, of which "
                "there is no product; download or save the adapter again"
            )
        product: Tensor = self.scale * (up @ down)  # (out, in); of an embedding (d_model, vocabulary)
        flipped = self.is_embedding or is_transposed
        delta = (product.T if flipped else product).to(weight.device)
        if delta.shape != weight.shape:
            raise EngineError(
                f"the adapter changes {self.module} by {list(delta.shape)}, the base model has {list(weight.shape)}; "
                "give the base model that it was trained on: --base"
            )
        if "magnitude_vector" not in self.parts:
            return delta
        size = adapter.read(self.parts["magnitude_vector"]).double().flatten().to(weight.device)
        changed = weight.double() + delta
        lengths = changed.norm(dim=0 if flipped else 1)
        if size.shape != lengths.shape:
            raise EngineError(
                f"the adapter has {len(size)} magnitudes for the {len(lengths)} rows of {self.module}; save it again"
            )
        factor = size / lengths
        difference: Tensor = changed * (factor if flipped else factor[:, None]) - weight.double()
        return difference

    @property
    def is_embedding(self) -> bool:
        """Whether it changes a table of embeddings."""
        return "embedding_A" in self.parts


def read_settings(directory: Path) -> dict[str, Any]:
    """Read ``adapter_config.json``.

    Raises
    ------
    EngineError : when it cannot be read, or the adapter is of a kind that is no change of weights.
    """
    settings = read_object(directory / ADAPTER_CONFIG, FIELDS)
    kind = settings.get("peft_type")
    if kind != "LORA":
        raise EngineError(f"{directory} is an adapter of kind {kind}; attn-tui reads LORA, whose changes are matrices")
    begun = settings.get("init_lora_weights")
    if isinstance(begun, str) and begun.startswith(CHANGES_THE_BASE):
        raise EngineError(
            f"{directory} was begun by {begun}, which changes the base model too; convert it to plain LoRA, or merge it"
        )
    for setting in UNREADABLE:
        if settings.get(setting):
            raise EngineError(
                f"{directory} uses {setting}, which attn-tui cannot add to a weight; merge the adapter first"
            )
    return settings


def taken_apart(
    adapter: Checkpoint, settings: Mapping[str, Any], name: str
) -> tuple[tuple[Change, ...], dict[str, str]]:
    """Sort an adapter's tensors into changes of modules and tensors that stand in the place of the base model's.

    Raises
    ------
    EngineError : when one is of another kind, a part is missing, settings contradict it, or nothing is changed.
    """
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
    deadline = time.monotonic() + PATTERN_SECONDS
    for module, names in parts.items():
        sides = ("embedding_A", "embedding_B") if "embedding_A" in names else ("A", "B")
        if lost := [side for side in sides if side not in names]:
            raise EngineError(f"{name} has no lora_{lost[0]} for {module}; download or save the adapter again")
        rank = next(iter(adapter.entries[names[sides[0]]].shape), 0)
        stated = _of_pattern("rank_pattern", "r", settings, module, deadline)
        alpha = _of_pattern("alpha_pattern", "lora_alpha", settings, module, deadline)
        if stated not in (rank, None) or rank < 1 or alpha is None:
            raise EngineError(
                f"{name} says rank {stated} and alpha {alpha} for {module}, whose tensors have rank {rank}; "
                "adapter_config.json and the weights do not belong together"
            )
        if "magnitude_vector" in names and not settings.get("use_dora"):
            raise EngineError(f"{name} keeps magnitudes but does not say use_dora; save the adapter again")
        root = math.sqrt(rank) if settings.get("use_rslora") else rank
        changes.append(Change(module, names, float(alpha) / root))
    return tuple(changes), replaced


def _of_pattern(patterns: str, otherwise: str, settings: Mapping[str, Any], module: str, deadline: float) -> Any:
    """Look a module up in settings by the ends of names, as PEFT does, or else take the one for all modules.

    Raises
    ------
    EngineError : when a pattern cannot be compared, or the deadline is over, as `time.monotonic` counts.
    """
    for pattern, value in (settings.get(patterns) or {}).items():
        if _fits(pattern, module, f"{ADAPTER_CONFIG}: {patterns}", deadline):
            return value
    return settings.get(otherwise)


def _fits(pattern: str, module: str, where: str, deadline: float) -> bool:
    """Say whether a module's name ends with a pattern: a name, compared as it is, or else a regular expression."""
    left = deadline - time.monotonic()
    try:
        if left <= 0:
            raise TimeoutError
        if _NAME.fullmatch(pattern):
            return f".{module}".endswith(f".{pattern}")
        if len(pattern) > LONGEST_PATTERN:
            raise EngineError(f"{where} has a pattern of {len(pattern)} characters; at most {LONGEST_PATTERN} are read")
        re.compile(pattern)  # which knows no recursion, unlike the package
        expression = rf"(?:.*\.)?(?:{pattern})"
        return regex.fullmatch(expression, module, timeout=left, concurrent=True) is not None
    except TimeoutError as error:
        raise EngineError(
            f"{where} takes too long to compare with the names of modules, at {shown(pattern)}; write names there"
        ) from error
    except (re.error, regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise EngineError(f"{where} has {shown(pattern)}, which is no regular expression ({error})") from error
