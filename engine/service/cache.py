"""Spectra kept on disk between runs, so that a model seen before is on screen without importing torch."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from engine.service.files import replaced_file
from engine.values.spectra import FloatArray

MATHEMATICS_VERSION = 3
"""Counted up whenever a change in the mathematics changes a number, so that older files are not read any more."""

SIZE_LIMIT = 512 * 2**20
"""Bytes that the cache may take; the models used longest ago go first."""


class SpectraCache:
    """Arrays by name, for one model whose content is known by an identity.

    A file that is damaged counts as absent; a disk that cannot be written to only makes the next run slower.
    """

    def __init__(self, root: Path, identity: str) -> None:
        key = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._directory = root / f"spectra-{MATHEMATICS_VERSION}" / key
        if self._directory.is_dir():
            os.utime(self._directory)

    def load(self, name: str) -> dict[str, FloatArray] | None:
        """Read the arrays kept under a name, or None."""
        try:
            with np.load(self._directory / f"{name}.npz", allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except Exception:  # a damaged archive raises almost anything
            return None

    def save(self, name: str, arrays: Mapping[str, FloatArray]) -> None:
        """Keep arrays under a name."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with replaced_file(self._directory / f"{name}.npz") as partial, partial.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub takes a keyword for allow_pickle
        except OSError:
            return


def trim(root: Path, limit: int = SIZE_LIMIT) -> None:
    """Delete the models used longest ago until the cache is within its limit."""
    with contextlib.suppress(OSError):  # another program may be deleting the same files
        folders = [folder for folder in root.glob("spectra-*/*") if folder.is_dir()]
        total = 0
        for folder in sorted(folders, key=lambda folder: -folder.stat().st_mtime):
            files = [file for file in folder.iterdir() if file.is_file()]
            total += sum(file.stat().st_size for file in files)
            if total > limit:
                for file in files:
                    file.unlink(missing_ok=True)
