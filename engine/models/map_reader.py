"""What reads sentences and gives the attention maps of a layer, or their mean over layers, in the memory of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from engine.mathematics.patterns import visible_keys
from engine.models.map_array import MapArray
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import ProgressReporter, Tell

if TYPE_CHECKING:
    from engine.models.proof import Observation
    from engine.models.score_formula import ScoreFormula
    from engine.models.tokenizer import Words

Tokens = tuple[tuple[str, ...], tuple[str, ...]]
"""The texts along the axis of the queries and along that of the keys."""


def never_give_up() -> None:
    """Check nothing."""


class MapReader(ABC):
    """A model that reads sentences and gives attention maps, one layer's at a time.

    Wherever there is a ``check``, it is called between steps and may raise to give up.

    Attributes
    ----------
    outline : of the model.
    words : what makes ids of text.
    tell : gets how far the reading of a long sentence is.
    folder : where that leaves what it keeps beside memory; None where it leaves nothing on disk.
    """

    outline: ModelOutline
    words: Words
    tell: Tell
    folder: Path | None

    @property
    @abstractmethod
    def sentence(self) -> Sentence | None:
        """The one that was read last."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many token ids the model knows.

        Raises
        ------
        EngineError : when it reads no tokens.
        """

    @abstractmethod
    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, which has read nothing yet; this one's sentence stays."""

    @abstractmethod
    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, with the same heads switched off."""

    @abstractmethod
    def read(self, text: str, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, unless it is the one that was read last.

        Parameters
        ----------
        text : the sentence.
        check : called before every attention module; it may raise to give up.
        off : heads that are switched off meanwhile.

        Raises
        ------
        EngineError : when the sentence is empty, or the model fails on it.
        """

    @abstractmethod
    def read_ids(self, ids: tuple[int, ...], check: Callable[[], None]) -> None:
        """Run the model on token ids in the place of a sentence, special tokens included.

        Raises
        ------
        EngineError : when the model fails on them, or reads no tokens.
        """

    def forget(self, text: str) -> None:  # noqa: B027  # where no more than the last one is kept
        """Let go of what is kept of a sentence, unless it is the one that was read last."""

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        return () if self.sentence is None else self.sentence.ids

    @abstractmethod
    def gather(self, layer: Head, array: MapArray, check: Callable[[], None]) -> Tokens:
        """Put the maps of all heads of one layer, for the sentence that was read last, into an array.

        Raises
        ------
        EngineError : when the layer was not run, has no maps to show, or they do not fit into memory, saying why.
        """

    @abstractmethod
    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads a few tokens, for `engine.models.proof.prove`."""

    @abstractmethod
    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[ScoreFormula, Tokens]:
        """Take one layer's scores apart for the sentence that was read last, and give the tokens along both axes.

        Raises
        ------
        EngineError : when the layer was not run, or its scores are more than products of queries and keys.
        """

    def layer_maps(
        self, layer: Head, check: Callable[[], None] = never_give_up, buffer: NDArray[np.float32] | None = None
    ) -> AttentionMaps:
        """Recompute the maps of all heads of one layer for the sentence that was read last.

        Parameters
        ----------
        layer : whose.
        check : called between blocks of queries.
        buffer : an array that nobody looks at any more, to hold them where it has the right shape.

        Raises
        ------
        EngineError : as in `gather`.
        """
        with ProgressReporter(self.tell, "computing maps", "queries") as report:
            array = MapArray(buffer, report)
            check()
            tokens = self.gather(layer, array, check)
        return self._maps(layer.stack, layer.layer, tokens, array, check)

    def mean_over_layers(
        self, stack: str, check: Callable[[], None], buffer: NDArray[np.float32] | None = None
    ) -> AttentionMaps:
        """Average the maps over a stack's layers, head by head, holding as much as one layer's maps.

        Raises
        ------
        EngineError : as in `gather`, and when the layers differ in their number of heads, so that no head has a
            counterpart.
        """
        layers = self.outline.stack_layers(stack)
        if len({layer.heads for layer in layers}) > 1:
            raise EngineError("the layers differ in their number of heads, so there is no mean over layers by head")
        if not layers:
            raise EngineError(f"{self.outline.name} has no stack '{stack}'")
        array = MapArray(buffer)
        tokens: Tokens = (), ()
        with ProgressReporter(self.tell, "computing maps", "layers") as report:
            for layer in layers:
                check()
                report.step(len(layers))
                tokens = self.gather(layer.name, array, check)
        return self._maps(stack, None, tokens, array, check)

    def _maps(
        self, stack: str, layer: int | None, tokens: Tokens, array: MapArray, check: Callable[[], None]
    ) -> AttentionMaps:
        assert self.sentence is not None  # else nothing would have been gathered
        weights = array.mean()
        return AttentionMaps(self.sentence, stack, layer, *tokens, weights, visible=visible_keys(weights, check))
