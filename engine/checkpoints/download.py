"""Downloads of models from the Hub by the Hub's own library, in a separate process.

A name look-up can hang where no timeout reaches, so a process ``python -m engine.checkpoints.download NAME [REVISION]``
asks the Hub and writes the files. It writes one JSON object a line to standard output, and ends when its standard input
closes, which happens when the program that started it ends.

========== =============================================================
``asking`` the model's name, before the Hub is asked for it
``files``  how many bytes the model has; ``done`` are here already
``done``   how many of these bytes are here by now
``folder`` the complete snapshot; the last line
``error``  the names of an error's classes, with ``text`` and ``code``; the last line
========== =============================================================
"""

from __future__ import annotations

import errno
import io
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from shutil import disk_usage
from typing import IO, Any

from tqdm import tqdm

from engine.checkpoints.model_folders import ADAPTER_CONFIG, ADAPTER_FILES, DEMO, cache_folder, hub_cache
from engine.checkpoints.tensor_reader import LENGTH_BYTES
from engine.values.display_text import size
from engine.values.errors import EngineError, Unreachable
from engine.values.progress import Progress, Rate

ANSWER_SECONDS = 8.0
"""How long the Hub may take to say whether it has a model."""

LOOK_SECONDS = 0.1
"""How often progress is reported, which also lets a download be cancelled."""

WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
"""Names of weight files and their indices, without other precisions such as ``model.fp16.safetensors``."""

SETTINGS = (".json", ".txt", ".model", ".tiktoken", ".jinja")
"""Endings of the files of settings and tokenizers."""

ATTENTION = "--attention"
"""Stands before a model's name of whose weights only those of its heads are fetched."""

PIECE = 2**25
"""Bytes of the heads' tensors that are asked for at a time."""

Message = dict[str, Any]


def download_model(
    name: str,
    revision: str | None,
    report: Callable[[Progress], None],
    cache: Path | None = None,
    attention_only: bool = False,
) -> Path:
    """Download a model's configuration, tokenizer and weights into the local Hub cache, or into another one.

    ``report`` is called with the progress several times a second; an exception from it ends the download. With
    ``attention_only`` the weights are those of its heads where that can be had, in a folder of the cache that nothing
    else looks for. Raises `EngineError` when the Hub cannot be reached, has no such model, or does not give access to
    it.
    """
    which = [*([ATTENTION] if attention_only else []), name, *([revision] if revision else [])]
    progress, pace, before = Progress(f"asking the Hub for {name}", 0, 0, ""), Rate(), 0
    end = None
    with _worker(which, cache) as messages:
        while True:
            report(progress)
            try:
                message = messages.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if end is not None and time.monotonic() > end:
                    raise download_error(name, revision, {"error": ["TimeoutError"]}) from None
                continue
            if message is None:
                raise EngineError(f"downloading {name} stopped before it was complete; open it again to resume")
            if "error" in message:
                raise download_error(name, revision, message)
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


def branches_of(name: str) -> list[str]:
    """List the branches that a model has on the Hub; raises `EngineError` when the Hub cannot be asked."""
    from huggingface_hub import HfApi

    try:
        return [each.name for each in HfApi().list_repo_refs(name).branches]
    except Exception as error:  # of the network's libraries, too
        raise download_error(name, None, describe_error(error)) from error


@contextmanager
def _worker(arguments: list[str], cache: Path | None) -> Iterator[queue.SimpleQueue[Message | None]]:
    """Run the downloading process until the block ends; its messages arrive in a queue, None after the last."""
    from huggingface_hub import constants

    package = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        "HF_ENDPOINT": constants.ENDPOINT,
        "HF_HUB_CACHE": str(cache or constants.HF_HUB_CACHE),
    }
    command = [sys.executable, "-m", "engine.checkpoints.download", *arguments]
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
        worker.stdin.close()  # which ends it
        threading.Thread(target=worker.wait, daemon=True).start()


def _read(output: IO[bytes], messages: queue.SimpleQueue[Message | None]) -> None:
    with output:
        for line in output:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # output of a library
            if isinstance(message, dict):
                messages.put(message)
    messages.put(None)


def download_error(name: str, revision: str | None, message: Message) -> EngineError:
    """Turn the error of a failed download into a message that says what to do."""
    kinds, text, code = set(message["error"]), message.get("text", ""), message.get("code")
    cache, elsewhere = hub_cache(), f"give a folder, or try: attn-tui {DEMO}"
    if "NotAModel" in kinds:
        return EngineError(f"{name} {text}")
    if "EngineError" in kinds:
        return EngineError(text)
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
        return Unreachable(f"{_not_cached(name)} and the Hub answers {code}; try later, {elsewhere}")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(
            f"there is no room for {name}: {text}; free space in {cache} or set HF_HOME, and open it again"
        )
    is_network = kinds & {"TimeoutError", "ConnectionError", "LocalEntryNotFoundError", "TransportError"}
    if is_network or "OSError" not in kinds:
        return Unreachable(f"{_not_cached(name)} and the Hub cannot be reached; connect, {elsewhere}")
    return EngineError(f"downloading {name} failed: {text}; see to {cache} or set HF_HOME")


