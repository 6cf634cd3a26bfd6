"""An open model, its spectra, and one module per view. Imports models and what is below; service and library use it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.analysis import attention, open_model, patterns, tables, weights

__all__ = ["attention", "open_model", "patterns", "tables", "weights"]


def __getattr__(name: str) -> Any:
    """Import a module when a request first needs it, as most modules import torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
