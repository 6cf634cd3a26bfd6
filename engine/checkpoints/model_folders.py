"""Models by the names and paths that a person types, the files of their folders, and all models on this machine.

No weights are read and nothing heavy is imported, since names are resolved before the first frame and between two keys.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from engine.architectures.configuration import LAYER_COUNT_KEYS, head_count, layer_count
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import FoundModel, Origin

WEIGHT_FILES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
"""The files that hold or list a checkpoint's weights, the preferred one first."""

ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
"""The files that hold an adapter's weights, the preferred one first."""

ADAPTER_CONFIG = "adapter_config.json"
"""An adapter's folder has it in place of ``config.json``."""

CACHED = "models--"
"""The prefix of folders in the Hub's cache; the parts of the model's name follow, joined by ``--``."""

MISTYPED = (AttributeError, LookupError, TypeError, ValueError)
"""What is raised where a setting has another type than transformers writes."""

DEMO = "demo"
"""The name of the model that ships with the program."""

PARTS = (".safetensors", ".bin", ".pt")
"""Endings of weight files; beside a configuration they are parts of a model, which is opened by its folder."""

GGUF = ".gguf"
"""The ending of files that are models by themselves."""

SURVEY = "survey.json"
"""The file that a survey's folder has, and a model's has not."""

_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?!(?:datasets|spaces|docs|models|papers)(?:/|$))"
    r"(?P<id>[\w.-]+(?:/(?!(?:tree|blob|resolve)/)[\w.-]+)?)(?:/(?:tree|blob|resolve)/main(?:/.*)?)?/?(?:[?#].*)?",
    re.ASCII,
)
"""The address of a model's page on the Hub, or of a file on its main branch."""


def is_model(directory: Path) -> bool:
    """Return whether a folder has a model's or an adapter's configuration."""
    return any((directory / name).is_file() for name in ("config.json", ADAPTER_CONFIG))


def hub_cache() -> Path:
    """Return the local Hub cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_id(folder: str) -> str:
    """Turn the name of a folder of the Hub's cache into the id of its model.

    Examples
    --------
    >>> cached_id("models--google--bert-tiny")
    'google/bert-tiny'
    """
    return folder.removeprefix(CACHED).replace("--", "/")


def snapshot_folder(folder: Path, revision: str | None = None) -> Path:
    """Return the folder in a model's cache with the files of a branch, tag or commit; of main by default."""
    revision = revision or "main"
    try:
        commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    return folder / "snapshots" / commit


def clean_name(text: str) -> str:
    """Strip the quotes around a pasted name or path, or take it out of an address.

    Examples
    --------
    >>> clean_name(" '/my models/one' "), clean_name("file:///my%20models/one")
    ('/my models/one', '/my models/one')
    >>> clean_name("https://huggingface.co/google/bert-tiny/tree/main"), clean_name("https://huggingface.co/gpt2")
    ('google/bert-tiny', 'gpt2')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    if text.startswith("file:/"):
        return unquote(urlsplit(text).path)
    match = _ADDRESS.fullmatch(text)
    return text if match is None else match["id"]


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON file of a model; `EngineError` when it cannot be read, or holds no object."""
    again = "download or save the model again"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EngineError(f"{file} is not readable: {error.strerror}; {again}") from error
    except (ValueError, RecursionError) as error:
        raise EngineError(f"{file} is not readable JSON ({error}); {again}") from error
    if not isinstance(content, dict):
        raise EngineError(f"{file} holds no JSON object; {again}")
    return content


def read_config(directory: Path) -> dict[str, Any]:
    """Read ``config.json``; the settings of its ``text_config``, if there is one, come first.

    Raises `EngineError` when it cannot be read, or is not a JSON object.
    """
    config = read_object(directory / "config.json")
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def settings_of(directory: Path) -> tuple[str, int, int]:
    """Read a model's type and numbers of layers and heads from its ``config.json``; empty or 0 where unknown."""
    try:
        config = read_config(directory)
    except EngineError:
        return "", 0, 0
    heads = 0
    with suppress(EngineError, *MISTYPED):
        heads = head_count(config, Head("decoder", 0))
    return str(config.get("model_type") or ""), layer_count(config, *LAYER_COUNT_KEYS), heads


