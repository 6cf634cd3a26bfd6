"""Where a model's files are: a folder, the local Hub cache, the Hub, or the demo inside this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.checkpoints.download import find_in_cache, from_hub
from engine.checkpoints.names import ADAPTER_CONFIG, DEMO
from engine.checkpoints.weight_files import ADAPTER_FILES, WEIGHT_FILES, adapter_file, weight_file
from engine.demo import MODEL_DIRECTORY
from engine.values.errors import EngineError
from engine.values.progress import Progress


@dataclass(frozen=True, slots=True)
class Location:
    """Where a model was found.

    Attributes
    ----------
    name : what the person typed.
    directory : the folder with ``config.json`` and the weights.
    identity : what changes when the model's content may have: the Hub's commit, else the folder's path.
    """

    name: str
    directory: Path
    identity: str


def _checked(name: str, directory: Path, identity: str) -> Location:
    """Make sure that a folder holds a model, or an adapter to one."""
    if adapter_file(directory) is not None:
        return Location(name, directory, identity)
    if (directory / ADAPTER_CONFIG).is_file() and not (directory / "config.json").is_file():
        raise EngineError(f"{directory} is an adapter without weights: none of {', '.join(ADAPTER_FILES)}")
    if not (directory / "config.json").is_file():
        raise EngineError(f"{directory} has no config.json; give a folder written by save_pretrained, or a Hub id")
    if weight_file(directory) is None:
        if parts := sorted(directory.glob("*-of-*.safetensors")):
            listing = f"no {WEIGHT_FILES[0]}, which says what is in it"
            raise EngineError(f"{directory} has {parts[0].name} and {listing}; copy that file, too")
        raise EngineError(
            f"{directory} has no weights: none of {', '.join(WEIGHT_FILES)}; save the model with save_pretrained"
        )
    return Location(name, directory, identity)


def _is_path(name: str) -> bool:
    """Say whether a name can only be a path, never a Hub id (``name`` or ``organisation/name``)."""
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1 or name.endswith("/")


def locate(
    name: str, revision: str | None = None, report: Callable[[Progress], None] = lambda progress: None
) -> Location:
    """Find a model's folder, downloading it when it is neither here nor in the cache.

    Parameters
    ----------
    name : ``demo``, a folder, or a Hub id such as ``gpt2`` or ``FacebookAI/roberta-base``.
    revision : a branch, tag or commit of a Hub model.
    report : told of a download's progress in bytes.

    Raises
    ------
    EngineError : when there is no such model, or the Hub cannot be asked.
    """
    if not name.strip():
        raise EngineError("the model's name is empty; give a Hub id, a folder, or demo")
    if name == DEMO:
        return _checked(name, MODEL_DIRECTORY, DEMO)
    folder = Path(name).expanduser()
    try:
        if folder.is_dir():
            return _checked(name, folder.resolve(), str(folder.resolve()))
        if folder.is_file():
            raise EngineError(
                f"{name} is a file; give the folder with its config.json, or describe its heads: --layout FILE.toml"
            )
    except OSError as error:
        raise EngineError(f"{name} cannot be read: {error.strerror}; check the path") from error
    if "://" in name:
        raise EngineError(
            f"{name} is no address of a model on the Hub; give its id, such as gpt2 (a branch: --revision), or a folder"
        )
    if _is_path(name):
        raise EngineError(f"there is no folder {folder}; check the path, or try: attn-tui {DEMO}")

    directory = find_in_cache(name, revision) or from_hub(name, revision, report)
    return _checked(name, directory, directory.name)
