"""The engine of attn-tui: models, weights, mathematics and attention; it knows nothing of any screen.

Its layers, from the bottom: ``values``, ``mathematics`` and ``architectures``, ``checkpoints``, ``models``,
``analysis``, ``service``. Imports only go down, and torch is not imported before the first frame.

`open_model` and `open_module` are for notebooks and scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.library import open_model, open_module

__all__ = ["open_model", "open_module"]


def __getattr__(name: str) -> Any:
    """Import the library on first use; the explorer never needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine import library

    return getattr(library, name)
