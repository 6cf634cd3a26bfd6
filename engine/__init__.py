"""The engine of attn-tui: models, weights, mathematics and attention, with no knowledge of any screen.

Its floors, from the ground up: ``values``, ``mathematics`` and ``architectures``, ``checkpoints``, ``models``,
``analysis``, ``service``; imports only go down. Nothing on the way to the first frame imports torch.

`open_model` and `open_module` are for notebooks and scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.library import open_model, open_module

__all__ = ["open_model", "open_module"]


def __getattr__(name: str) -> Any:
    """Import the library when it is asked for: the explorer does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine import library

    return getattr(library, name)
