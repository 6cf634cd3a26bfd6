"""Models of the Hub: their place in the local cache, and their download, done by the Hub's own library in a process."""

from __future__ import annotations

import errno
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from engine.checkpoints.model_folders import DEMO, cache_folder, hub_cache
from engine.values.errors import EngineError
from engine.values.memory import size
from engine.values.progress import Progress, Rate

ANSWER_SECONDS = 8.0
"""How long the Hub may take to say whether it has a model."""

LOOK_SECONDS = 0.1
"""How often progress is told, so that a download that is not wanted any more ends."""

Message = dict[str, Any]


def download_model(name: str, revision: str | None, report: Callable[[Progress], None]) -> Path:
    """Download a model's configuration, tokenizer and weights into the local Hub cache.

    ``report`` is told of the bytes that are here, several times a second; what it raises ends the download. Raises
    `EngineError` when the Hub cannot be reached, has no such model, or does not hand it out.
    """
    progress, pace, before = Progress(f"asking the Hub for {name}", 0, 0, ""), Rate(), 0
    end = None
    with _worker(name, revision) as messages:
        while True:
            report(progress)
            try:
                message = messages.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if end is not None and time.monotonic() > end:
                    raise refusal(name, revision, {"error": ["TimeoutError"]}) from None
                continue
            if message is None:
                raise EngineError(f"downloading {name} ended before it was complete; open it again to go on")
            if "error" in message:
                raise refusal(name, revision, message)
            if "folder" in message:
                return Path(message["folder"])
            if "asking" in message:
                end = time.monotonic() + ANSWER_SECONDS
                continue
            end = None
            total, done = message.get("files", progress.total), message["done"]
            before = done if "files" in message else before
            done = max(progress.done, min(done, total))
            rate = pace.rate(time.monotonic(), done - before)
            progress = Progress(f"downloading {name}", done, total, "bytes", rate)


@contextmanager
def _worker(name: str, revision: str | None) -> Iterator[queue.SimpleQueue[Message | None]]:
    """Run the process that downloads until the block ends; its messages arrive in a queue, None after the last."""
    from huggingface_hub import constants

    package = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        "HF_ENDPOINT": constants.ENDPOINT,
        "HF_HUB_CACHE": constants.HF_HUB_CACHE,
    }
    command = [sys.executable, "-m", "engine.checkpoints.download_worker", name, *([revision] if revision else [])]
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    assert worker.stdin is not None
    assert worker.stdout is not None
    threading.Thread(target=_read, args=(worker.stdout, messages), daemon=True).start()
    try:
        yield messages
    finally:
        worker.stdin.close()  # at which it ends
        threading.Thread(target=worker.wait, daemon=True).start()


def _read(output: IO[bytes], messages: queue.SimpleQueue[Message | None]) -> None:
    with output:
        for line in output:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a library's own words
            if isinstance(message, dict):
                messages.put(message)
    messages.put(None)


def refusal(name: str, revision: str | None, message: Message) -> EngineError:
    """Say why a model did not come, and what to do."""
    kinds, text, code = set(message["error"]), message.get("text", ""), message.get("code")
    cache, elsewhere = hub_cache(), f"give a folder, or try: attn-tui {DEMO}"
    if "NotAModel" in kinds:
        return EngineError(f"{name} {text}")
    if "GatedRepoError" in kinds:
        return EngineError(f"{name} is gated: accept its terms on its page, then log in with: hf auth login")
    if "RevisionNotFoundError" in kinds:
        return EngineError(f"{name} has no revision '{revision}'; check its branches and tags")
    if "RepositoryNotFoundError" in kinds:
        private = "if it is private: hf auth login"
        return EngineError(f"the Hub has no model '{name}' ({private}); check the id, {elsewhere}")
    if "OfflineModeIsEnabled" in kinds:
        return EngineError(f"{_not_cached(name)} and HF_HUB_OFFLINE is set; unset it, {elsewhere}")
    if "HfHubHTTPError" in kinds:
        return EngineError(f"{_not_cached(name)} and the Hub answers {code}; try later, {elsewhere}")
    if code in (errno.ENOSPC, errno.EDQUOT):
        numbers = [int(number) for number in text.split() if number.isdigit()]
        why = f"{size(numbers[0])} are needed and {size(numbers[1])} are free" if len(numbers) == 2 else text
        return EngineError(
            f"there is no room for {name}: {why}; free space in {cache} or set HF_HOME, and open it again"
        )
    is_network = kinds & {"TimeoutError", "ConnectionError", "LocalEntryNotFoundError", "TransportError"}
    if is_network or "OSError" not in kinds:
        return EngineError(f"{_not_cached(name)} and the Hub cannot be reached; connect, {elsewhere}")
    return EngineError(f"downloading {name} failed: {text}; see to {cache} or set HF_HOME")


def _not_cached(name: str) -> str:
    """Begin the sentence that names the cache: of a model that may be there in part, which is not the same."""
    is_there = any(each.is_file() for each in cache_folder(name).glob("snapshots/*/*"))
    is_not = "is not complete" if is_there else "is not"
    return f"{name} {is_not} in the local cache ({hub_cache()})"
