"""Which files of a folder hold a checkpoint's weights, as an index of several lists them; nothing is read of these."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoints.json_files import OBJECT_OF_TEXTS, read_object, shown
from engine.checkpoints.names import ADAPTER_CONFIG
from engine.values.errors import EngineError

WEIGHT_FILES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
"""What holds a checkpoint's weights, in the order of preference."""

ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
"""What holds an adapter's weights, in the order of preference."""


def weight_file(directory: Path) -> Path | None:
    """Find the file that holds, or lists, a folder's weights."""
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    return None


def adapter_file(directory: Path) -> Path | None:
    """Find the weights of an adapter in a folder that is one, and no model of its own."""
    if (directory / "config.json").is_file() and weight_file(directory) is not None:
        return None
    if not (directory / ADAPTER_CONFIG).is_file():
        return None
    return next((directory / name for name in ADAPTER_FILES if (directory / name).is_file()), None)


def shard_files(weights: Path) -> tuple[Path, ...]:
    """List the files that hold the tensors, given the weight file or the index of several.

    Raises
    ------
    EngineError : when the index cannot be read.
    """
    if not weights.name.endswith(".index.json"):
        return (weights,)
    return tuple(weights.parent / name for name in sorted(set(_weight_map(weights).values())))


def promised_tensors(weights: Path) -> dict[str, str]:
    """Name the tensors that an index lists, and the file of each; a single file lists none."""
    return _weight_map(weights) if weights.name.endswith(".index.json") else {}


def _weight_map(index: Path) -> dict[str, str]:
    """Read which file of an index holds which tensor."""
    found: dict[str, str] = read_object(index, {"weight_map": OBJECT_OF_TEXTS}).get("weight_map") or {}
    if not found:
        raise EngineError(f"{index} is no index of weight files (it lists none); download the model again")
    for name in set(found.values()):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise EngineError(f"{index} lists {shown(name)}, which is not in its folder; download the model again")
    return found


def missing_shards(weights: Path) -> tuple[Path, ...]:
    """List the weight files that an index names and the folder lacks."""
    return tuple(file for file in shard_files(weights) if not file.is_file())
