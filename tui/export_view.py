"""What ``e`` writes: the table that the active view draws."""

from __future__ import annotations

import re

from engine.mathematics.tabulate import attention_table, spectrum_table
from engine.values.attention import AttentionMap
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.tables import RANK_COLUMNS, Table
from tui.knowledge import Knowledge


def table_on_screen(
    view: str, knowledge: Knowledge, selected: Head | None, epsilon: float, attention: AttentionMap | None
) -> tuple[Table, str]:
    """Give the active view's table, and what it is of, for the file's name.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    nothing = EngineError(f"the {view} view shows nothing yet; nothing was written")
    if view == "attention":
        if attention is None:
            raise nothing
        name = attention.name
        return attention_table([attention]), f"L{name.layer_label}H{name.head_label}"
    if view == "ranks":
        rows = knowledge.rows(knowledge.names_beside(selected), epsilon)
        if not rows:
            raise nothing
        return Table("ranks", RANK_COLUMNS, rows), "model" if selected is None else str(selected.whole_layer)
    if selected is None:
        raise EngineError("the model as a whole has no spectra; choose a layer or a head. Nothing was written")
    spectra = knowledge.spectra(selected)
    if spectra is None:
        raise nothing
    return spectrum_table([list(spectra.values())]), str(selected)


def file_stem(model: str, stack: str, subject: str, view: str) -> str:
    """Compose a file's name without anything that a shell would stumble over: ``gpt2-L5H1-spectrum``."""
    last = model.rstrip("/").rpartition("/")[2]
    parts = (re.sub(r"[^\w.-]+", "-", last).strip("-.") or "model", stack, subject, view)
    return "-".join(part for part in parts if part)
