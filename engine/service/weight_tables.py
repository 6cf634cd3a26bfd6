"""Tables that are worked out from an open model's weights, by the name of their view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from engine.service.circuits_table import CircuitsTable
from engine.service.composition_table import CompositionTable
from engine.service.directions_table import DirectionsTable
from engine.service.token_tables import TokenTables
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.model import LayerOutline
from engine.values.tables import Cell, Table
from engine.values.views import VIEWS, Query

if TYPE_CHECKING:
    from engine.service.session import Breathe, Session

Rows = Callable[[LayerOutline, Query, "Breathe"], Iterator[tuple[Cell, ...]]]


class WeightTables:
    """The tables of one open model; belongs to the engine thread.

    Attributes
    ----------
    session : the open model.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        tables = TokenTables(session)
        self._rows: Mapping[str, Rows] = {
            "circuits": CircuitsTable(session, tables).rows,
            "composition": CompositionTable(session).rows,
            "directions": DirectionsTable(session, tables).rows,
        }

    def table(self, name: str, query: Query, breathe: Breathe) -> Table:
        """Work out what a query names of a table, a layer at a time.

        Raises
        ------
        EngineError : when the model has no such layer or head, or the table no such rows.
        """
        view, outline = VIEWS[name], self.session.outline
        if query.head == -1 and not view.has_whole_layers:
            raise EngineError(f"{name} is of heads and has no rows for whole layers; name a head, such as L0H0")
        layers = outline.attending_layers if query.layer is None else (outline.layer(query.layer),)
        rows: list[tuple[Cell, ...]] = []
        for layer in layers:
            if layer.is_change:
                raise EngineError(f"{name} is of heads that attend; {layer.stack} holds changes of weights alone")
            if query.head is not None:
                outline.layer(Head(layer.stack, layer.layer, query.head))
            breathe()
            rows += self._rows[name](layer, query, breathe)
        return Table(name, view.columns, tuple(rows))
