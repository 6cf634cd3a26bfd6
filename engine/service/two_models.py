"""A second model beside the open one: what of both can be compared, and a sentence read by both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.service.loading import collector_at_rest, torch_import
from engine.values.comparison import compared
from engine.values.errors import EngineError, NotFinite
from engine.values.heads import Head

if TYPE_CHECKING:
    from engine.service.session import Session
    from engine.values.attention import AttentionMap, AttentionMaps, Sentence
    from engine.values.heads import MapName
    from engine.values.spectra import SpectraGroup

Breathe = Callable[[], None]


class TwoModels:
    """Two open models; belongs to the engine thread. Neither is loaded before a sentence is read by it.

    Attributes
    ----------
    session, other : the model that was opened, and the one beside it.
    comparison : which layers of both can be compared.

    Raises
    ------
    EngineError : when none can.
    """

    def __init__(self, session: Session, other: Session) -> None:
        self.session = session
        self.other = other
        self.comparison = compared(session.outline, other.outline)
        self._alike: set[str] = set()

    def attention(self, text: str, stack: str, layer: int | None, breathe: Breathe) -> AttentionMaps:
        """Give the maps of one layer, or the means over a stack's layers, for a sentence, with the other model's.

        Raises
        ------
        EngineError : when the layers cannot be compared, the models read other tokens, or both do not fit into memory.
        """
        self._check(text, stack, layer, breathe)
        own = self.session.attention(text, stack, layer, breathe)
        theirs = self.other.attention(text, stack, layer, breathe)
        self._check_sides(own, theirs)
        return replace(own, other=theirs.weights)

    def large_map(self, text: str, name: MapName, breathe: Breathe) -> AttentionMap:
        """Give one map of a sentence with the other model's, of which each model keeps its own.

        Raises
        ------
        EngineError : as `attention`.
        """
        self._check(text, name.stack, name.layer, breathe)
        own = self.session.sentences.large_map(text, name, breathe)
        theirs = self.other.sentences.large_map(text, name, breathe)
        self._check_sides(own, theirs)
        return replace(own, other=theirs.weights)

    def _check_sides(self, own: AttentionMaps | AttentionMap, theirs: AttentionMaps | AttentionMap) -> None:
        """Refuse maps whose cells are not of the same tokens."""
        if (own.query_tokens, own.key_tokens) != (theirs.query_tokens, theirs.key_tokens):
            raise EngineError(self._other_tokens("the maps of both have other tokens along their sides"))

    def _check(self, text: str, stack: str, layer: int | None, breathe: Breathe) -> None:
        """Refuse maps that have no difference, or do not fit into memory, before either model is loaded."""
        if layer is None:
            self.comparison.check_stack(stack)
        else:
            self.comparison.check(Head(stack, layer))
        self.check_sentence(text, breathe)

    def spectra(
        self, layer: Head, whole_layer: bool, distance: int | None, breathe: Breathe, matrices: tuple[str, ...]
    ) -> SpectraGroup:
        """Give the other model's spectra of all heads of a layer, or of the layer as a whole, as `Session` does.

        Raises
        ------
        EngineError : when the layers cannot be compared.
        NotFinite : naming the other model, when its layer holds NaN or infinite numbers.
        """
        self.comparison.check(layer)
        try:
            if distance is None:
                return self.other.spectra(layer, whole_layer, breathe, matrices)
            return self.other.spectra_at(layer, whole_layer, distance, breathe, matrices)
        except NotFinite as error:
            raise NotFinite(f"in {self.other.outline.name} {error.what}") from error

    def check_sentence(self, text: str, breathe: Breathe) -> None:
        """Refuse a sentence of which both models cannot be asked the same, before either is loaded.

        Raises
        ------
        EngineError : when the models read other tokens, or both do not fit into memory.
        """
        self._check_tokens(text, breathe)
        self.session.make_room(self.other)

    def _check_tokens(self, text: str, breathe: Breathe) -> None:
        """Refuse a sentence that the two models read as different tokens, before either is loaded."""
        if text in self._alike:
            return
        torch_import.wait(breathe)
        with collector_at_rest():
            own, theirs = (_read(each, text) for each in (self.session, self.other))
        if own.tokens != theirs.tokens:
            place = next(
                (n for n, pair in enumerate(zip(own.tokens, theirs.tokens, strict=False)) if pair[0] != pair[1]),
                min(len(own.tokens), len(theirs.tokens)),
            )
            one, other = (each.tokens[place] if place < len(each.tokens) else "nothing" for each in (own, theirs))
            raise EngineError(
                self._other_tokens(f"token {place} is '{one}' for the first and '{other}' for the second")
            )
        self._alike.add(text)

    def _other_tokens(self, how: str) -> str:
        """Say why there is no difference."""
        names = f"{self.session.outline.name} and {self.other.outline.name}"
        return f"{names} read this sentence as other tokens, so they cannot be compared on it: {how}"


def _read(session: Session, text: str) -> Sentence:
    """Turn a sentence into a model's tokens."""
    from engine.models.loading import words_of

    return words_of(session.source).read(text, session.outline.context)
