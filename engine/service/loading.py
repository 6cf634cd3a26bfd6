"""Imports of torch for what still computes spectra beside the lanes."""

from __future__ import annotations

from collections.abc import Callable

from engine.checkpoints.library_imports import IMPORTING, Importing


def collector_at_rest() -> Importing:
    """Give the context in which libraries are imported."""
    return IMPORTING


class _Torch:
    def wait(self, breathe: Callable[[], None]) -> None:
        """Import torch."""
        with IMPORTING:
            import torch  # noqa: F401


torch_import = _Torch()
