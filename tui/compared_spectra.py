"""The spectra of several heads in one plot for each matrix."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from engine.analysis.ranks import spectrum_table
from engine.mathematics.chance import chance_curve
from engine.service.engine import Engine
from engine.values.display_text import quantity
from engine.values.errors import EngineError, Superseded
from engine.values.heads import DELTA, MATRICES, Head
from engine.values.spectra import FloatArray, SpectraGroup, Spectrum
from engine.values.table import AnyTable
from tui.drawing.curves import Curve, Line
from tui.drawing.facts import at_distance
from tui.state.session import Session
from tui.toolkit.tasks import Run
from tui.views.compare_view import ComparePane
from tui.weights import Weights


class ComparedSpectra:
    """What is drawn of several heads' spectra.

    Parameters
    ----------
    engine : who computes.
    session : which says what is shown.
    weights : what is known of the model's spectra.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    draw : called when more has become known.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        weights: Weights,
        run: Run,
        draw: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._session = session
        self._weights = weights
        self._run = run
        self._draw = draw

    def draw(self, pane: ComparePane, heads: Sequence[Head], names: Sequence[str]) -> None:
        """Draw the heads' spectra, with the chance of the selected one or else of the last; ask for what is missing."""
        selected, distance = self._session.shown.selected, self._session.shown.distance
        front = selected if selected in heads else heads[-1]
        assert front is not None
        unknown = tuple(dict.fromkeys(head.whole_layer for head in heads if not self._has(head)))
        if unknown:
            self._run(partial(self._fetch, unknown), "compare spectra")
        found = [self._of(head) for head in heads]
        if not any(found):
            why_not = self._why_not(heads)
            if why_not or distance is None:
                pane.show_message("", why_not or "computing …", is_waiting=not why_not)
            else:
                pane.show_waiting(f"{quantity(len(heads), 'head')}{self._at_distance}")
            return
        chance = "" if front.stack.endswith(DELTA) else f"  chance of {names[list(heads).index(front)]}"
        curves = [self._curve(matrix, names, found, self._of(front)) for matrix in MATRICES]
        pane.show_spectra(f"{quantity(len(heads), 'head')}{self._at_distance}{chance}", names, curves)

    @property
    def _at_distance(self) -> str:
        """How far the key is before the query, for a title."""
        return at_distance(self._session.shown.distance, self._weights.knowledge.outline)

    def _has(self, head: Head) -> bool:
        """Say whether the spectra of a head's layer are known, with QK at the distance if it is shown at one."""
        knowledge, distance = self._weights.knowledge, self._session.shown.distance
        return knowledge.has(head, False) if distance is None else knowledge.has_turned(head, False, distance)

    def _of(self, head: Head) -> Mapping[str, Spectrum]:
        """Give a head's spectra; none where they are not known, or cannot be had."""
        try:
            return self._weights.knowledge.spectra(head, self._session.shown.distance) or {}
        except EngineError:
            return {}

    def _why_not(self, heads: Sequence[Head]) -> str:
        """Say why there will be nothing to draw; nothing where it is being worked out."""
        try:
            for head in heads:
                self._weights.knowledge.spectra(head, self._session.shown.distance)
        except EngineError as error:
            return str(error)
        return ""

    def _curve(
        self,
        matrix: str,
        names: Sequence[str],
        found: Sequence[Mapping[str, Spectrum]],
        of_front: Mapping[str, Spectrum],
    ) -> Curve:
        """Put one matrix's singular values of all heads together."""
        values = [each[matrix].singular_values if each else np.zeros(0) for each in found]
        count = max(len(each) for each in values)
        chance = chance_curve(of_front[matrix]) if of_front else None
        lines = tuple(Line(name, _padded(each, count)) for name, each in zip(names, values, strict=True))
        longest = max(values, key=len)
        return Curve(matrix, longest, None if chance is None else _padded(chance, count), "", lines, has_bars=False)

    async def _fetch(self, layers: Sequence[Head]) -> None:
        """Learn the spectra of layers' heads."""
        distance = self._session.shown.distance
        for layer in layers:
            answer: SpectraGroup | EngineError
            try:
                answer = await asyncio.wrap_future(self._engine.spectra(layer, False, "compare spectra", distance))
            except Superseded:
                raise
            except EngineError as error:
                answer = error
            if distance is None:
                self._weights.learn(layer, False, answer)
            else:
                self._weights.knowledge.learn_turned(layer, False, distance, answer)
            self._draw()

    async def table(self, heads: Sequence[Head]) -> AnyTable:
        """List every singular value of the heads that are drawn, each head beside its own chance.

        Raises
        ------
        EngineError : when nothing is drawn yet.
        """
        found = [list(spectra.values()) for head in heads if (spectra := self._of(head))]
        if not found:
            raise EngineError("the compare view shows nothing yet; nothing was written")
        return spectrum_table(found)


def _padded(values: FloatArray, count: int) -> FloatArray:
    """Bring values to a number of them, with what is not a number where there are none."""
    return np.concatenate([values, np.full(count - len(values), np.nan)])
