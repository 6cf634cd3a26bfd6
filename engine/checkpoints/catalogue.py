"""The models of the local Hub cache: what each is, and what is missing of it. No weights are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import CachedRepoInfo, constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from engine.checkpoints.json_files import settings_of
from engine.checkpoints.names import ADAPTER_CONFIG, CACHED
from engine.checkpoints.weight_files import adapter_file, missing_shards, weight_file
from engine.values.errors import EngineError
from engine.values.found_models import FoundModel, Origin


def cached_models(revision: str | None = None) -> Iterator[FoundModel]:
    """Go through the models of the local Hub cache, last used first, then those with something damaged.

    Parameters
    ----------
    revision : the branch, tag or commit that is to be opened; the main branch unless given.
    """
    try:
        repositories = [each for each in scan_cache_dir(constants.HF_HUB_CACHE).repos if each.repo_type == "model"]
    except (CacheNotFound, OSError, ValueError):
        return
    for repository in sorted(repositories, key=lambda each: -_last_used(each)):
        yield _described(repository, revision)
    known = {each.repo_path.name for each in repositories}
    for folder in sorted(Path(constants.HF_HUB_CACHE).glob(f"{CACHED}*")):
        if folder.name not in known and folder.is_dir():
            yield _damaged(folder, revision)


def _described(repository: CachedRepoInfo, revision: str | None) -> FoundModel:
    """Say what one repository of the cache holds."""
    wanted = revision or "main"
    found = next((each for each in repository.revisions if wanted in each.refs or each.commit_hash == wanted), None)
    name, last_used = repository.repo_id, _last_used(repository)
    if found is None:
        missing = f"revision {wanted}"
        return FoundModel(name, Origin.HUB, repository.size_on_disk, last_used, missing=missing)
    return _of_snapshot(name, found.snapshot_path, repository.repo_path, repository.size_on_disk, last_used)


def _damaged(folder: Path, revision: str | None) -> FoundModel:
    """Say what a repository holds that the Hub's own list passes over, as where a link leads to no file any more."""
    name = folder.name.removeprefix(CACHED).replace("--", "/")
    wanted = revision or "main"
    try:
        commit = (folder / "refs" / wanted).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = wanted
    directory = folder / "snapshots" / commit
    here = [each.stat() for each in directory.rglob("*") if each.is_file()] if commit else []
    if not here:
        return FoundModel(name, Origin.HUB, missing="no files")
    held, last_used = sum(each.st_size for each in here), max(each.st_atime for each in here)
    return _of_snapshot(name, directory, folder, held, last_used)


def _last_used(repository: CachedRepoInfo) -> float:
    """Say when files were read last that say more than what the model is, which is read for the list itself."""
    files = [file for revision in repository.revisions for file in revision.files]
    read = [file.blob_last_accessed for file in files if not file.file_name.endswith(".json")]
    return max(read, default=repository.last_accessed)


def _of_snapshot(name: str, directory: Path, folder: Path, held: int, last_used: float) -> FoundModel:
    """Say what a snapshot in a repository's folder is of, and what it lacks."""
    model_type, layers, heads = settings_of(directory)
    if not model_type and (directory / ADAPTER_CONFIG).is_file():
        model_type = "adapter"
    return FoundModel(name, Origin.HUB, held, last_used, model_type, layers, heads, _missing(directory))


def _missing(directory: Path) -> str:
    """Say what a snapshot lacks to be opened; nothing where it is complete."""
    if adapter_file(directory) is not None:
        return ""
    weights = weight_file(directory)
    if weights is None:
        return "weights"
    if not (directory / "config.json").is_file():
        return "config.json"
    try:
        lacking = len(missing_shards(weights))
    except EngineError:
        return "a readable list of weights"
    return f"{lacking} weight file{'s' if lacking > 1 else ''}" if lacking else ""
