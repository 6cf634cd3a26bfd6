"""A model's files, one after the other, from the Hub into the local cache: told of, given up and taken up again."""

from __future__ import annotations

import errno
import functools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from shutil import disk_usage
from typing import TypeVar

from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

from engine.models.background import Background
from engine.models.locate import ADAPTER_FILES
from engine.models.naming import ADAPTER_CONFIG
from engine.models.pace import Pace
from engine.models.transfer import Transfer
from engine.values.errors import EngineError
from engine.values.memory import size
from engine.values.progress import Progress

WEIGHTS = re.compile(r"(model|pytorch_model|adapter_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
"""What weight files and the lists of several are called; other precisions (``model.fp16.safetensors``) are not."""

SMALL = 2**16
"""Bytes up to which a file is fetched as a whole."""

REPORT_SECONDS = 0.1
"""How often a download's progress is told, and looked whether it is still wanted."""

TRIES = 5
"""How often a file is asked for again without anything of it having come in between."""

WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
"""Seconds before each of those tries."""

Answer = TypeVar("Answer")
Report = Callable[[Progress], None]


def attended(background: Background[Answer], attend: Callable[[], None], seconds: float | None = None) -> Answer:
    """Wait for a call, looking after other things meanwhile.

    Raises
    ------
    TimeoutError : when it takes longer than so many seconds.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not background.wait(REPORT_SECONDS):
        attend()
        if end is not None and time.monotonic() > end:
            raise TimeoutError(f"no answer within {seconds:.0f} s")
    return background.answer()


def needed(name: str, sizes: dict[str, int]) -> dict[str, int]:
    """Choose the files to fetch: settings, tokenizer, and one form of the weights.

    Raises
    ------
    EngineError : when there is no model among them that could be read.
    """
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


class Download:
    """One model's download; whole files of an earlier try are kept, and of others what has come.

    Parameters
    ----------
    name, revision : of the model.
    commit : that the revision stands for.
    files : sizes in bytes, by name.
    report : told how far it is, on the calling thread; what it raises ends the download there and then.
    """

    def __init__(self, name: str, revision: str | None, commit: str, files: dict[str, int], report: Report) -> None:
        self._name, self._revision, self._commit, self._report = name, revision, commit, report
        # The weights come last: a snapshot counts as complete when it has them.
        self._files = sorted(files.items(), key=lambda item: (bool(WEIGHTS.fullmatch(item[0])), item[1]))
        self._total = sum(files.values())
        self._finished = self._fetched = 0
        self._pace = Pace()

    def run(self) -> Path:
        """Fetch what is missing; give the folder of the snapshot.

        Raises
        ------
        EngineError : when there is no room for it, or the connection is lost for good.
        ConnectionError, OSError : when the Hub cannot be reached from the beginning, or the disk fails.
        """
        directory = Path()
        missing = [each for each in self._files if not self._is_here(each[0])]
        self._finished = self._total - sum(length for _, length in missing)
        self._check_room(sum(length for _, length in missing))
        self._tell(0)
        for number, (file, length) in enumerate(missing, start=1):
            note = f"file {number} of {len(missing)}" if len(missing) > 1 else ""
            if length > SMALL:
                self._fetch(file, length, note)
            else:
                self._fetched += length
            self._finished += length
            whole = Background(functools.partial(hf_hub_download, self._name, file, revision=self._revision))
            directory = Path(attended(whole, functools.partial(self._tell, 0, note))).parent
        if not missing:
            file = self._files[0][0]
            directory = Path(hf_hub_download(self._name, file, revision=self._revision)).parent
        self._tell(0)
        return directory

    def _is_here(self, file: str) -> bool:
        """Say whether the cache has a file of this commit."""
        return isinstance(try_to_load_from_cache(self._name, file, revision=self._commit), str)

    def _check_room(self, wanted: int) -> None:
        """Refuse what the disk has no room for, before it is full."""
        place = Path(constants.HF_HUB_CACHE)
        existing = next(each for each in (place, *place.parents) if each.exists())
        blobs = place / f"models--{self._name.replace('/', '--')}" / "blobs"
        here = sum(each.stat().st_size for each in blobs.glob("*.incomplete"))
        free = disk_usage(existing).free
        if wanted - here > free:
            raise OSError(errno.ENOSPC, f"{size(wanted - here)} are needed and {size(free)} are free", str(place))

    def _tell(self, received: int, note: str = "", fetched: int = 0) -> None:
        """Report what there is of all files: of the one that is being fetched what is given, part of it just come."""
        done = min(self._finished + received, self._total)
        rate = self._pace.rate(time.monotonic(), self._fetched + fetched)
        self._report(Progress(f"downloading {self._name}", done, self._total, "bytes", rate, note))

    def _fetch(self, file: str, length: int, note: str) -> None:
        """Fetch a file, trying again where the connection breaks."""
        tries, farthest = 0, 0
        while True:
            transfer = Transfer(self._name, self._commit, file, length)

            def attend(transfer: Transfer = transfer, farthest: int = farthest) -> None:
                waits = "waiting for another download of it"
                self._tell(max(transfer.received, farthest), waits if transfer.is_waiting else note, transfer.fetched)

            try:
                attended(Background(transfer.run), attend)
                return
            except (ConnectionError, TimeoutError) as error:
                tries = 0 if transfer.received > farthest else tries + 1
                farthest = max(farthest, transfer.received)
                if tries >= TRIES or (tries and not farthest):
                    raise self._lost(farthest, error) from error
            finally:
                transfer.abandon()
                self._fetched += transfer.fetched
            self._wait(WAITS[tries], farthest, f"connection lost, trying again ({tries + 1} of {TRIES})")

    def _wait(self, seconds: float, received: int, note: str) -> None:
        """Wait, still looking whether the download is wanted."""
        end = time.monotonic() + seconds
        self._tell(received, note)
        while time.monotonic() < end:
            time.sleep(REPORT_SECONDS)
            self._tell(received, note)

    def _lost(self, received: int, error: BaseException) -> BaseException:
        """Say that the connection is lost for good, or that there never was one."""
        done = self._finished + received
        if not done:
            return error
        return EngineError(
            f"the connection was lost after {size(done)} of the {size(self._total)} of {self._name}; "
            "they are kept: open it again to go on from there"
        )


def full(error: OSError) -> bool:
    """Say whether it is the lack of room that an error is about."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def reason(error: OSError) -> str:
    """Give what the system says of an error."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))
