"""Which files of a folder hold a checkpoint's weights, as an index of several lists them; nothing is read of these."""

from __future__ import annotations

import json
from pathlib import Path

from engine.values.errors import EngineError

WEIGHT_FILES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
"""What holds a checkpoint's weights, in the order of preference."""


def weight_file(directory: Path) -> Path | None:
    """Find the file that holds, or lists, a folder's weights."""
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    return None


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
    try:
        found = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        if not found or not all(isinstance(name, str) for name in found.values()):
            raise ValueError("it lists no files")
        return dict(found)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EngineError(f"{index} is no index of weight files ({error}); download the model again") from error


def missing_shards(weights: Path) -> tuple[Path, ...]:
    """List the weight files that an index names and the folder lacks."""
    return tuple(file for file in shard_files(weights) if not file.is_file())
