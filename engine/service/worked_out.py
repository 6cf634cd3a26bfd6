"""The tables that are worked out from an open model, by the name of their view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from engine.service.ablation_table import AblationTable
from engine.service.changes_table import ChangesTable
from engine.service.circuits_table import CircuitsTable
from engine.service.composition_table import CompositionTable
from engine.service.directions_table import DirectionsTable
from engine.service.explain_table import ExplainTable
from engine.service.heads_table import HeadsTable
from engine.service.patterns_table import PatternsTable
from engine.service.predicting import Predicting
from engine.service.predictions_table import PredictionsTable
from engine.service.rollout import Rollout
from engine.service.token_tables import TokenTables
from engine.service.weights_table import WeightsTable
from engine.values.errors import EngineError, LayerLeftOut
from engine.values.heads import Head
from engine.values.left_out import none_left
from engine.values.model import LayerOutline
from engine.values.progress import Progress
from engine.values.tables import Cell, Table
from engine.values.view import Query
from engine.values.views import VIEWS

if TYPE_CHECKING:
    from engine.service.session import Breathe, Session
    from engine.service.two_models import TwoModels

Rows = Iterator[tuple[Cell, ...]]
OfLayer = Callable[[LayerOutline, Query, "Breathe"], Rows]
OfStack = Callable[[str], tuple[str, ...]]
OfModel = Callable[[Query, "Breathe"], Rows]
Growing = Callable[[Query, "Breathe"], Iterator[tuple[tuple[tuple[Cell, ...], ...], Progress]]]


class WorkedOut:
    """The tables of one open model; belongs to the engine thread.

    Parameters
    ----------
    session : the open model.
    models : this model and the one beside it, where there is one.

    Attributes
    ----------
    session : the open model.
    patterns : what its heads do, and what they are called for it.
    rollout : attention followed through its layers.
    """

    def __init__(self, session: Session, models: TwoModels | None = None) -> None:
        self.session = session
        tables = TokenTables(session)
        self.patterns = PatternsTable(session)
        predicting = Predicting(session)
        predictions, ablation = PredictionsTable(predicting, models), AblationTable(session, predicting)
        circuits = CircuitsTable(session, tables)
        changes = ChangesTable(session, models, circuits)
        self._composition = CompositionTable(session)
        self._of_layers: Mapping[str, OfLayer] = {
            "changes": changes.rows,
            "circuits": circuits.rows,
            "composition": self._composition.rows,
            "directions": DirectionsTable(session, tables).rows,
            "explain": ExplainTable(session, tables).rows,
            "patterns": self.patterns.rows,
            "ablation": ablation.sweep,
        }
        self._left_out: Mapping[str, Mapping[Head, str]] = {"circuits": circuits.left_out, "changes": changes.left_out}
        self._lacking: Mapping[str, OfStack] = {
            "circuits": _lacking("ov_copying", tables.lacking),
            "changes": _lacking(
                "ov_copying_change", lambda stack: (*tables.lacking(stack), *changes.lacking_in_other(stack))
            ),
            "directions": _lacking("tokens", tables.lacking),
            "explain": _lacking("tokens", tables.lacking),
        }
        self.rollout = Rollout(session)
        self._of_model: Mapping[str, OfModel] = {
            "rollout": self.rollout.rows,
            "predictions": predictions.rows,
            "lens": predictions.lens,
            "contributions": predictions.contributions,
            "ablation": ablation.together,
        }
        self._growing: Mapping[str, Growing] = {
            "weights": WeightsTable(session).growing,
            "heads": HeadsTable(session, self.patterns.rows, circuits.of_heads, self._lacking["circuits"]).growing,
        }

    def table(self, name: str, query: Query, breathe: Breathe) -> Table:
        """Work out what a query names of a table, a layer at a time where it is made of layers.

        Raises
        ------
        EngineError : when the model has no such layer or head, or the table no such rows.
        """
        view, outline = VIEWS[name], self.session.outline
        if query.head == -1 and not view.has_whole_layers:
            raise EngineError(f"{name} is of heads and has no rows for whole layers; name a head, such as L0H0")
        if name in self._growing:
            *_, (table, _) = self.growing(name, query, breathe)
            return table
        if not view.goes_by_layer(query):
            return Table(name, view.columns_of(of_two=query.of_two), tuple(self._of_model[name](query, breathe)))
        layers = outline.attending_layers if query.layer is None else (outline.layer(query.layer),)
        rows: list[tuple[Cell, ...]] = []
        left_out: dict[Head, str] = {}
        with self.session.telling(name, "layers") as telling:
            for done, layer in enumerate(layers):
                if layer.is_change:
                    raise EngineError(f"{name} is of heads that attend; {layer.stack} holds changes of weights alone")
                if query.head is not None:
                    outline.layer(Head(layer.stack, layer.layer, query.head))
                breathe()
                telling(done, len(layers))
                try:
                    rows += tuple(self._of_layers[name](layer, query, breathe))
                except LayerLeftOut as error:
                    if query.layer is not None:
                        raise
                    left_out[layer.name] = error.what
                if name == "composition":
                    left_out |= self._composition.left_out_before(layer)
        if left_out and left_out.keys() >= {layer.name for layer in layers}:
            raise none_left(left_out)
        return Table(name, view.columns, tuple(view.ranked(rows)), left_out, self._lacks(name, layers, query.wants(-1)))

    def _lacks(self, name: str, layers: Collection[LayerOutline], with_whole: bool) -> tuple[str, ...]:
        """Say what rows of layers are without, and why, each once."""
        if name not in self._lacking:
            return ()
        stacks = dict.fromkeys(layer.stack for layer in layers)
        whole = [self._left_out.get(name, {}).get(layer.name, "") for layer in layers if with_whole]
        said = [each for stack in stacks for each in self._lacking[name](stack)]
        return tuple(dict.fromkeys(filter(None, (*said, *whole))))

    def growing(self, name: str, query: Query, breathe: Breathe) -> Iterator[tuple[Table, Progress]]:
        """Yield a table that grows as more of it becomes known, with how far it has come; the last one is complete."""
        for rows, progress in self._growing[name](query, breathe):
            yield Table(name, VIEWS[name].columns, rows), progress


def _lacking(what: str, found: OfStack) -> OfStack:
    """Say what a stack's rows are without, by what has been found wrong."""
    return lambda stack: tuple(f"without {what}: {said}" for said in found(stack))
