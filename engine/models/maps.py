"""What gives attention maps layer by layer, and the mean over layers, in the memory of one layer's."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from engine.mathematics.patterns import visible_keys
from engine.models.gathering import Gathering, nothing_told
from engine.models.telling import Tell, Telling, nobody
from engine.values.attention import NOTHING_OFF, AttentionMaps, Off, Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline

if TYPE_CHECKING:
    from engine.models.kept import KeptReadings
    from engine.models.scoring import Scoring
    from engine.models.tokenizer import Words
    from engine.models.witness import Observation

Tokens = tuple[tuple[str, ...], tuple[str, ...]]


def _at_once() -> None:
    """Work without looking for anything more urgent."""


class Pausing:
    """A `breathe` that says whether it is being called: what the model computes then is somebody else's sentence."""

    def __init__(self, breathe: Callable[[], None]) -> None:
        self._breathe = breathe
        self.is_paused = False

    def __call__(self) -> None:
        """Let more urgent work be done; it may raise to give up."""
        self.is_paused = True
        try:
            self._breathe()
        finally:
            self.is_paused = False


class MapReader(ABC):
    """A model that reads sentences and gives attention maps, one layer's at a time.

    Attributes
    ----------
    words : what makes ids of text.
    tell : gets how far the reading of a long sentence is.
    folder : where that leaves what it keeps beside memory; None where it leaves nothing on disk.
    """

    def __init__(self, outline: ModelOutline, words: Words) -> None:
        self.words = words
        self.tell: Tell = nobody
        self._outline = outline
        self._sentence: Sentence | None = None
        self._off = NOTHING_OFF
        self.folder: Path | None = None
        self._kept: KeptReadings | None = None

    def beside(self) -> Self:
        """Give a reader of the same loaded model with a sentence of its own; this one's stays as it is."""
        other = copy.copy(self)
        other._let_go()
        other._kept, other.tell = None, nobody
        return other

    def _let_go(self) -> None:
        """Let go of the sentence that was read last."""
        self._sentence, self._off = None, NOTHING_OFF

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many token ids the model knows.

        Raises
        ------
        EngineError : when it reads no tokens.
        """

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, with the same heads switched off."""
        return self._sentence is not None and self._sentence.text == text and self._off == off

    @abstractmethod
    def read(self, text: str, breathe: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, unless it is the one that was read last.

        Parameters
        ----------
        text : the sentence.
        breathe : called before every attention module; it may raise to give up.
        off : heads that are switched off meanwhile.

        Raises
        ------
        EngineError : when the sentence is empty, or the model fails on it.
        """

    def forget(self, text: str) -> None:
        """Let go of what is kept of a sentence, unless it is the one that was read last."""
        if self._kept is not None:
            self._kept.forget(text)

    @abstractmethod
    def read_ids(self, ids: tuple[int, ...], breathe: Callable[[], None]) -> None:
        """Run the model on token ids in the place of a sentence.

        Parameters
        ----------
        ids : the whole sequence, with what special tokens it is to have.
        breathe : as in `read`.

        Raises
        ------
        EngineError : when the model fails on them, or reads no tokens.
        """

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        return () if self._sentence is None else self._sentence.ids

    @abstractmethod
    def gather(self, layer: Head, gathering: Gathering, breathe: Callable[[], None]) -> Tokens:
        """Recompute the maps of all heads of one layer for the sentence that was read last, and have them gathered.

        Parameters
        ----------
        layer : whose.
        gathering : what takes them.
        breathe : called between blocks of queries, where there are several; it may raise to give up.

        Returns
        -------
        tokens : their texts along the axis of the queries and along that of the keys.

        Raises
        ------
        EngineError : when the layer was not run, has no maps to show, or they do not fit into memory, saying why.
        """

    @abstractmethod
    def observe(self, breathe: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads a few tokens, for `engine.models.proof.prove`."""

    @abstractmethod
    def scoring(self, layer: Head, breathe: Callable[[], None]) -> tuple[Scoring, Tokens]:
        """Take one layer's scores apart for the sentence that was read last, and give the tokens along both axes.

        Raises
        ------
        EngineError : when the layer was not run, or its scores are more than products of queries and keys.
        """

    def layer_maps(
        self, layer: Head, breathe: Callable[[], None] = _at_once, buffer: NDArray[np.float32] | None = None
    ) -> AttentionMaps:
        """Recompute the maps of all heads of one layer for the sentence that was read last.

        Parameters
        ----------
        layer : whose.
        breathe : as in `gather`.
        buffer : an array that nobody looks at any more, to hold them where it has the right shape.

        Raises
        ------
        EngineError : as in `gather`.
        """
        return self._gathered((layer,), layer.layer, breathe, buffer)

    def mean_over_layers(
        self, stack: str, breathe: Callable[[], None], buffer: NDArray[np.float32] | None = None
    ) -> AttentionMaps:
        """Average the maps over a stack's layers, head by head, holding as much as one layer's maps.

        Raises
        ------
        EngineError : as in `gather`, and when the layers differ in their number of heads, so that no head has a
            counterpart.
        """
        layers = self._outline.stack_layers(stack)
        if len({layer.heads for layer in layers}) > 1:
            raise EngineError("the layers differ in their number of heads, so there is no mean over layers by head")
        if not layers:
            raise EngineError(f"{self._outline.name} has no stack '{stack}'")
        return self._gathered(tuple(layer.name for layer in layers), None, breathe, buffer)

    def _gathered(
        self,
        layers: tuple[Head, ...],
        number: int | None,
        breathe: Callable[[], None],
        buffer: NDArray[np.float32] | None,
    ) -> AttentionMaps:
        """Gather layers, and give their mean."""
        reading = copy.copy(self)  # a more urgent sentence may be read in between
        is_one = len(layers) == 1
        with Telling(self.tell, "computing maps", "queries" if is_one else "layers") as telling:
            gathering = Gathering(buffer, telling if is_one else nothing_told)
            for done, layer in enumerate(layers):
                breathe()
                if not is_one:
                    telling(done, len(layers))
                queries, keys = reading.gather(layer, gathering, breathe)
        assert reading._sentence is not None  # else nothing would have been gathered
        weights = gathering.mean()
        visible = visible_keys(weights, breathe)
        return AttentionMaps(reading._sentence, layers[0].stack, number, queries, keys, weights, visible=visible)
