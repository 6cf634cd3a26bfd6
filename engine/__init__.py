"""The engine of attn-tui: models, weights, mathematics and attention; it knows nothing of any screen.

Its layers, from the bottom: ``values``, ``mathematics`` and ``architectures``, ``checkpoints``, ``models``,
``analysis``, ``service``. Imports only go down, and torch is not imported before the first frame.

`open_model`, `open_module` and `survey` are for notebooks and scripts, with `EngineError`, `EngineOptions` and `Query`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.library import open_model, open_module
    from engine.surveys.runner import survey
    from engine.values.errors import EngineError
    from engine.values.options import EngineOptions
    from engine.values.views import Query

__all__ = ["EngineError", "EngineOptions", "Query", "open_model", "open_module", "survey"]

_PLACES = {
    "EngineError": "values.errors",
    "EngineOptions": "values.options",
    "Query": "values.views",
    "open_model": "library",
    "open_module": "library",
    "survey": "surveys.runner",
}


def __getattr__(name: str) -> Any:
    """Import the library on first use; the explorer never needs it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
