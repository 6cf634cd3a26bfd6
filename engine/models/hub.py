"""Models in the local Hub cache, and their download from the Hub."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import HfApi, constants, hf_hub_download, scan_cache_dir, try_to_load_from_cache
from huggingface_hub.errors import (
    CacheNotFound,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from tqdm.auto import tqdm

from engine.models.checkpoint import missing_shards, weight_file
from engine.models.locate import DEMO
from engine.values.errors import EngineError
from engine.values.progress import Progress

ANSWER_SECONDS = 8.0
"""How long the Hub may take to say whether it has a model; a name look-up alone can hang for longer."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model of the local Hub cache: its id, size in bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    last_used: float


def cached_models() -> tuple[CachedModel, ...]:
    """List the models of the local Hub cache that have a configuration and weights, last used first."""
    try:
        repositories = scan_cache_dir().repos
    except (CacheNotFound, OSError):
        return ()
    found = [
        CachedModel(each.repo_id, each.size_on_disk, each.last_accessed)
        for each in repositories
        if each.repo_type == "model" and find_in_cache(each.repo_id, None) is not None
    ]
    return tuple(sorted(found, key=lambda model: -model.last_used))


def find_in_cache(name: str, revision: str | None) -> Path | None:
    """Find a complete snapshot of a model in the local Hub cache.

    Raises
    ------
    EngineError : when the name cannot be that of a Hub model.
    """
    try:
        config = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError as error:
        raise EngineError(f"'{name}' is no folder and cannot be a Hub id; try: attn-tui {DEMO}") from error
    if not isinstance(config, str):
        return None
    directory = Path(config).parent
    weights = weight_file(directory)
    return None if weights is None or missing_shards(weights) else directory


def from_hub(name: str, revision: str | None, report: Callable[[Progress], None]) -> Path:
    """Download a model's configuration, tokenizer and weights into the local Hub cache.

    Raises
    ------
    EngineError : when the Hub cannot be reached, has no such model, or does not hand it out.
    """
    elsewhere = f"give a folder, or try: attn-tui {DEMO}"
    try:
        info = _within(ANSWER_SECONDS, lambda: HfApi().model_info(name, revision=revision, files_metadata=True))
        sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
        return _download(name, revision, _needed(name, sizes), report)
    except GatedRepoError as error:
        raise EngineError(f"{name} is gated: accept its terms on its page, then log in with: hf auth login") from error
    except RepositoryNotFoundError as error:
        raise EngineError(
            f"the Hub has no model '{name}' (if it is private: hf auth login); check the id, {elsewhere}"
        ) from error
    except RevisionNotFoundError as error:
        raise EngineError(f"{name} has no revision '{revision}'; check its branches and tags") from error
    except OfflineModeIsEnabled as error:
        raise EngineError(f"{_not_cached(name)} and HF_HUB_OFFLINE is set; unset it, {elsewhere}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise EngineError(f"{_not_cached(name)} and the Hub answers {status}; try later, {elsewhere}") from error
    except (LocalEntryNotFoundError, ConnectionError, TimeoutError) as error:
        raise EngineError(f"{_not_cached(name)} and the Hub cannot be reached; connect, {elsewhere}") from error
    except OSError as error:
        raise EngineError(
            f"downloading {name} failed: {error}; free space in {constants.HF_HUB_CACHE} or set HF_HOME"
        ) from error


def _not_cached(name: str) -> str:
    """Begin the sentence that names the cache."""
    return f"{name} is not in the local cache ({constants.HF_HUB_CACHE})"


def _within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Run a call that may hang in name look-up, where no timeout reaches; any network failure is a ConnectionError."""
    outcome: list[Answer] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # handed to the caller below, whatever it is
            failure.append(error)

    thread = threading.Thread(target=run, name="hub-look-up", daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome:
        return outcome[0]
    if not failure:
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    error = failure[0]
    # The Hub's client raises its HTTP library's own errors, whose names differ between its versions.
    if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "requests"):
        raise ConnectionError(str(error)) from error
    raise error


def _needed(name: str, sizes: dict[str, int]) -> dict[str, int]:
    """Choose the files to fetch: settings, tokenizer, and one form of the weights."""
    top = {file: size for file, size in sizes.items() if "/" not in file}
    if "config.json" not in top:
        raise EngineError(f"{name} has no config.json on the Hub; it is not a transformers model")
    small = (".json", ".txt", ".model", ".tiktoken", ".jinja")
    chosen = {file: size for file, size in top.items() if file.endswith(small) and not file.endswith(".index.json")}
    for ending in (".safetensors", ".bin"):
        stem = "model" if ending == ".safetensors" else "pytorch_model"
        weights = {
            file: size
            for file, size in top.items()
            if file.startswith(stem) and file.endswith((ending, f"{ending}.index.json"))
        }
        if weights:
            return chosen | weights
    raise EngineError(f"{name} has neither safetensors nor PyTorch weights on the Hub; attn-tui reads no others")


def _download(name: str, revision: str | None, files: dict[str, int], report: Callable[[Progress], None]) -> Path:
    """Fetch files one after the other, counting their bytes; what an earlier try left is taken up again."""
    total = sum(files.values())
    finished = 0
    received = 0

    class Counter(tqdm[Any]):
        """A progress bar that prints nothing and tells the byte count onwards."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"disable": True}))
            self.update(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            """Count what has come."""
            nonlocal received
            received += int(n or 0)
            report(Progress(f"downloading {name}", min(finished + received, total), total, "bytes"))
            return None

    directory = Path()
    report(Progress(f"downloading {name}", 0, total, "bytes"))
    for file, size in sorted(files.items(), key=lambda item: item[1]):
        received = 0
        directory = Path(hf_hub_download(name, file, revision=revision, tqdm_class=Counter)).parent
        finished += size
    report(Progress(f"downloading {name}", total, total, "bytes"))
    return directory
