"""Find the model that a person names: a folder or file, the local Hub cache, the Hub, or the demo in this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from engine.checkpoints.model_folders import (
    ADAPTER_CONFIG,
    ADAPTER_FILES,
    DEMO,
    GGUF,
    SURVEY,
    WEIGHT_FILES,
    adapter_file,
    clean_name,
    find_in_cache,
    weight_file,
)
from engine.checkpoints.source import FolderSource, GgufSource, Location, Source
from engine.demo import MODEL_DIRECTORY
from engine.values.errors import EngineError, Superseded
from engine.values.options import EngineOptions
from engine.values.progress import Progress

BASE = "base"
"""The name of the model that an adapter changes, where a second model is asked for."""


def find_source(name: str, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find a model, downloading it if it is neither on this machine nor in the cache.

    Raises `EngineError` when there is no such model, or its heads cannot be found.
    """
    name = clean_name(name)
    place = _path(name)
    if options.layout is not None:
        from engine.checkpoints.layout import LayoutSource

        if not place.exists():
            raise EngineError(f"there is no {place}; with --layout give a weight file, or a folder of them")
        return LayoutSource(name, place, options.layout)
    if (file := _gguf_file(place)) is not None:
        return GgufSource(name, file)
    location = locate(name, options.revision, report)
    if adapter_file(location.directory) is None:
        return FolderSource(location, options.trust_remote_code)
    from engine.checkpoints.adapter import AdapterSource, read_settings

    base = options.base or read_settings(location.directory).get("base_model_name_or_path")
    if not base:
        raise EngineError(f"{name} is an adapter that names no base model; name one with --base")
    try:
        found = locate(str(base), None, report)
    except Superseded:
        raise
    except EngineError as error:
        raise EngineError(f"{name} is an adapter of {base}: {error}; or give another with --base") from error
    return AdapterSource(location, FolderSource(found, options.trust_remote_code))


def find_other(name: str, source: Source, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find the second model of two; ``base`` is the one that an adapter changes, unless a file here has that name.

    Raises `EngineError` as in `find_source`, and when ``base`` is asked for but the first model is no adapter.
    """
    if options.other == BASE and not Path(BASE).exists():
        if (base := getattr(source, "base", None)) is not None:
            return cast("Source", base)
        raise EngineError(f"{name} is not an adapter and has no base; name the other model by its id or folder")
    return find_source(options.other or name, replace(options, revision=options.other_revision), report)


def locate(
    name: str, revision: str | None = None, report: Callable[[Progress], None] = lambda progress: None
) -> Location:
    """Find a model's folder, downloading it if it is neither on this machine nor in the cache.

    The name is ``demo``, a folder, or a Hub id such as ``gpt2`` or ``FacebookAI/roberta-base``; the revision is a
    branch, tag or commit. ``report`` is called with a download's progress in bytes. Raises `EngineError` when there is
    no such model, or the Hub cannot be reached.
    """
    if not name.strip():
        raise EngineError("the model's name is empty; give a Hub id, a folder, or demo")
    if name == DEMO:
        return _check_model(name, MODEL_DIRECTORY)
    folder = _path(name)
    if folder.is_dir():
        return _check_model(name, folder.resolve())
    if folder.is_file():
        raise EngineError(
            f"{name} is a file; give the folder with its config.json, or describe its heads: --layout FILE.toml"
        )
    if "://" in name:
        raise EngineError(
            f"{name} is not a model's address on the Hub; give an id, such as gpt2 (branch: --revision), or a folder"
        )
    if name.startswith((".", "/", "~", "\\")) or name.count("/") > 1 or name.endswith("/"):
        raise EngineError(f"there is no folder {folder}; check the path, or try: attn-tui {DEMO}")
    directory = find_in_cache(name, revision)
    if directory is None:
        from engine.checkpoints.download import download_model

        directory = download_model(name, revision, report)
    return _check_model(name, directory)


def _check_model(name: str, directory: Path) -> Location:
    has_config, has_weights = (directory / "config.json").is_file(), weight_file(directory) is not None
    if (has_config and has_weights) or adapter_file(directory) is not None:
        return Location(name, directory)
    if not has_config and (directory / ADAPTER_CONFIG).is_file():
        raise EngineError(f"{directory} is an adapter without weights: none of {', '.join(ADAPTER_FILES)}")
    if not has_config and (of_run := list(directory.glob("checkpoint-*"))):
        latest = max(of_run, key=lambda each: (len(each.name), each.name))
        raise EngineError(
            f"{directory} is a training run; give a checkpoint, such as {latest}, or measure all with: "
            f"attn-tui survey {name} -o FOLDER"
        )
    if not has_config and (directory / SURVEY).is_file():
        raise EngineError(f"{directory} is a survey; look at it with: attn-tui {name}, or read its Parquet files")
    if not has_config:
        raise EngineError(f"{directory} has no config.json; give a folder written by save_pretrained, or a Hub id")
    if parts := sorted(directory.glob("*-of-*.safetensors")):
        listing = f"no {WEIGHT_FILES[0]}, which says what is in it"
        raise EngineError(f"{directory} has {parts[0].name} and {listing}; copy that file, too")
    raise EngineError(
        f"{directory} has no weights: none of {', '.join(WEIGHT_FILES)}; save the model with save_pretrained"
    )


def _path(name: str) -> Path:
    """Turn a model's name into a path, which need not exist; refuse one that cannot be read."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except OSError as error:
        raise EngineError(f"{name} cannot be read: {error.strerror}; check the path") from error
    except RuntimeError as error:
        raise EngineError(f"{name} names the home folder of an unknown user; check the path") from error
    return path


def _gguf_file(place: Path) -> Path | None:
    """Find the GGUF file that a path names: itself, or the only one in a folder without ``config.json``."""
    if place.suffix == GGUF and place.is_file():
        return place
    if not place.is_dir() or (place / "config.json").is_file():
        return None
    files = sorted(place.glob(f"*{GGUF}"))
    if len(files) > 1:
        raise EngineError(f"{place} has {len(files)} GGUF files; name one of them, such as {files[0]}")
    return files[0] if files else None
