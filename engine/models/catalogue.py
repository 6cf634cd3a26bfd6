"""The models of the local Hub cache: what each is, and what is missing of it. No weights are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import CachedRepoInfo, constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from engine.models.checkpoint import missing_shards, weight_file
from engine.models.configuration import settings_of
from engine.models.locate import adapter_file
from engine.models.naming import ADAPTER_CONFIG
from engine.values.errors import EngineError
from engine.values.found import FoundModel, Origin
from engine.values.memory import size

_FOLDER = "models--"
"""What the cache begins the names of models' folders with; those of data sets begin otherwise."""


def cached_models(revision: str | None = None) -> Iterator[FoundModel]:
    """Go through the models of the local Hub cache, last used first, then what is too damaged to be looked into.

    Parameters
    ----------
    revision : the branch, tag or commit that is to be opened; the main branch unless given.
    """
    try:
        repositories = [each for each in scan_cache_dir(constants.HF_HUB_CACHE).repos if each.repo_type == "model"]
    except (CacheNotFound, OSError, ValueError):
        return
    for repository in sorted(repositories, key=lambda each: -each.last_accessed):
        yield _described(repository, revision)
    known = {each.repo_path.name for each in repositories}
    for folder in sorted(Path(constants.HF_HUB_CACHE).glob(f"{_FOLDER}*")):
        if folder.name not in known and folder.is_dir():
            name = folder.name.removeprefix(_FOLDER).replace("--", "/")
            yield FoundModel(name, Origin.HUB, missing=_begun(folder) or "no files")


def _described(repository: CachedRepoInfo, revision: str | None) -> FoundModel:
    """Say what one repository of the cache holds."""
    wanted = revision or "main"
    found = next((each for each in repository.revisions if wanted in each.refs or each.commit_hash == wanted), None)
    name, last_used = repository.repo_id, repository.last_accessed
    if found is None:
        missing = _begun(repository.repo_path) or f"revision {wanted}"
        return FoundModel(name, Origin.HUB, repository.size_on_disk, last_used, missing=missing)
    directory = found.snapshot_path
    model_type, layers, heads = settings_of(directory)
    if not model_type and (directory / ADAPTER_CONFIG).is_file():
        model_type = "adapter"
    missing = _missing(directory, repository.repo_path)
    return FoundModel(name, Origin.HUB, repository.size_on_disk, last_used, model_type, layers, heads, missing)


def _missing(directory: Path, folder: Path) -> str:
    """Say what a snapshot lacks to be opened; nothing where it is complete."""
    if adapter_file(directory) is not None:
        return ""
    weights = weight_file(directory)
    if weights is None:
        return _begun(folder) or "weights"
    if not (directory / "config.json").is_file():
        return "config.json"
    try:
        lacking = len(missing_shards(weights))
    except EngineError:
        return "a readable list of weights"
    return f"{lacking} weight file{'s' if lacking > 1 else ''}" if lacking else ""


def _begun(folder: Path) -> str:
    """Say how much of a file is there whose download has begun; nothing where there is none."""
    here = sum(each.stat().st_size for each in (folder / "blobs").glob("*.incomplete"))
    return f"weights, {size(here)} begun" if here else ""
