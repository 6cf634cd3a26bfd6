"""The rows of the ``composition`` table: for each head the earlier heads that feed it, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from engine.mathematics.circuit_measures import Factors
from engine.mathematics.composition import FAINT, KINDS, Squares, chance, composition, reading, writing
from engine.values.errors import NotFinite
from engine.values.heads import Head
from engine.values.left_out import LeftOut
from engine.values.model import LayerOutline
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from torch import Tensor

    from engine.service.session import Breathe, Session


KEPT_BYTES = 2**29
"""What is kept of what layers write, so that going through a model reads each layer once."""

SQUARED_BYTES = 2**29
"""What squares of all heads of a stack may take while all of them are compared."""


Fed = tuple[LayerOutline, dict[str, "Tensor"]]
"""A layer, and by kind its heads' compositions with those of a later one."""


class CompositionTable:
    """Compares the heads of a layer with those of the layers before it in the same stack, one layer at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._written: dict[Head, Tensor] = {}
        self._squared = _Squared()
        self._left_out: dict[Head, str] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads; a layer that writes another width than this one reads feeds nothing.

        Across stacks the queries alone read what the stack has written: keys and values are read from the other one.
        """
        stack = self._session.outline.stack_layers(layer.stack)
        earlier = [
            each for each in stack
            if each.layer < layer.layer and each.d_output == layer.d_model and each.name not in self._left_out
        ]  # fmt: skip
        try:
            factors = self._factors(layer)
            self._keep(layer, writing(*factors[2:]))
            read = {
                kind: part for kind, part in reading(*factors).items()
                if part.shape[-1] == layer.d_model and (layer.stack != "cross" or kind == "Q")
            }  # fmt: skip
            fed = self._fed(layer, earlier, read, query.layer is None and _is_squared(stack), breathe)
        except NotFinite:
            if layer == stack[-1]:
                self._squared.forget()
            raise
        except BaseException:
            self._squared.forget()  # what is given up may not be asked for again
            raise
        if layer == stack[-1]:
            self._squared.forget()
        for number in range(layer.heads):
            if query.wants(number):
                breathe()
                yield from _ranked(layer, number, fed)

    def left_out_before(self, layer: LayerOutline) -> LeftOut:
        """Give the earlier layers of the same stack that are left out of what feeds a layer."""
        return {
            name: what
            for name, what in self._left_out.items()
            if name.stack == layer.stack and name.layer < layer.layer
        }

    def _fed(
        self,
        layer: LayerOutline,
        earlier: list[LayerOutline],
        read: Mapping[str, Tensor],
        is_squared: bool,
        breathe: Breathe,
    ) -> list[Fed]:
        """Compare what a layer reads with what earlier ones write, by squares or pair by pair."""
        by_square = {}
        if is_squared:
            stack = self._session.outline.stack_layers(layer.stack)
            for each in earlier:
                breathe()
                with suppress(NotFinite):
                    self._squared.add(each, sum(one.heads for one in stack), self._written_by(each))
            breathe()
            by_square = self._squared.met(read) if any(each.name in self._squared.places for each in earlier) else {}
        fed: list[Fed] = []
        with self._session.telling("comparing with earlier layers", "layers") as telling:
            for done, each in enumerate(earlier):
                breathe()
                telling(done, len(earlier))
                if each.name in self._left_out:
                    continue
                known = {kind: rows[self._squared.places[each.name]] for kind, rows in by_square.items()}
                clear = {kind for kind, rows in known.items() if not bool((rows < FAINT).any())}
                with suppress(NotFinite):
                    fed.append((each, {
                        kind: known[kind] if kind in clear else composition(self._written_by(each), part)
                        for kind, part in read.items()
                    }))  # fmt: skip
        return fed

    def _factors(self, layer: LayerOutline) -> Factors:
        """Read a layer, and note one whose weights hold NaN or infinite numbers."""
        try:
            weights = self._session.layer_weights(layer.name)
        except NotFinite as error:
            self._left_out[layer.name] = error.what
            raise
        return weights.query, weights.key, weights.value, weights.output

    def _written_by(self, layer: LayerOutline) -> Tensor:
        """Give what a layer's heads write: kept, or worked out again."""
        written = self._written.get(layer.name)
        if written is None:
            written = writing(*self._factors(layer)[2:])
            self._keep(layer, written)
        return written

    def _keep(self, layer: LayerOutline, written: Tensor) -> None:
        """Keep what a layer's heads write while there is room."""
        taken = sum(each.nbytes for each in self._written.values())
        if taken + written.nbytes <= KEPT_BYTES:
            self._written[layer.name] = written


class _Squared:
    """Squares of what the layers of one stack write, while one table of all of them is made."""

    def __init__(self) -> None:
        self._of_stack: tuple[str, Squares] | None = None
        self._read: Squares | None = None
        self.places: dict[Head, slice] = {}

    def forget(self) -> None:
        """Give the memory back."""
        self._of_stack = self._read = None
        self.places.clear()

    def add(self, layer: LayerOutline, heads: int, written: Tensor) -> None:
        """Square a layer's heads, of so many in the stack, unless they have been squared."""
        if self._of_stack is None or self._of_stack[0] != layer.stack:
            self.forget()
            self._of_stack = layer.stack, Squares(heads, layer.d_output)
        if layer.name not in self.places:
            self.places[layer.name] = self._of_stack[1].add(written)

    def met(self, read: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compare all heads that have been squared with those of a layer that reads, by kind."""
        assert self._of_stack is not None
        rows = torch.cat(list(read.values()))
        if self._read is None or self._read.room < len(rows):  # memory that is new takes time to come by
            self._read = Squares(len(rows), rows.shape[-1])
        self._read.heads = 0
        self._read.add(rows)
        found = self._of_stack[1].composition(self._read)
        return dict(zip(read, found.split(len(rows) // len(read), 1), strict=True))


def _is_squared(stack: tuple[LayerOutline, ...]) -> bool:
    """Say whether the layers of a stack are quicker compared by squares, which all together find room."""
    widths = {each.d_model for each in stack} | {each.d_output for each in stack}
    inner = {each.head_dim for each in stack} | {each.value_head_dim for each in stack}
    width = max(widths)
    if len(widths) > 1 or len(inner) > 1 or width > max(inner) ** 2:
        return False
    return Squares.nbytes(sum(each.heads for each in stack), width) <= SQUARED_BYTES


def _ranked(layer: LayerOutline, number: int, fed: list[Fed]) -> Iterator[tuple[Cell, ...]]:
    """Sort what feeds one head, the strongest first; heads of zero weights feed nothing and come last, empty."""
    places = [
        (float(value), kind, each.layer, head)
        for each, by_kind in fed
        for kind in KINDS
        if kind in by_kind
        for head, value in enumerate(by_kind[kind][:, number].tolist())
    ]
    order = torch.tensor([place[0] for place in places]).nan_to_num(-1.0).argsort(descending=True, stable=True)
    by_chance = chance(layer.d_model)
    for place in order.tolist():
        value, kind, from_layer, from_head = places[place]
        cell: Cell = "" if value != value else value
        yield (layer.stack, layer.layer, str(number), kind, from_layer, from_head, cell, by_chance)
