"""A model's singular values: from the cache on disk where they are there, and else computed and kept there."""

from __future__ import annotations

from collections.abc import Callable

from engine.models.directories import cache_directory
from engine.service.cache import SpectraCache
from engine.service.loading import torch_import
from engine.values.heads import MATRICES
from engine.values.spectra import EPSILONS, NORMS, FloatArray


class KeptSpectra:
    """Arrays of matrices by the name of their file.

    Parameters
    ----------
    identity : what the model's content is known by; None where nothing is kept.
    notify : told in a sentence, once, when the disk cannot be written to.
    """

    def __init__(self, identity: str | None, notify: Callable[[str], None]) -> None:
        self._cache = None if identity is None else SpectraCache(cache_directory(), identity, notify=notify)

    @property
    def is_there(self) -> bool:
        """Whether anything of the model is on disk."""
        return self._cache is not None and self._cache.is_there

    def load(self, file: str, rows: int) -> dict[str, FloatArray]:
        """Take arrays from disk, with so many rows each; none where something else is there."""
        values = None if self._cache is None else self._cache.load(file)
        if (
            values is None
            or values.keys() - {*MATRICES, *NORMS.values(), *EPSILONS.values()}
            or {len(each) for each in values.values()} != {rows}
        ):
            return {}
        return values

    def load_all(self, file: str, rows: int) -> dict[str, FloatArray] | None:
        """Take the arrays of all six matrices from disk, or None where they are not there whole."""
        values = self.load(file, rows)
        return values if values.keys() >= set(MATRICES) else None

    def save(self, file: str, values: dict[str, FloatArray]) -> None:
        """Keep arrays on disk."""
        if self._cache is not None:
            self._cache.save(file, values)

    def get(
        self, file: str, rows: int, compute: Callable[[], dict[str, FloatArray]], breathe: Callable[[], None]
    ) -> dict[str, FloatArray]:
        """Take the arrays of all six matrices from disk, or compute them, with torch, and keep them there.

        Parameters
        ----------
        file : what they are kept under.
        rows : of each array.
        compute : gives them.
        breathe : called while torch is still being imported; it may raise to give up.
        """
        values = self.load_all(file, rows)
        if values is None:
            torch_import.wait(breathe)
            values = compute()
            self.save(file, values)
        return values
