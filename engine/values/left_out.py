"""Layers that have no rows, for what their weights hold or since nothing runs them: in words, and in few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.values.errors import EngineError
from engine.values.heads import Head

NAMED = 3
"""Layers that are named in few words where more are left out."""

UNREAD = "it takes no part in reading this sentence"
"""Why a layer is left out that the model does not run."""

LeftOut = Mapping[Head, str]
"""By layer, which of its tensors hold NaN, infinite or far too large numbers, or that it is not run."""


def reasons(left_out: LeftOut) -> Iterator[str]:
    """Say of each layer that it is left out, and why.

    Examples
    --------
    >>> list(reasons({Head("decoder", 2): "w holds 1 NaN or infinite numbers of 16"}))
    ['decoder L2 is left out: w holds 1 NaN or infinite numbers of 16']
    """
    return (f"{layer.stack} {layer} is left out: {what}" for layer, what in left_out.items())


def without(left_out: LeftOut) -> str:
    """Name the layers in a title; nothing where all are there.

    Examples
    --------
    >>> without({Head("decoder", 2): "w holds 1 NaN or infinite numbers of 16"}), without({})
    ('without L2 (NaN or infinite)', '')
    >>> without({Head("decoder", number): "w holds numbers up to 1e+100, of which …" for number in range(5)})
    'without L0, L1, L2 and 2 more (beyond float64)'
    """
    if not left_out:
        return ""
    several = len({layer.stack for layer in left_out}) > 1
    names = [f"{layer.stack} {layer}" if several else str(layer) for layer in left_out]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    said = " ".join(left_out.values())
    why = "NaN or infinite" if "NaN" in said else "unread" if UNREAD in said else "beyond float64"
    return f"without {', '.join(names[:NAMED])}{more} ({why})"


def none_left(left_out: LeftOut) -> EngineError:
    """Say why there are no rows at all.

    Examples
    --------
    >>> print(none_left({Head("decoder", number): "w holds 1 NaN or infinite numbers of 16" for number in (0, 1)}))
    nothing can be worked out: decoder L0: w holds 1 NaN or infinite numbers of 16, and so on in L1; open a sound copy
    """
    (first, what), *others = left_out.items()
    more = f", and so on in {', '.join(str(layer) for layer, _ in others[:NAMED])}" if others else ""
    return EngineError(f"nothing can be worked out: {first.stack} {first}: {what}{more}; open a sound copy")
