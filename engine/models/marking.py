"""What a layer's heads are marked with: whatever changes their circuits beyond the four matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.models.rules import NEIGHBOUR_MARKS, SETTING_MARKS, SHARING_TYPES, TYPE_MARKS


def marks_of(
    module: str,
    tensors: Iterable[str],
    config: Mapping[str, Any],
    *,
    is_cross: bool,
    is_lent: bool,
    is_gated: bool,
    biased: Iterable[str],
) -> tuple[str, ...]:
    """Name what changes the circuits of a layer's heads, in the words of `engine.values.marks.MARKS`.

    Parameters
    ----------
    module : the attention module's dotted name.
    tensors : the names of all tensors.
    config : of the model.
    is_cross : whether it looks at another stack.
    is_lent : whether its keys and values are another layer's.
    is_gated : whether an output gate is kept with its queries.
    biased : the matrices that have a bias.
    """
    parent = f"{module}."
    beside = {name[len(parent) :].partition(".")[0] for name in tensors if name.startswith(parent)}
    marks = [NEIGHBOUR_MARKS[name] for name in sorted(beside & NEIGHBOUR_MARKS.keys())]
    model_type = config.get("model_type") or ""
    if not is_cross and model_type in TYPE_MARKS:
        marks.append(TYPE_MARKS[model_type])
    marks += [mark for setting, mark in SETTING_MARKS.items() if config.get(setting)]
    conditions = {
        "weights shared by layers": model_type in SHARING_TYPES,
        "keys and values of another layer": is_lent,
        "output gate": is_gated,
        "query/key bias": not {"Q", "K"}.isdisjoint(biased),
    }
    return tuple(dict.fromkeys([*marks, *(mark for mark, holds in conditions.items() if holds)]))
