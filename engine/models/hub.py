"""Models in the local Hub cache, and their download from the Hub."""

from __future__ import annotations

import functools
import logging
import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from engine.models.locate import ADAPTER_CONFIG, ADAPTER_FILES, DEMO, adapter_file
from engine.values.errors import EngineError
from engine.values.progress import Progress

if TYPE_CHECKING:
    Bar = tqdm[Any]
else:
    Bar = tqdm  # at run time it takes no parameter

WEIGHTS = re.compile(r"(model|pytorch_model|adapter_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
"""What weight files and the lists of several are called; other precisions (``model.fp16.safetensors``) are not."""

ANSWER_SECONDS = 8.0
"""How long the Hub may take to say whether it has a model; a name look-up alone can hang for longer."""

STALL_SECONDS = 60.0
"""How long a download may stand still before it is given up; what has come stays in the cache."""

REPORT_SECONDS = 0.1
"""How often a download's progress is told."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model of the local Hub cache: its id, size in bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    last_used: float


def models_directory() -> Path:
    """Say where the local Hub cache is."""
    return Path(constants.HF_HUB_CACHE)


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
        if not isinstance(config, str):
            config = try_to_load_from_cache(name, ADAPTER_CONFIG, revision=revision)
    except HFValidationError as error:
        raise EngineError(f"{name!r} is no folder and cannot be a Hub id; try: attn-tui {DEMO}") from error
    if not isinstance(config, str):
        return None
    directory = Path(config).parent
    weights = weight_file(directory) or adapter_file(directory)
    return None if weights is None or missing_shards(weights) else directory


def from_hub(name: str, revision: str | None, report: Callable[[Progress], None]) -> Path:
    """Download a model's configuration, tokenizer and weights into the local Hub cache.

    Raises
    ------
    EngineError : when the Hub cannot be reached, has no such model, or does not hand it out.
    """
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings would go over the screen
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


class _Background(Generic[Answer]):
    """A call on a daemon thread of its own, because it may hang where no timeout reaches (a name look-up, say)."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Make the call; what it raises is handed to whoever waits."""
        try:
            self._answers.append(self._call())
        except BaseException as error:
            self._failure = error

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the call; say whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def answer(self) -> Answer:
        """Give what an ended call returned, or raise what it raised; any network failure is a ConnectionError."""
        if self._failure is None:
            return self._answers[0]
        # The Hub's client raises its HTTP library's own errors, whose names differ between its versions.
        if type(self._failure).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "requests"):
            raise ConnectionError(str(self._failure)) from self._failure
        raise self._failure


def _within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Make a call that has so many seconds to answer."""
    background = _Background(call)
    if not background.wait(seconds):
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return background.answer()


def _needed(name: str, sizes: dict[str, int]) -> dict[str, int]:
    """Choose the files to fetch: settings, tokenizer, and one form of the weights."""
    top = {file: size for file, size in sizes.items() if "/" not in file}
    small = (".json", ".txt", ".model", ".tiktoken", ".jinja")
    chosen = {file: size for file, size in top.items() if file.endswith(small) and not file.endswith(".index.json")}
    adapter = next((file for file in ADAPTER_FILES if file in top), None)
    if "config.json" not in top and ADAPTER_CONFIG in top and adapter is not None:
        return chosen | {adapter: top[adapter]}
    if "config.json" not in top:
        raise EngineError(f"{name} has no config.json on the Hub; it is not a transformers model")
    for ending in (".safetensors", ".bin"):
        stem = "model" if ending == ".safetensors" else "pytorch_model"
        weights = {
            file: size
            for file, size in top.items()
            if WEIGHTS.fullmatch(file) and file.startswith(f"{stem}") and ending in file
        }
        if weights:
            return chosen | weights
    raise EngineError(f"{name} has neither safetensors nor PyTorch weights on the Hub; attn-tui reads no others")


def _download(name: str, revision: str | None, files: dict[str, int], report: Callable[[Progress], None]) -> Path:
    """Fetch files one after the other, reporting on the calling thread; an earlier try's whole files are kept.

    The download goes on in the background and waits for each report, so that one that raises ends it there and then.
    """
    total = sum(files.values())
    finished = 0
    received = 0
    abandoned = False
    told: queue.Queue[int] = queue.Queue()

    class Counter(Bar):
        """A progress bar that prints nothing and counts the bytes."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"disable": True}))
            self.update(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            """Count what has come, and wait until it has been reported."""
            nonlocal received
            received += int(n or 0)
            told.put(received)
            told.join()
            if abandoned:
                raise EngineError(f"the download of {name} was given up")
            return None

        def update_transfer(self, n: float | None = 1) -> None:
            """Not count what comes over the network once more: what is put together of it is counted."""

        def set_transfer_postfix_str(self, s: str = "", refresh: bool = True) -> None:
            """Show no speed."""

    def tell(count: int) -> None:
        """Report what has come of all files."""
        report(Progress(f"downloading {name}", min(finished + count, total), total, "bytes"))

    tell(0)
    directory = Path()
    # The weights come last: a snapshot counts as complete when it has them.
    for file, size in sorted(files.items(), key=lambda item: (bool(WEIGHTS.fullmatch(item[0])), item[1])):
        received = 0
        background = _Background(functools.partial(hf_hub_download, name, file, revision=revision, tqdm_class=Counter))
        last = time.monotonic()
        while not (background.wait(0) and told.empty()):
            try:
                count = told.get(timeout=REPORT_SECONDS)
            except queue.Empty:
                if time.monotonic() - last > STALL_SECONDS:
                    abandoned = True
                    raise TimeoutError(f"nothing has come for {STALL_SECONDS:.0f} s") from None
                tell(received)
                continue
            last = time.monotonic()
            try:
                tell(count)
            except BaseException:
                abandoned = True
                raise
            finally:
                told.task_done()
        directory = Path(str(background.answer())).parent
        finished += size
    received = 0
    tell(0)
    return directory
