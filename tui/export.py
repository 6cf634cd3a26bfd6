"""What an export gives: the rows or the arrays of one request on one open model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click
from numpy.typing import NDArray

from engine.mathematics.measures import DEFAULT_EPSILON
from engine.mathematics.tabulate import attention_table, ranks_table, spectra_of_two_table, spectrum_table
from engine.service.engine import Engine
from engine.values.attention import AttentionMap, AttentionMaps
from engine.values.comparison import Comparison
from engine.values.errors import EngineError, LayerLeftOut, NoMap
from engine.values.filters import Row
from engine.values.heads import MATRICES, Head
from engine.values.left_out import none_left
from engine.values.model import LayerOutline, ModelOutline
from engine.values.named_heads import heads_named
from engine.values.off import Off
from engine.values.progress import Progress
from engine.values.spectra import Spectrum
from engine.values.tables import Cell, Table
from engine.values.view import Query, View
from engine.values.views import VIEWS
from tui.request import Request
from tui.selection import Selection, select

Found = TypeVar("Found")


class Export:
    """One request on one open model; layers are computed as the rows are read, never all at once."""

    def __init__(
        self,
        engine: Engine,
        outline: ModelOutline,
        request: Request,
        selection: Selection,
        report: Callable[[Progress], None],
        comparison: Comparison | None = None,
    ) -> None:
        self._engine = engine
        self._outline = outline
        self._request = request
        self._selection = selection
        self._report = report
        self._comparison = comparison
        self.left_out: dict[Head, str] = {}
        self.lacking: dict[str, None] = {}
        distance = request.asked.get("distance")
        outlines = (outline,) if comparison is None else (outline, comparison.other)
        self.notices: list[str] = list(outline.notes)
        self.notices += [
            f"{each.name}: Δ = {distance} is {past}, in which no sentence has it"
            for each in outlines
            if (past := each.past_context(distance))
        ]
        if comparison is not None:
            self.notices += [*comparison.other.notes, *([comparison.note] if comparison.note else [])]

    @classmethod
    def begin(
        cls, engine: Engine, outline: ModelOutline, request: Request, report: Callable[[Progress], None]
    ) -> Export:
        """Find what a request names in a model, and open the second model where it is of two."""
        selection = select(outline, request)
        comparison = engine.compare(report).result() if request.vs else None
        return cls(engine, outline, request, selection, report, comparison)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Give the arrays that are asked for: the heads' matrices, or a sentence's maps."""
        return self._matrix_arrays() if self._request.view == "matrices" else self._attention_arrays()

    def table(self) -> Table:
        """Give the rows that are asked for of the view's table."""
        table, kept = self._table(), self._request.kept()
        return table if kept is None else Table(table.view, table.columns, self._kept_rows(kept.rows(table), kept.text))

    def _kept_rows(self, rows: Iterator[Row], text: str) -> Iterator[Row]:
        """Yield the rows that a filter leaves; where there is none, that is a notice."""
        has_any = False
        for row in rows:
            has_any = True
            yield row
        if not has_any:
            self.notices.append(f"no row fits {text}")

    def _table(self) -> Table:
        """Give the table of the request's view."""
        request = self._request
        if request.view == "ranks":
            own = (own for own, _ in self._spectra())
            return ranks_table(own, DEFAULT_EPSILON if request.energy is None else request.energy)
        if request.view == "spectrum":
            both = self._spectra()
            return spectra_of_two_table(both) if request.vs else spectrum_table(own for own, _ in both)
        if request.view == "attention":
            return attention_table(self._chosen_maps(), request.vs)
        view = VIEWS[request.view]
        return Table(view.name, view.columns_of(of_two=request.vs), self._rows(view))

    def _of_layers(
        self, layers: tuple[LayerOutline, ...], activity: str, found: Callable[[LayerOutline], Iterable[Found]]
    ) -> Iterator[Found]:
        """Find what there is of layers, showing how far it has come.

        Of a layer whose weights hold NaN or infinite numbers nothing is found, unless it is the one that is named.

        Raises
        ------
        EngineError : when that is so of the layer that is named, or of all.
        """
        for done, layer in enumerate(layers):
            self._report(Progress(activity, done, len(layers), "layers"))
            try:
                yield from found(layer)
            except LayerLeftOut as error:
                if self._selection.is_one_layer:
                    raise
                self.left_out[layer.name] = error.what
        if self.left_out and self.left_out.keys() >= {layer.name for layer in layers}:
            raise none_left(self.left_out)

    def _rows(self, view: View) -> Iterator[Sequence[Cell]]:
        """Yield the rows of a table that the engine works out, a layer at a time where it is made of layers."""
        request, head = self._request, self._selection.head
        asked = {name: value for name, value in request.asked.items() if value is not None and name != "off"}
        query = Query(
            head=head, matrix=request.matrix, text=request.text, off=self._off.heads, epsilon=request.energy,
            of_two=request.vs and bool(view.beside), **asked,
        )  # fmt: skip
        if view.grows and not view.is_by_layer:
            if request.layer is not None and request.layer.isdigit():
                query = replace(query, layer=Head(self._selection.stacks[0], int(request.layer)))
            yield from self._engine.growing(view.name, query, lambda _, progress: self._report(progress)).result()
            return
        if not view.goes_by_layer(query):
            yield from self._engine.table(view.name, query).result()
            return
        layers = self._selection.layers
        with_rows = layers if view.has_changes else tuple(layer for layer in layers if not layer.is_change) or layers
        attending = self._comparable(with_rows)

        def of_layer(layer: LayerOutline) -> Table:
            table = self._engine.table(view.name, replace(query, layer=layer.name)).result()
            self.left_out |= table.left_out
            self.lacking |= dict.fromkeys(table.lacking)
            return table

        rows = self._of_layers(attending, view.name, of_layer)
        yield from view.ranked(rows) if view.ranked_by else rows

    @property
    def _off(self) -> Off:
        """The heads that are switched off."""
        asked = self._request.asked
        named = asked.get("off") or ()
        heads = heads_named(" ".join(named), self._outline)
        if named and not heads:
            raise EngineError("--off names no head; write it as L5H1, 'L5H1 L5H2', or L5 for a whole layer")
        return Off(heads, bool(asked.get("by_mean")))

    def _comparable(self, layers: tuple[LayerOutline, ...]) -> tuple[LayerOutline, ...]:
        """Leave layers out that a second model has not, unless it is those that are asked for."""
        if self._comparison is None:
            return layers
        return tuple(layer for layer in layers if layer.name in self._comparison.layers) or layers

    def _spectra(self) -> Iterator[tuple[list[Spectrum], list[Spectrum]]]:
        """Yield the spectra that are asked for, of each layer its heads' or the layer's own, and a second model's."""
        distance, matrix, head = self._request.asked.get("distance"), self._request.matrix, self._selection.head
        whole_layer = head is not None and head < 0
        heads = None if head is None else (head,)
        matrices = MATRICES if matrix is None else (matrix,)

        def of_layer(layer: LayerOutline) -> Iterator[tuple[list[Spectrum], list[Spectrum]]]:
            group = self._engine.spectra(layer.name, whole_layer, "", distance, matrices).result()
            if lacks := group.lacks(matrix):
                if matrix:
                    raise EngineError(lacks)  # it was asked for by name
                self.lacking[lacks] = None
            theirs: list[Spectrum] = []
            if self._request.vs:
                other = self._engine.other_spectra(layer.name, whole_layer, "", distance, matrices).result()
                group, theirs = group.complete(), other.complete().listed(heads, matrix)
            yield group.listed(heads, matrix), theirs

        return self._of_layers(self._comparable(self._selection.layers), "spectra", of_layer)

    def _maps(self) -> Iterator[AttentionMaps]:
        """Yield the maps of the layers that are asked for, or the means over the layers of each stack.

        What has no map of this sentence is left out, and its reason a notice, unless nothing else is asked for.

        Raises
        ------
        NoMap : where nothing that is asked for has a map.
        """
        text = self._request.text or ""
        selection = self._selection
        attending = self._comparable(
            tuple(layer for layer in selection.layers if not layer.is_change) or selection.layers
        )
        places: list[tuple[str, int | None]] = (
            [(stack, None) for stack in dict.fromkeys(layer.stack for layer in attending)]
            if selection.layer_mean
            else [(layer.stack, layer.layer) for layer in attending]
        )
        lacking: list[NoMap] = []
        for done, (stack, layer) in enumerate(places):
            self._report(Progress("attention", done, len(places), "layers"))
            try:
                if self._request.vs:
                    maps = self._engine.differences(text, stack, layer).result()
                else:
                    maps = self._engine.attention(text, stack, layer, off=self._off).result()
            except NoMap as error:
                lacking.append(error)
                if len(lacking) == len(places):
                    raise
                continue
            if done == len(lacking) and maps.sentence.notice:
                self.notices.append(maps.sentence.notice)
            yield maps
            del maps  # before there are those of the next layer
        self.notices += map(str, lacking)

    def _chosen_maps(self) -> Iterator[AttentionMap]:
        """Yield the maps of the heads that are asked for, or the means over the heads."""
        selection = self._selection
        for maps in self._maps():
            heads: range | list[int | None]
            heads = range(len(maps.weights)) if selection.head is None else [selection.head]
            for head in [None] if selection.head_mean else heads:
                yield maps.select(head)
            del maps

    def _prefix(self, stack: str) -> str:
        """Give what keys begin with, where a model has several stacks."""
        return f"{stack}." if len(self._outline.stacks) > 1 else ""

    def _attention_arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield one array per layer, (heads, queries, keys), keyed ``L5``, or ``mean`` for the mean over the layers.

        A second model's follow each, keyed ``L5.other``.
        """
        selection = self._selection
        for maps in self._maps():
            name = "mean" if maps.layer is None else f"L{maps.layer}"
            weights, other = maps.weights, maps.other
            if selection.head_mean or selection.head is not None:
                chosen = maps.select(None if selection.head_mean else selection.head)
                weights, other = chosen.weights[None], None if chosen.other is None else chosen.other[None]
            yield f"{self._prefix(maps.stack)}{name}", weights
            if other is not None:
                yield f"{self._prefix(maps.stack)}{name}.other", other
            del maps, weights, other

    def _matrix_arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the heads' arrays, keyed ``L5H1.W_Q``."""
        matrix, number = self._request.matrix, self._selection.head
        if number is not None and number < 0:
            raise click.UsageError("matrices are of heads; --head all has none")

        def of_layer(layer: LayerOutline) -> Iterator[tuple[str, NDArray[Any]]]:
            for head, arrays in self._engine.arrays(layer.name).result().items():
                if number is None or head.head == number:
                    for name, array in arrays.items():
                        if matrix is None or name.endswith(f"_{matrix}"):
                            yield f"{self._prefix(layer.stack)}{head}.{name}", array

        return self._of_layers(self._selection.layers, "matrices", of_layer)
