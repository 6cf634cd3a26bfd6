"""The engine of attn-tui: models, weights, mathematics and attention; it knows nothing of any screen.

Its layers, from the bottom: ``values``, ``mathematics`` and ``architectures``, ``checkpoints``, ``models``,
``analysis``, ``service``. Imports only go down, and torch is not imported before the first frame.

`open_model`, `open_module` and `survey` are for notebooks and scripts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.library import open_model, open_module
    from engine.surveys.runner import survey

__all__ = ["open_model", "open_module", "survey"]


def __getattr__(name: str) -> Any:
    """Import the library on first use; the explorer never needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module("engine.surveys.runner" if name == "survey" else "engine.library")
    return getattr(module, name)
