"""Models in the local Hub cache, and their download from the Hub."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # which it lists nowhere

from engine.models.background import Background
from engine.models.download import Download, attended, full, needed, reason
from engine.models.locate import DEMO, adapter_file
from engine.models.naming import ADAPTER_CONFIG, CACHED
from engine.models.weight_files import missing_shards, weight_file
from engine.values.errors import EngineError
from engine.values.progress import Progress

ANSWER_SECONDS = 8.0
"""How long the Hub may take to say whether it has a model; a name look-up alone can hang for longer."""


def models_directory() -> Path:
    """Say where the local Hub cache is."""
    return Path(constants.HF_HUB_CACHE)


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
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings would go over the screen,
    disable_progress_bars()  # and so would its bars
    elsewhere = f"give a folder, or try: attn-tui {DEMO}"

    def attend() -> None:
        report(Progress(f"asking the Hub for {name}", 0, 0, ""))

    try:
        asked = Background(lambda: HfApi().model_info(name, revision=revision, files_metadata=True))
        info = attended(asked, attend, ANSWER_SECONDS)
        sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
        return Download(name, revision, info.sha or revision or "main", needed(name, sizes), report).run()
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
        if full(error):
            todo = f"free space in {constants.HF_HUB_CACHE} or set HF_HOME, and open it again"
            raise EngineError(f"there is no room for {name}: {reason(error)}; {todo}") from error
        raise EngineError(
            f"downloading {name} failed: {reason(error)}; see to {constants.HF_HUB_CACHE} or set HF_HOME"
        ) from error


def _not_cached(name: str) -> str:
    """Begin the sentence that names the cache: of a model that may be there in part, which is not the same."""
    folder = models_directory() / f"{CACHED}{name.replace('/', '--')}"
    has_some = any(each.is_file() for each in folder.glob("snapshots/*/*")) or any(folder.glob("blobs/*"))
    is_not = "is not complete" if has_some else "is not"
    return f"{name} {is_not} in the local cache ({constants.HF_HUB_CACHE})"
