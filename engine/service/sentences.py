"""Sentences that an open model reads: their tokens, their maps, and how its scores for them come about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.checkpoints.source import Source
from engine.service.large_maps import LargeMaps, Reading
from engine.service.loading import collector_at_rest, torch_import
from engine.service.whole_model import WholeModel
from engine.values.attention import AttentionMap, AttentionMaps, Sentence
from engine.values.errors import EngineError
from engine.values.heads import DELTA, Head, MapName, no_attention
from engine.values.off import NOTHING_OFF, Off

if TYPE_CHECKING:
    from engine.models.maps import MapReader, Tokens
    from engine.models.scoring import Scoring
    from engine.models.tokenizer import Words

Breathe = Callable[[], None]


class Sentences:
    """What an open model reads; belongs to the engine thread.

    Parameters
    ----------
    source : of the model, for its tokenizer.
    whole_model : the model itself, loaded when the first sentence is run.

    Attributes
    ----------
    large_maps : those of a sentence that stay here.
    """

    def __init__(self, source: Source, whole_model: WholeModel) -> None:
        self._source = source
        self._outline = source.anatomy.outline
        self._whole_model = whole_model
        self.large_maps = LargeMaps()
        self._words: Words | None = None

    def read(self, text: str, breathe: Breathe, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, so that its layers' maps can be recomputed."""
        reader = self._whole_model.reader(breathe)
        if not reader.has_read(text, off):
            self.large_maps = LargeMaps()  # before the memory is needed for the new ones
        return reader.read(text, breathe, off)

    def attention(
        self, text: str, stack: str, layer: int | None, breathe: Breathe, off: Off = NOTHING_OFF
    ) -> AttentionMaps:
        """Give the maps of one layer, or the means over a stack's layers, for a sentence."""
        reader = self._reader_of(text, stack, layer, breathe, off)
        if layer is None:
            return reader.mean_over_layers(stack, breathe)
        return reader.layer_maps(Head(stack, layer), breathe)

    def large_map(self, text: str, name: MapName, breathe: Breathe, off: Off = NOTHING_OFF) -> AttentionMap:
        """Give one map of a sentence, whose maps stay here: it is true until another one is asked for."""
        return self._large([((text, off), name)], breathe)[0]

    def large_pair(
        self, first: tuple[Reading, MapName], second: tuple[Reading, MapName], breathe: Breathe
    ) -> AttentionMap:
        """Give one map with another of this model beside it, likewise."""
        return beside(*self._large([first, second], breathe))

    def _large(self, asked: Sequence[tuple[Reading, MapName]], breathe: Breathe) -> list[AttentionMap]:
        """Give maps that stay here, reading the sentence for those that are not there."""
        for _, name in asked:
            self._check(name.stack, name.layer)

        def read(reading: Reading) -> MapReader:
            reader = self._whole_model.reader(breathe)
            reader.read(reading[0], breathe, reading[1])
            return reader

        return self.large_maps.maps(asked, read, breathe)

    def spell(self, text: str, breathe: Breathe) -> Sentence:
        """Tokenize a sentence as the model would read it, without the model."""
        if self._words is None:
            torch_import.wait(breathe)
            with collector_at_rest():
                from engine.models.loading import words_of

                self._words = words_of(self._source)
        return self._words.read(text, self._outline.context)

    def forget(self, text: str) -> None:
        """Let go of what is kept of a sentence that was read, unless it was the last one."""
        if self._whole_model.is_loaded:
            self._whole_model.reader(lambda: None).forget(text)

    def scoring(self, text: str, layer: Head, breathe: Breathe) -> tuple[Scoring, Tokens]:
        """Take one layer's scores for a sentence apart, and give the tokens along both axes of its maps."""
        return self._reader_of(text, layer.stack, layer.layer, breathe).scoring(layer, breathe)

    def close(self) -> None:
        """Let go of the maps."""
        self.large_maps = LargeMaps()

    def _reader_of(
        self, text: str, stack: str, layer: int | None, breathe: Breathe, off: Off = NOTHING_OFF
    ) -> MapReader:
        """Read a sentence, once it is clear that there are maps of what is asked for."""
        self._check(stack, layer)
        self.read(text, breathe, off)
        return self._whole_model.reader(breathe)

    def _check(self, stack: str, layer: int | None) -> None:
        """Refuse what has no maps, or is not there."""
        if stack.endswith(DELTA):
            raise EngineError(no_attention(stack))
        if layer is not None:
            self._outline.layer(Head(stack, layer))


def beside(base: AttentionMap, other: AttentionMap) -> AttentionMap:
    """Put two maps together, of which a difference is the second less the first.

    Raises
    ------
    EngineError : when their queries or keys are other tokens.
    """
    if (base.query_tokens, base.key_tokens) != (other.query_tokens, other.key_tokens):
        raise EngineError("the maps have other tokens along their sides, so there is no difference")
    return replace(base, other=other.weights)
