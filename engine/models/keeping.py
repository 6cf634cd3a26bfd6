"""A reader that keeps what a sentence leaves: of the one that was read last, and of some before it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from engine.models.directories import cache_directory
from engine.models.kept import KeptReading, KeptReadings
from engine.models.kept_calls import KeptCalls
from engine.models.maps import MapReader
from engine.models.tokenizer import Words
from engine.values.attention import NOTHING_OFF, Off, Sentence
from engine.values.outline import ModelOutline


class KeepingReader(MapReader):
    """A model that reads sentences and keeps what its attention modules were called with."""

    def __init__(self, outline: ModelOutline, words: Words) -> None:
        super().__init__(outline, words)
        self.folder = cache_directory()
        self._calls = KeptCalls()
        self._decoder_ids: tuple[int, ...] = ()
        self._kept = KeptReadings()

    def read(self, text: str, breathe: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Tokenize a sentence and run the model on it, unless it was read before and is still kept."""
        if self._sentence is not None and self.has_read(text, off):
            return self._sentence
        found = None if self._kept is None else self._kept.take(text, off)
        if found is not None:
            self._put_away()
            self._need_room(len(found.sentence.ids))
            self._sentence, self._off, self._decoder_ids = found.sentence, found.off, found.decoder_ids
            self._calls = found.calls
            return found.sentence
        sentence = self.words.read(text, self._outline.context)
        self._run(sentence, breathe, off)
        return sentence

    @abstractmethod
    def _run(self, sentence: Sentence, breathe: Callable[[], None], off: Off = NOTHING_OFF) -> None:
        """Run the model, and keep what its attention modules are called with."""

    @abstractmethod
    def _need_room(self, tokens: int) -> None:
        """Refuse a sentence of which no layer's maps would fit into memory."""

    def _put_away(self) -> None:
        """Keep the sentence that was read last beside, where sentences are kept and it is one."""
        if self._calls.is_lost:
            self.folder = None  # such a disk is not trusted again
        elif self._sentence is not None and self._sentence.text and self._kept is not None:
            self._kept.keep(KeptReading(self._sentence, self._off, self._calls, self._decoder_ids))
        self._let_go()

    def _let_go(self) -> None:
        """Let go of the sentence that was read last, and of what was kept of it."""
        super()._let_go()
        self._calls = KeptCalls()

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, and nothing kept of it is lost."""
        return super().has_read(text, off) and not self._calls.is_lost
