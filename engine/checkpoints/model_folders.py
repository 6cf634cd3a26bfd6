"""The files of a model's folder, and the models of the local Hub cache: what is there, and what is missing.

No weights are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.checkpoints.json_files import OBJECT_OF_TEXTS, read_object, settings_of, shown
from engine.checkpoints.model_names import ADAPTER_CONFIG, CACHED, DEMO, cached_id, hub_cache, is_model, snapshot
from engine.values.errors import EngineError
from engine.values.found_models import FoundModel, Origin

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
    return next((directory / name for name in WEIGHT_FILES if (directory / name).is_file()), None)


def adapter_file(directory: Path) -> Path | None:
    """Find the weights of an adapter in a folder that is one, and no model of its own."""
    is_of_model = (directory / "config.json").is_file() and weight_file(directory) is not None
    if is_of_model or not (directory / ADAPTER_CONFIG).is_file():
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
    return tuple(weights.parent / name for name in sorted(set(promised_tensors(weights).values())))


def promised_tensors(weights: Path) -> dict[str, str]:
    """Name the tensors that an index lists, and the file of each; a single file lists none.

    Raises
    ------
    EngineError : when the index cannot be read, or names files outside its folder.
    """
    if not weights.name.endswith(".index.json"):
        return {}
    found: dict[str, str] = read_object(weights, {"weight_map": OBJECT_OF_TEXTS}).get("weight_map") or {}
    if not found:
        raise EngineError(f"{weights} is no index of weight files (it lists none); download the model again")
    for name in set(found.values()):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise EngineError(f"{weights} lists {shown(name)}, which is not in its folder; download the model again")
    return found


def missing_shards(weights: Path) -> int:
    """Count the weight files that an index names and the folder lacks."""
    return sum(not file.is_file() for file in shard_files(weights))


def find_in_cache(name: str, revision: str | None) -> Path | None:
    """Find a complete snapshot of a model in the local Hub cache.

    Raises
    ------
    EngineError : when the name cannot be that of a Hub model.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # as its reference says

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise EngineError(f"{name!r} is no folder and cannot be a Hub id; try: attn-tui {DEMO}") from error
    directory = snapshot(cache_folder(name), revision)
    weights = weight_file(directory) or adapter_file(directory)
    is_complete = is_model(directory) and weights is not None and not missing_shards(weights)
    return directory if is_complete else None


def cache_folder(name: str) -> Path:
    """Say where the local Hub cache keeps a model."""
    return hub_cache() / f"{CACHED}{name.replace('/', '--')}"


def cached_models(revision: str | None = None) -> Iterator[FoundModel]:
    """Go through the models of the local Hub cache, last used first.

    Parameters
    ----------
    revision : the branch, tag or commit that is to be opened; the main branch unless given.
    """
    found = []
    for folder in hub_cache().glob(f"{CACHED}*"):
        directory = snapshot(folder, revision)
        try:
            stats = {each: each.stat() for each in directory.rglob("*") if each.is_file()}
        except OSError:
            continue
        # The list itself reads what says which model it is.
        times = [stat.st_atime for each, stat in stats.items() if each.suffix != ".json"]
        last_used = max(times or [stat.st_atime for stat in stats.values()], default=0.0)
        found.append((last_used, sum(stat.st_size for stat in stats.values()), folder, directory))
    for last_used, held, folder, directory in sorted(found, reverse=True):
        model_type, layers, heads = settings_of(directory)
        if not model_type and (directory / ADAPTER_CONFIG).is_file():
            model_type = "adapter"
        missing = _missing_part(directory) if held else f"revision {revision}" if revision else "no files"
        yield FoundModel(cached_id(folder.name), Origin.HUB, held, last_used, model_type, layers, heads, missing)


def _missing_part(directory: Path) -> str:
    """Say what a snapshot lacks to be opened; nothing where it is complete."""
    if adapter_file(directory) is not None:
        return ""
    weights = weight_file(directory)
    if weights is None:
        return "weights"
    if not (directory / "config.json").is_file():
        return "config.json"
    try:
        lacking = missing_shards(weights)
    except EngineError:
        return "a readable list of weights"
    return f"{lacking} weight file{'s' if lacking > 1 else ''}" if lacking else ""
