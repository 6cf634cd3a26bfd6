"""What the model was called with for sentences that it read before, so that going back to one takes no run."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from engine.models.kept_calls import KeptCalls
from engine.values.attention import Off, Sentence

MOST_BYTES = 256 * 2**20
"""Of all that is kept of sentences in memory and on disk, beside the one that was read last."""

MOST_SENTENCES = 16
"""That are kept, however short they are."""


@dataclass(frozen=True)
class KeptReading:
    """One sentence as it was read.

    Attributes
    ----------
    sentence : what was read.
    off : the heads that were switched off.
    calls : what each attention module was called with.
    decoder_ids : what a decoder read.
    """

    sentence: Sentence
    off: Off
    calls: KeptCalls
    decoder_ids: tuple[int, ...]


class KeptReadings:
    """A few sentences, those that were looked at last; the maps of none."""

    def __init__(self) -> None:
        self._readings: OrderedDict[tuple[str, Off], tuple[KeptReading, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._readings)

    def keep(self, reading: KeptReading) -> None:
        """Keep one more; the oldest go where they would be too many, and one too large is not kept."""
        self._readings[reading.sentence.text, reading.off] = (reading, reading.calls.nbytes)
        while len(self._readings) > MOST_SENTENCES or sum(size for _, size in self._readings.values()) > MOST_BYTES:
            self._readings.popitem(last=False)

    def take(self, text: str, off: Off) -> KeptReading | None:
        """Give a sentence back that was read with these heads off, and let go of it."""
        found = self._readings.pop((text, off), None)
        return None if found is None else found[0]

    def forget(self, text: str) -> None:
        """Let go of a sentence, whatever was switched off."""
        for key in [key for key in self._readings if key[0] == text]:
            del self._readings[key]

    def clear(self) -> bool:
        """Let go of all; say whether there was any."""
        had = bool(self._readings)
        self._readings.clear()
        return had
