"""Spectra kept on disk between runs, so that a model seen before is on screen without importing torch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from engine.store.files import remove_abandoned, replaced_file
from engine.values.spectra import FloatArray

MATHEMATICS_VERSION = 6
"""Counted up whenever a change in the mathematics changes a number, so that older files are not read any more."""

FORMAT_VERSION = 4
"""Counted up whenever files are written in another way."""

SIZE_LIMIT = 512 * 2**20
"""Bytes that the cache may take; the files read longest ago go first."""

TRIM_SHARE = 64
"""Part of the limit that a program writes between two looks at what all of them together have written."""

_OF = "of"
"""Under what a file says of which version, model and layer its arrays are."""


class SpectraCache:
    """Arrays by name, for one model whose content is known by an identity.

    A file is complete or absent, and one that is damaged, or was another model's or another layer's, counts as absent,
    so that several programs may read and write the same ones. Parts of files that killed programs left are deleted at
    the start. A disk that cannot be written to only makes the next run slower, and is told of once.

    Attributes
    ----------
    names : under which arrays were kept when it was opened; whoever loads one may take its name out.
    """

    def __init__(
        self, root: Path, identity: str, limit: int = SIZE_LIMIT, notify: Callable[[str], None] = lambda notice: None
    ) -> None:
        key = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._root, self._limit = root, limit
        self._notify, self._has_told = notify, False
        version = f"spectra-{MATHEMATICS_VERSION}.{FORMAT_VERSION}"
        self._of = f"{version} {identity}"
        self._directory = root / version / key
        self._until_trimmed = 0
        for folder in root.glob("spectra-*/*"):
            remove_abandoned(folder)
        self.names = {file.name for file in self._directory.glob("*")}

    def _says_of(self, name: str, arrays: Mapping[str, FloatArray]) -> str:
        return f"{self._of} {name} {sorted(arrays)}"

    def load(self, name: str) -> dict[str, FloatArray] | None:
        """Read the arrays kept under a name, or None."""
        file = self._directory / name
        try:
            if not file.is_file():  # nobody waits for a pipe, or reads a device to its end
                return None
            with np.load(file, allow_pickle=False) as archive:
                arrays = {each: archive[each] for each in archive.files}
            if arrays.pop(_OF).item() != self._says_of(name, arrays):
                return None
            os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))  # many file systems do not note who reads
        except Exception:  # what somebody else has written there may be almost anything
            return None
        return arrays

    def save(self, name: str, arrays: Mapping[str, FloatArray]) -> None:
        """Keep arrays under a name; what makes the cache too large goes, and this too where it alone is too large."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = self._directory / name
            if file.exists() and not file.is_file():
                file.unlink()
            with replaced_file(file) as partial, partial.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **{_OF: np.array(self._says_of(name, arrays))}, **arrays)
                self._until_trimmed -= stream.tell()
        except OSError as error:
            if not self._has_told:
                self._has_told = True
                self._notify(f"cannot cache spectra: {error.strerror or error}; attn-tui info names the folder")
            return
        if self._until_trimmed < 0:
            self._until_trimmed = self._limit // TRIM_SHARE
            trim(self._root, self._limit - self._until_trimmed)


def trim(root: Path, limit: int = SIZE_LIMIT) -> None:
    """Delete the files read longest ago until the cache is within its limit; other programs may do so meanwhile."""
    files: list[tuple[float, int, Path]] = []
    for file in root.glob("spectra-*/*/*"):
        with contextlib.suppress(OSError):
            stat = file.stat()
            files.append((stat.st_atime, stat.st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= limit:
            return
        total -= size
        with contextlib.suppress(OSError):
            file.unlink()
            file.parent.rmdir()  # where that was the last