def _not_cached(name: str) -> str:
    is_there = any(each.is_file() for each in cache_folder(name).glob("snapshots/*/*"))
    is_not = "is not complete" if is_there else "is not"
    return f"{name} {is_not} in the local cache ({hub_cache()})"


class NotAModel(Exception):
    """The repository holds no model that can be opened; the message says what is missing."""


def write_message(**message: Any) -> None:
    """Write one line to the program that started this process."""
    print(json.dumps(message), flush=True)


def files_to_fetch(files: Iterable[str]) -> list[str]:
    """Choose the files of a repository to fetch: settings, tokenizer, and one format of the weights.

    Raises `NotAModel` when there is no model among them.
    """
    top = [file for file in files if "/" not in file]
    chosen = [file for file in top if file.endswith(SETTINGS) and not file.endswith(".index.json")]
    adapter = next((file for file in ADAPTER_FILES if file in top), None)
    if "config.json" not in top and ADAPTER_CONFIG in top and adapter is not None:
        return [*chosen, adapter]
    if "config.json" not in top:
        raise NotAModel("has no config.json on the Hub; it is not a transformers model")
    for stem, ending in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        if weights := [file for file in top if WEIGHTS.fullmatch(file) and file.startswith(stem) and ending in file]:
            return [*chosen, *weights]
    raise NotAModel("has neither safetensors nor PyTorch weights on the Hub; attn-tui reads no others")


class ByteCount(tqdm):  # type: ignore[misc]  # it has no annotations
    """The library's progress bar for the bytes of all files; it writes JSON lines instead of drawing."""

    here = 0
    is_wanted = True

    def __init__(self, *args: Any, **options: Any) -> None:
        options.pop("name", None)
        self.counts_bytes = options.get("unit") == "B" and options.get("desc") != "Downloading bytes"
        super().__init__(*args, **{**options, "disable": False, "file": io.StringIO()})

    def update(self, n: float | None = 1) -> bool | None:
        """Count some more bytes and report them."""
        super().update(n)
        if not ByteCount.is_wanted:
            raise InterruptedError  # in the thread that writes a file, so that the library removes the partial file
        if self.counts_bytes:
            write_message(done=ByteCount.here + int(self.n))
        return None


