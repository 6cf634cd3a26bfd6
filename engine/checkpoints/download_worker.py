"""The process that downloads a model: ``python -m engine.checkpoints.download_worker NAME [REVISION]``.

It is a process of its own, because a name look-up can hang where no timeout reaches. It writes one JSON object a line
to standard output, and ends when its standard input closes, as it does when the program that started it ends.

========== =============================================================
``files``  how many bytes the model has, and how many are here already
``done``   how many of these bytes are here by now
``folder`` the snapshot, once it is complete; the last line
``error``  why there is none: ``kind`` (a class), ``text``, ``code``; the last line
========== =============================================================
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from shutil import disk_usage
from typing import Any

from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache
from tqdm import tqdm

from engine.checkpoints.model_folders import ADAPTER_FILES

WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
"""What weight files and the lists of several are called; other precisions (``model.fp16.safetensors``) are not."""

SETTINGS = (".json", ".txt", ".model", ".tiktoken", ".jinja")
"""How the files of settings and tokenizers end."""


class NotAModel(Exception):
    """The repository holds nothing that can be opened; the message says what is missing."""


def write(**message: Any) -> None:
    """Write one line."""
    print(json.dumps(message), flush=True)


def needed(sizes: dict[str, int]) -> dict[str, int]:
    """Choose the files to fetch of a repository by their bytes: settings, tokenizer, and one form of the weights.

    Raises `NotAModel` when there is no model among them.
    """
    top = {file: size for file, size in sizes.items() if "/" not in file}
    chosen = {file: size for file, size in top.items() if file.endswith(SETTINGS) and not file.endswith(".index.json")}
    adapter = next((file for file in ADAPTER_FILES if file in top), None)
    if "config.json" not in top and "adapter_config.json" in top and adapter is not None:
        return chosen | {adapter: top[adapter]}
    if "config.json" not in top:
        raise NotAModel("has no config.json on the Hub; it is not a transformers model")
    weights = {file: size for file, size in top.items() if WEIGHTS.fullmatch(file)}
    for stem, ending in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        if of_form := {file: size for file, size in weights.items() if file.startswith(stem) and ending in file}:
            return chosen | of_form
    raise NotAModel("has neither safetensors nor PyTorch weights on the Hub; attn-tui reads no others")


def _check_room(wanted: int) -> None:
    """Refuse with both numbers what the disk has no room for, before it is full."""
    cache = Path(constants.HF_HUB_CACHE)
    existing = next(each for each in (cache, *cache.parents) if each.exists())
    free = disk_usage(existing).free
    if wanted > free:
        raise OSError(errno.ENOSPC, f"{wanted} {free}", str(cache))


class ByteCount(tqdm):  # type: ignore[misc]  # it has no annotations
    """The library's progress bar for the bytes of all files; it writes lines and draws nothing."""

    here = 0
    is_wanted = True

    def __init__(self, *args: Any, **options: Any) -> None:
        options.pop("name", None)
        self.counts_bytes = options.get("unit") == "B" and options.get("desc") != "Downloading bytes"
        super().__init__(*args, **{**options, "disable": False, "file": io.StringIO()})

    def update(self, n: float | None = 1) -> bool | None:
        """Count some more, and say so."""
        super().update(n)
        if not ByteCount.is_wanted:
            raise InterruptedError  # in the thread that writes a file: the library then removes what there is of it
        if self.counts_bytes:
            write(done=ByteCount.here + int(self.n))
        return None


def download(name: str, revision: str | None) -> Path:
    """Fetch what is missing of a model; whole files of an earlier try stay as they are."""
    info = HfApi().model_info(name, revision=revision, files_metadata=True)
    files = needed({each.rfilename: each.size or 0 for each in info.siblings or ()})
    here = [file for file in files if isinstance(try_to_load_from_cache(name, file, revision=info.sha), str)]
    ByteCount.here = sum(files[file] for file in here)
    write(files=sum(files.values()), done=ByteCount.here)
    _check_room(sum(files.values()) - ByteCount.here)
    # Weights come last: a snapshot that has them counts as complete.
    first = [file for file in files if not WEIGHTS.fullmatch(file) and file not in ADAPTER_FILES]
    snapshot_download(name, revision=info.sha, allow_patterns=first, tqdm_class=ByteCount)
    ByteCount.here = sum(files[file] for file in {*here, *first})
    return Path(snapshot_download(name, revision=revision, allow_patterns=list(files), tqdm_class=ByteCount))


def _end_with_input() -> None:
    """End the process when its standard input closes, a moment after the library could remove what is not whole."""
    sys.stdin.buffer.read()
    ByteCount.is_wanted = False
    time.sleep(1)
    os._exit(1)


def main() -> None:
    """Download the model that the arguments name."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    name, revision = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    write(asking=name)
    try:
        write(folder=str(download(name, revision)))
    except Exception as error:  # every one is told to whoever waits, who knows what to say
        write(**failure(error))


def failure(error: Exception) -> dict[str, Any]:
    """Describe an error: the names of its classes, its text, and the status or number it carries."""
    code = getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "errno", None)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"error": kinds, "text": str(getattr(error, "strerror", None) or error), "code": code}


if __name__ == "__main__":
    main()
