"""Whether what a sentence needs fits into memory; asked before it is tried."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.checkpoints.memory import free_memory
from engine.models.zeros import heads_lie_together
from engine.values.display_text import counted
from engine.values.errors import EngineError
from engine.values.outline import LayerOutline

WEIGHT_BYTES = 4
"""Of one weight of a map: they are float32."""

STATES = 6
"""Tensors as large as a layer's queries held beside its maps: queries, keys, values, and what comes of them."""

BLOCKS = 4_000_000
"""Bytes of scores and weights of a block of queries held beside maps that are made block after block."""

WINDOWS = ("sliding_window", "local_attention")
"""What configurations call how many tokens a layer of a window sees."""

TOGETHER = 64
"""Queries whose weights are written together, from the first key that any of them sees to the last."""


@dataclass(frozen=True)
class Seen:
    """Which keys a mask lets queries see, some queries together; what no query sees is never written.

    Attributes
    ----------
    first, end : (queries,) the first key, and the one after the last, of what is written for each query.
    """

    first: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def around(cls, queries: int, keys: int, window: int | None, *, looks_back: bool) -> Seen:
        """Say what queries see of as many keys as come last before them, or on both sides; None is all of them."""
        begin = np.arange(queries) // TOGETHER * TOGETHER
        before = begin - keys if window is None else begin - window
        after = begin + TOGETHER + (0 if looks_back else keys if window is None else window)
        return cls(np.clip(before, 0, keys), np.clip(after, 0, keys))

    def bytes_of(self, heads: int, keys: int) -> int:
        """Count the bytes of memory that a layer's maps take, which the system gives page by page."""
        together = heads if heads_lie_together(heads, len(self.first), keys) else 1
        size = together * WEIGHT_BYTES
        rows = np.arange(len(self.first)) * keys
        first = (rows + self.first) * size // mmap.PAGESIZE
        last = ((rows + self.end) * size - 1) // mmap.PAGESIZE
        before = np.maximum.accumulate(np.concatenate([[-1], last[:-1]]))  # a page may hold several rows
        pages = int(np.maximum(0, last - np.maximum(first, before + 1) + 1).sum())
        return heads // together * min(pages * mmap.PAGESIZE, len(rows) * keys * size)


def need_room(
    heads: int, queries: int, keys: int, copies: int = 1, *, seen: Seen | None = None, states: int = 0
) -> None:
    """Refuse a sentence whose maps do not fit.

    Parameters
    ----------
    heads, queries, keys : of one layer's maps.
    copies : how many of them are held at a time while they are made.
    seen : which of the keys queries see, where it is known; all of them unless given.
    states : bytes of queries, keys and values beside the maps.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    free = free_memory()
    needed = heads * queries * keys * WEIGHT_BYTES if seen is None else seen.bytes_of(heads, keys)
    if free is not None and copies * needed + states > free:
        while_made = f", {copies} times that while they are made," if copies > 1 else ""
        raise EngineError(
            f"one layer's maps of {counted(max(queries, keys), 'token')} need {(needed + states) / 1e9:.1f} GB"
            f"{while_made} and {free / 1e9:.1f} GB are free; type a shorter sentence; the spectra still work"
        )


def need_room_to_read(layers: Sequence[LayerOutline], config: Any, tokens: int, copies: int, itemsize: int) -> None:
    """Refuse a sentence of which no layer's maps would fit.

    Parameters
    ----------
    layers : those that attend.
    config : of the model; where it has layers of a window, they are the ones that fit first.
    tokens : of the sentence.
    copies : of a layer's maps, that are held while they are made; where it is one, what a mask hides takes no memory.
    itemsize : bytes of a number of queries, keys and values; 0 where they are not in main memory.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    heads = max((layer.heads for layer in layers), default=1)
    width = max((layer.heads * layer.head_dim for layer in layers), default=0)
    looks_back = all(layer.stack == "decoder" for layer in layers)
    seen = Seen.around(tokens, tokens, _window_of(config), looks_back=looks_back) if copies == 1 else None
    blocks = BLOCKS if heads * tokens**2 * WEIGHT_BYTES > BLOCKS else 0
    need_room(heads, tokens, tokens, copies, seen=seen, states=STATES * tokens * width * itemsize + blocks)


def _window_of(config: Any) -> int | None:
    """Say how far a model's queries see in those layers that see least; None where nothing says so.

    A configuration that says it of layers in both directions counts both together; here each counts alone, which is
    more than they see.
    """
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    settings = config.to_dict() if hasattr(config, "to_dict") else vars(config)  # some refuse to be asked for these
    is_on = settings.get("use_sliding_window", True)
    found = [settings.get(name) for name in WINDOWS] if is_on else []
    return min((each for each in found if isinstance(each, int) and each > 0), default=None)
