"""The cache of spectra on disk, which shows a model again without importing torch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from engine.store.files import replaced_file
from engine.values.spectra import FloatArray

MATHEMATICS_VERSION = 6
"""Increased whenever a change in the mathematics changes a number, so that older files are no longer read."""

FORMAT_VERSION = 4
"""Increased whenever the format of the files changes."""

SIZE_LIMIT = 512 * 2**20
"""Bytes that the cache may take; the files read longest ago are deleted first."""

TRIM_SHARE = 64
"""A program checks the size of the cache after writing the limit divided by this."""

_OF = "of"
"""The name in a file under which it says of which version, model and layer its arrays are."""


class SpectraCache:
    """Arrays by name, for one model, which is known by its identity.

    A file is complete or absent. A damaged file, or one of another model or layer, counts as absent, so several
    programs may read and write the same files. Partial files of killed programs leave with the oldest. A disk that
    cannot be written to only makes the next run slower, and is reported once.

    Attributes
    ----------
    names : of the arrays on disk when it was opened; callers may remove the ones they load.
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
        self.names = {name for _, _, names in os.walk(self._directory) for name in names}

    def _label(self, name: str, arrays: Mapping[str, FloatArray]) -> str:
        return f"{self._of} {name} {sorted(arrays)}"

    def load(self, name: str) -> dict[str, FloatArray] | None:
        """Read the arrays of a name, or None."""
        file = self._directory / name
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {each: archive[each] for each in archive.files}
            if arrays.pop(_OF).item() != self._label(name, arrays):
                return None
            os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))  # many file systems do not record reads
        except Exception:  # the file may hold anything
            return None
        return arrays

    def save(self, name: str, arrays: Mapping[str, FloatArray]) -> None:
        """Write arrays under a name, and delete the oldest files if the cache becomes too large."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = self._directory / name
            with replaced_file(file) as partial, partial.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **{_OF: np.array(self._label(name, arrays))}, **arrays)
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
    """Delete the files read longest ago until the cache is within its limit; other programs may do so as well."""
    files: list[tuple[float, int, Path]] = []
    for folder, _, names in os.walk(root):  # which skips folders that others delete meanwhile, unlike glob
        for file in (Path(folder, name) for name in names):
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
            file.parent.rmdir()  # if that was the last file