def weight_file(directory: Path) -> Path | None:
    """Find the file that holds, or lists, a folder's weights."""
    return next((directory / name for name in WEIGHT_FILES if (directory / name).is_file()), None)


def adapter_file(directory: Path) -> Path | None:
    """Find an adapter's weights in a folder, unless the folder holds a whole model."""
    is_of_model = (directory / "config.json").is_file() and weight_file(directory) is not None
    if is_of_model or not (directory / ADAPTER_CONFIG).is_file():
        return None
    return next((directory / name for name in ADAPTER_FILES if (directory / name).is_file()), None)


def promised_tensors(weights: Path) -> dict[str, str]:
    """Return the file of each tensor that an index lists; a single weight file lists none.

    Raises `EngineError` when the index cannot be read.
    """
    if not weights.name.endswith(".index.json"):
        return {}
    found = read_object(weights).get("weight_map")
    if not found or not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise EngineError(f"{weights} is not an index of weight files; download the model again")
    return found


def find_in_cache(name: str, revision: str | None) -> Path | None:
    """Find a complete snapshot of a model in the local Hub cache.

    Raises `EngineError` when the name cannot be that of a Hub model.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # as its reference says

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise EngineError(f"{name!r} is neither a folder nor a Hub id; try: attn-tui {DEMO}") from error
    directory = snapshot_folder(cache_folder(name), revision)
    return None if _missing_part(directory) else directory


def cache_folder(name: str) -> Path:
    """Return the folder of a model in the local Hub cache."""
    return hub_cache() / f"{CACHED}{name.replace('/', '--')}"


def cached_models(revision: str | None = None) -> Iterator[FoundModel]:
    """Iterate over the models of the local Hub cache at a branch, tag or commit (main by default), last used first."""
    found = []
    for folder in hub_cache().glob(f"{CACHED}*"):
        directory = snapshot_folder(folder, revision)
        try:
            stats = {each: each.stat() for each in directory.rglob("*") if each.is_file()}
        except OSError:
            continue
        # Listing models reads their JSON files, which must not count as use.
        times = [stat.st_atime for each, stat in stats.items() if each.suffix != ".json"]
        last_used = max(times or [stat.st_atime for stat in stats.values()], default=0.0)
        found.append((last_used, sum(stat.st_size for stat in stats.values()), folder, directory))
    for _, held, folder, directory in sorted(found, reverse=True):
        model_type, layers, heads = settings_of(directory)
        if not model_type and (directory / ADAPTER_CONFIG).is_file():
            model_type = "adapter"
        missing = _missing_part(directory) if held else f"revision {revision}" if revision else "no files"
        yield FoundModel(cached_id(folder.name), Origin.HUB, held, model_type, layers, heads, missing)


def _missing_part(directory: Path) -> str:
    """Name what a snapshot lacks; empty if it is complete."""
    if adapter_file(directory) is not None:
        return ""
    weights = weight_file(directory)
    if weights is None:
        return "weights"
    if not (directory / "config.json").is_file():
        return "config.json"
    try:
        lacking = sum(not (directory / name).is_file() for name in {*promised_tensors(weights).values()})
    except EngineError:
        return "a readable list of weights"
    return quantity(lacking, "weight file") if lacking else ""


def found_models(revision: str | None, with_recent: bool) -> Iterator[tuple[FoundModel, ...]]:
    """Yield the demo, recent models, and those of the local Hub cache.

    A recent model of the cache comes twice; the later one says which of its files are missing.
    """
    from engine.demo import MODEL_DIRECTORY
    from engine.store.history import recent_models

    size = sum(each.stat().st_size for each in MODEL_DIRECTORY.glob("*.safetensors"))
    recent = recent_models() if with_recent else ()
    demo = FoundModel(DEMO, Origin.DEMO, size, *settings_of(MODEL_DIRECTORY))
    yield (demo, *(each for each in recent if each.name != DEMO))
    models = cached_models(revision)
    while some := tuple(itertools.islice(models, 10)):
        yield some