def _listing(name: str, revision: str | None) -> tuple[str, dict[str, int]]:
    """Ask the Hub for the commit of a revision, and the sizes of the files to fetch."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(name, revision=revision, files_metadata=True)
    sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
    return str(info.sha), {file: sizes[file] for file in files_to_fetch(sizes)}


def fetch(name: str, revision: str | None) -> Path:
    """Fetch the missing files of a model; complete files of an earlier try are kept."""
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    commit, files = _listing(name, revision)
    here = [file for file in files if isinstance(try_to_load_from_cache(name, file, revision=commit), str)]
    ByteCount.here = sum(files[file] for file in here)
    write_message(files=sum(files.values()), done=ByteCount.here)
    cache, wanted = hub_cache(), sum(files.values()) - ByteCount.here
    free = disk_usage(next(each for each in (cache, *cache.parents) if each.exists())).free
    if wanted > free:
        raise OSError(errno.ENOSPC, f"{size(wanted)} are needed and {size(free)} are free", str(cache))
    # Weights come last: a snapshot that has them counts as complete.
    first = [file for file in files if not WEIGHTS.fullmatch(file) and file not in ADAPTER_FILES]
    snapshot_download(name, revision=commit, allow_patterns=first, tqdm_class=ByteCount)
    ByteCount.here = sum(files[file] for file in {*here, *first})
    return Path(snapshot_download(name, revision=revision, allow_patterns=list(files), tqdm_class=ByteCount))


class RangesIgnoredError(Exception):
    """The Hub, or what stands between, sends whole files to whoever asks for a part."""


def fetch_attention(name: str, revision: str | None) -> Path:
    """Fetch the settings of a model and the weights of its heads; all of it where these cannot be had alone."""
    from huggingface_hub import constants, snapshot_download

    commit, files = _listing(name, revision)
    is_read = {file: WEIGHTS.fullmatch(file) and file.endswith(".safetensors") for file in files}
    if any(is_read.values()):
        folder = Path(constants.HF_HUB_CACHE, "attention", commit)
        others = [file for file in files if not is_read[file]]
        weights = {file: files[file] for file in files if is_read[file]}
        snapshot_download(name, revision=commit, allow_patterns=others, local_dir=folder)
        with suppress(RangesIgnoredError):
            read = partial(_read_range, name, commit)
            if download_attention(name, folder, weights, read, write_message):
                return folder
    return fetch(name, revision)


def download_attention(
    name: str,
    folder: Path,
    sizes: Mapping[str, int],
    read_range: Callable[[str, int, int], bytes],
    report: Callable[..., None],
) -> bool:
    """Write the tensors of a model's heads into a folder that has its settings.

    The headers of safetensors files come first. They say where each tensor lies, and from their names and shapes the
    heads are found as in any other folder. The tensors of the heads go into one new file. The others are not in it, so
    nobody takes a hole in a file for their values.

    Parameters
    ----------
    name : the model's, for errors.
    sizes : of its safetensors files, in bytes.
    read_range : returns a named file's bytes from one number to before another.
    report : told how many bytes are ``done``, of how many in all ``files``.

    Returns False, with nothing written, where the heads' tensors are stored under other names than they are read by.
    Raises `EngineError` when the folder holds no model with heads, and whatever ``read_range`` raises.
    """
    from engine.checkpoints.source import FolderSource, Location

    headers: dict[str, bytes] = {}
    for file, whole in sizes.items():
        length = LENGTH_BYTES + int.from_bytes(read_range(file, 0, LENGTH_BYTES), "little")
        headers[file] = read_range(file, 0, min(length, whole))
        with (folder / file).open("wb") as stream:
            stream.write(headers[file])
            stream.truncate(whole)  # takes no room, and lets the model be opened
    report(files=0, done=0)
    modules = FolderSource(Location(name, folder)).anatomy.modules.values()
    for file in (*sizes, *(each.name for each in folder.glob("*.safetensors.index.json"))):
        (folder / file).unlink()

    def owner(tensor: str) -> str:  # beside a projection's weight stand its bias and, if it is quantised, its scales
        return tensor.rpartition(".")[0]

    projections = {owner(tensor) for module in modules for tensor in module.tensor_names}
    places: list[tuple[str, int, int]] = []
    described: dict[str, Any] = {}
    total = 0
    for file, header in headers.items():
        entries = json.loads(header[LENGTH_BYTES:])
        entries.pop("__metadata__", None)
        for tensor, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            if owner(tensor) in projections:
                begin, end = (len(header) + offset for offset in entry["data_offsets"])
                described[tensor] = {**entry, "data_offsets": [total, total + end - begin]}
                total += end - begin
                if places and places[-1][0] == file and places[-1][2] == begin:
                    begin = places.pop()[1]
                places.append((file, begin, end))
    if {owner(tensor) for tensor in described} != projections:
        return False
    text = json.dumps(described).encode()
    here = 0
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        for file, begin, end in places:
            for first in range(begin, end, PIECE):
                here += stream.write(read_range(file, first, min(first + PIECE, end)))
                report(files=total, done=here)
    return True


def _read_range(name: str, commit: str, file: str, begin: int, end: int) -> bytes:
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, though not declared as exported
        build_hf_headers,
        hf_raise_for_status,
        http_stream_backoff,
    )

    headers = {**build_hf_headers(), "Range": f"bytes={begin}-{end - 1}"}
    url, limit = hf_hub_url(name, file, revision=commit), constants.HF_HUB_DOWNLOAD_TIMEOUT
    with http_stream_backoff("GET", url, headers=headers, timeout=limit, follow_redirects=True) as answer:
        hf_raise_for_status(answer)
        if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
            raise RangesIgnoredError
        return bytes(answer.read())


def _end_with_input() -> None:
    """End the process when its standard input closes, after a moment for the library to remove partial files."""
    sys.stdin.buffer.read()
    ByteCount.is_wanted = False
    time.sleep(1)
    os._exit(1)


def main() -> None:
    """Download the model that the arguments name."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    arguments = sys.argv[1:]
    fetch_files = fetch
    if arguments[0] == ATTENTION:
        fetch_files = fetch_attention
        arguments.pop(0)
    name, revision = arguments[0], arguments[1] if len(arguments) > 1 else None
    import huggingface_hub  # noqa: F401  # before the Hub's time begins: a busy machine takes seconds to import it

    write_message(asking=name)
    try:
        write_message(folder=str(fetch_files(name, revision)))
    except Exception as error:  # the waiting program knows what to say
        write_message(**describe_error(error))


def describe_error(error: Exception) -> dict[str, Any]:
    """Describe an error: the names of its classes, its text, and the status or number it carries."""
    code = getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "errno", None)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"error": kinds, "text": str(getattr(error, "strerror", None) or error), "code": code}


if __name__ == "__main__":
    main()
