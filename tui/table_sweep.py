"""A table that is worked out layer by layer and ranked over all of them, as it comes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

from engine.service.engine import Engine
from engine.values.errors import EngineError, LayerLeftOut
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.table import Cell, Table, no_rows_error
from engine.values.views import VIEWS, Query
from tui.patience import patiently

SWEEP = "sweep of heads"
"""What the work is called, by which newer work takes its place."""


async def swept(
    engine: Engine,
    outline: ModelOutline,
    name: str,
    query: Query,
    begin: Callable[[int, int], None],
    waiting: Callable[[], None],
) -> AsyncGenerator[Table | EngineError, None]:
    """Yield what there is of a table after each layer, the last complete, or at the end why there is none.

    Parameters
    ----------
    engine, outline : of the model.
    name, query : of the table.
    begin : called before each layer with how many heads are done, and how many there are.
    waiting : called when a layer has not come after a moment.

    Raises
    ------
    Superseded : when it is given up.
    """
    layers, rows, left_out = outline.attending_layers, list[Sequence[Cell]](), dict[Head, str]()
    heads = list(itertools.accumulate((layer.heads for layer in layers), initial=0))
    lacking: dict[str, None] = {}
    for done, layer in enumerate(layers):
        begin(heads[done], heads[-1])
        answer = await patiently(engine.table(name, replace(query, layer=layer.name), SWEEP), waiting)
        if isinstance(answer, LayerLeftOut):
            left_out[layer.name] = answer.what
        elif isinstance(answer, EngineError):
            yield answer
            return
        else:
            rows += answer.rows
            lacking |= dict.fromkeys(answer.notes.lacking)
        if len(left_out) == len(layers):
            yield no_rows_error(left_out)
        else:
            view = VIEWS[name]
            yield Table.of_rows(name, view.columns, view.sort_rows(rows), dict(left_out), tuple(lacking))
