"""Whether what a sentence needs fits into memory; asked before it is tried."""

from __future__ import annotations

from engine.models.memory import free_memory
from engine.values.errors import EngineError
from engine.values.plural import counted

WEIGHT_BYTES = 4
"""Of one weight of a map: they are float32."""


def need_room(heads: int, queries: int, keys: int, copies: int = 1) -> None:
    """Refuse a sentence whose maps do not fit.

    Parameters
    ----------
    heads, queries, keys : of one layer's maps.
    copies : how many of them are held at a time while they are made.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    needed, free = heads * queries * keys * WEIGHT_BYTES, free_memory()
    if free is not None and copies * needed > free:
        while_made = f", {copies} times that while they are made," if copies > 1 else ""
        raise EngineError(
            f"one layer's maps of {counted(max(queries, keys), 'token')} need {needed / 1e9:.1f} GB{while_made} and "
            f"{free / 1e9:.1f} GB are free; type a shorter sentence; the spectra still work"
        )
