"""The table that the active view draws, to be written or copied, and what its file is called."""

from __future__ import annotations

import re

from engine.analysis.attention import map_table
from engine.analysis.ranks import rank_rows_beside_chance, spectra_of_two_table, spectrum_table
from engine.values.attention import AttentionMap
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.table import RANKS_BESIDE_CHANCE_COLUMNS, AnyTable, LargeTable
from tui.state.session import Shown
from tui.state.stores import Stores


def table_on_screen(shown: Shown, stores: Stores, attention: AttentionMap | None) -> tuple[AnyTable, str]:
    """Give the active view's table, and what it is of, for the file's name.

    The table of the attention view has every weight of the map, however many of them a cell on screen holds.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    view, selected, distance, spectra = shown.view, shown.selected, shown.distance, stores.spectra
    nothing = EngineError(f"the {view} view shows nothing yet; nothing was written")
    if view == "attention":
        if attention is None:
            raise nothing
        name = attention.name
        return map_table(attention), "" if name.is_rollout else f"L{name.layer_label}H{name.head_label}"
    if view == "ranks":
        distance = None if selected is None else distance
        names = [layer.name for layer in stores.outline.layers]
        if selected is not None:
            names = [*stores.outline.layer(selected).head_names(), selected.whole_layer]
        found = [each for name in names for each in spectra.listed(name, distance)]
        if not found:
            raise nothing
        rows = rank_rows_beside_chance(found, shown.epsilon)
        return LargeTable("ranks", RANKS_BESIDE_CHANCE_COLUMNS, rows), subject_of(
            selected and selected.whole_layer, distance
        )
    if selected is None:
        raise EngineError("the model as a whole has no spectra; choose a layer or a head. Nothing was written")
    own, other = (spectra.listed(selected, distance, is_other=is_other) for is_other in (False, True))
    if isinstance(known := spectra.known(selected, distance), EngineError):
        raise known
    if not own:
        raise nothing
    if other and [each.matrix for each in other] != [each.matrix for each in own]:
        raise EngineError(f"some matrices of {selected} are left out of one of the models; nothing was written")
    subject = subject_of(selected, distance)
    return spectra_of_two_table([(own, other)]) if other else spectrum_table([own]), subject


def subject_of(name: Head | None, distance: int | None) -> str:
    """Say in a file's name what a table is of, and at which distance QK is taken if at one."""
    subject = "model" if name is None else str(name)
    return subject if distance is None else f"{subject}-distance{distance}"


def file_stem(outline: ModelOutline, stack: str | None, subject: str, view: str) -> str:
    """Compose a file's name without anything that a shell would stumble over: ``gpt2-L5H1-spectrum``.

    The stack is a part of it where the model has several.
    """
    last = outline.name.rstrip("/").rpartition("/")[2]
    model = re.sub(r"[^\w.-]+", "-", last).strip("-.") or "model"
    parts = (model, stack if len(outline.stacks) > 1 else None, subject, view)
    return "-".join(part for part in parts if part)
