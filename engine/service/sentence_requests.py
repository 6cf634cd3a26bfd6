"""What can be asked about a sentence: its tokens, and the maps of an open model that reads it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.service.open_model import OpenModel
from engine.service.thread import Breathe, Urgency
from engine.values.off import NOTHING_OFF, Off

if TYPE_CHECKING:
    from engine.service.session import Session
    from engine.values.attention import AttentionMap, AttentionMaps, MapWindow, PooledMap, Sentence
    from engine.values.heads import MapName
    from engine.values.lines import MapLines
    from engine.values.minuend import Minuend


class SentenceRequests(OpenModel):
    """Requests about a sentence; the first that needs the whole model has it loaded."""

    def spell(self, text: str, view: str = "") -> Future[Sentence]:
        """Ask how the model's tokenizer cuts a sentence, while it is typed; the model is not loaded for it."""
        return self._ask(lambda session, breathe: session.sentences.spell(text, breathe), Urgency.SELECTED, view)

    def read(self, text: str, view: str = "", off: Off = NOTHING_OFF) -> Future[Sentence]:
        """Ask for a sentence to be run through the model, so that its maps can be asked for."""
        return self._ask(lambda session, breathe: session.read(text, breathe, off), Urgency.SENTENCE, view)

    def forget_sentence(self, text: str) -> Future[None]:
        """Have what is kept of a sentence let go of."""
        return self._ask(lambda session, breathe: session.sentences.forget(text), Urgency.SENTENCE)

    def attention(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, perhaps with heads off."""
        return self._ask(
            lambda session, breathe: session.attention(text, stack, layer, breathe, off), Urgency.SENTENCE, view
        )

    def differences(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, with others beside them.

        Those are of the same model with heads switched off, where any are, or else of the second model.
        """

        def work(session: Session, breathe: Breathe) -> AttentionMaps:
            if not off.heads:
                return self._both(session, breathe).attention(text, stack, layer, breathe)
            whole = session.attention(text, stack, layer, breathe)
            return replace(whole, other=session.attention(text, stack, layer, breathe, off).weights)

        return self._ask(work, Urgency.SENTENCE, view)

    def rollout(self, text: str, stack: str, view: str = "") -> Future[AttentionMaps]:
        """Ask for a sentence's attention followed through all layers of a stack."""
        return self._ask(
            lambda session, breathe: self._tables_of(session).rollout.maps(text, stack, breathe), Urgency.SENTENCE, view
        )

    def pooled(
        self,
        text: str,
        name: MapName,
        window: MapWindow,
        view: str = "",
        off: Off = NOTHING_OFF,
        minuend: Minuend | None = None,
    ) -> Future[PooledMap]:
        """Ask for a rectangle of one map of a long sentence, pooled to blocks, or of a difference from it."""

        def work(session: Session, breathe: Breathe) -> PooledMap:
            attention = self._large_map(session, text, name, off, minuend, breathe)
            return session.sentences.large_maps.window(attention, (text, name, off, minuend), window, breathe)

        return self._ask(work, Urgency.SENTENCE, view)

    def whole_map(
        self, text: str, name: MapName, view: str = "", off: Off = NOTHING_OFF, minuend: Minuend | None = None
    ) -> Future[AttentionMap]:
        """Ask for one whole map of a long sentence, or two for their difference, to be written to a file."""

        def work(session: Session, breathe: Breathe) -> AttentionMap:
            shown = self._large_map(session, text, name, off, minuend, breathe)
            return replace(
                shown, weights=shown.weights.copy(), other=None if shown.other is None else shown.other.copy()
            )

        return self._ask(work, Urgency.SENTENCE, view)

    def map_lines(
        self,
        text: str,
        name: MapName,
        place: tuple[int, int],
        view: str = "",
        off: Off = NOTHING_OFF,
        minuend: Minuend | None = None,
    ) -> Future[MapLines]:
        """Ask for the row of a query and the column of a key, ``place``, of one map of a long sentence."""

        def work(session: Session, breathe: Breathe) -> MapLines:
            attention = self._large_map(session, text, name, off, minuend, breathe)
            return session.sentences.large_maps.lines(attention, (text, name, off, minuend), place, breathe)

        return self._ask(work, Urgency.SENTENCE, view)

    def _large_map(
        self, session: Session, text: str, name: MapName, off: Off, minuend: Minuend | None, breathe: Breathe
    ) -> AttentionMap:
        """Give a map that stays on this thread, with the one that it is subtracted from beside it."""
        sentences = session.sentences
        if minuend is None:
            if self._models is not None and not sentences.large_maps.holds((text, off), name):
                self._models.other.sentences.close()  # nobody looks at a difference any more
            return sentences.large_map(text, name, breathe, off)
        if minuend.name is not None:
            return sentences.large_pair(((text, off), name), ((text, off), minuend.name), breathe)
        if off.heads:
            return sentences.large_pair(((text, NOTHING_OFF), name), ((text, off), name), breathe)
        return self._both(session, breathe).large_map(text, name, breathe)
