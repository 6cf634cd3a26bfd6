"""What a model is opened from: a folder, a module in memory, an adapter, a bare file; each gives the same things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.architectures.outline import Anatomy
from engine.architectures.tensors import Tensors
from engine.values.attention import Sentence
from engine.values.memory import SentenceNeed
from engine.values.model import Parameter

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.maps import MapReader


Frame = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of special tokens before, and after, a sentence."""


class Words(Protocol):
    """What turns text into the ids that a model reads, and ids into texts that a screen can show."""

    @property
    def limit(self) -> int | None:
        """The longest sentence it is made for, in tokens, or None."""

    @property
    def mask(self) -> int | None:
        """The id of the token that masked models fill in, or None."""

    @property
    def special(self) -> frozenset[int]:
        """The ids of tokens that stand for no text."""

    def read(self, text: str, context: int | None) -> Sentence:
        """Turn a sentence into ids."""

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Give the text of each id."""

    def known(self, rows: int) -> Sequence[int]:
        """List the ids below a number of embedding rows that are tokens; rows may be there for padding alone."""

    def ordinary(self, rows: int) -> Sequence[int]:
        """List those of the `known` ids that stand for text, and are neither special nor placeholders."""

    def frame(self) -> Frame:
        """Give the special tokens that are put around a sentence."""


@dataclass(frozen=True)
class Loaded:
    """A model that can read sentences.

    Attributes
    ----------
    model : the module itself, in the state in which it computes and not learns.
    words : what makes ids of text.
    device : where it is.
    is_borrowed : whether it belongs to somebody else, who finds it afterwards as it was.
    """

    model: Any
    words: Words
    device: str
    is_borrowed: bool = False


class Source(Protocol):
    """A model that is taken apart into heads, and that may read sentences."""

    @property
    def tensors(self) -> Tensors:
        """Its tensors by name."""

    @property
    def anatomy(self) -> Anatomy:
        """Where among them each layer's attention is."""

    @property
    def identity(self) -> str | None:
        """What changes when the weights may have; None where nothing can tell, so that nothing is kept on disk."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold its weights; none where they are in memory."""

    def sentence_need(self, dtype: str) -> SentenceNeed | None:
        """Estimate what reading a sentence takes; None where the model is in memory already, or cannot be run."""

    def reader(self, device: str, dtype: str) -> MapReader:
        """Make the model ready to read sentences.

        Parameters
        ----------
        device : as torch names it, or `engine.values.memory.ACROSS_DEVICES`.
        dtype : ``auto`` keeps the stored one.

        Raises
        ------
        EngineError : when it cannot be run, saying why.
        """

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List its tensors, and the names that the model ties to one of them.

        Parameters
        ----------
        with_ties : without, what is tied is shown only where that is known at once.
        """

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor, at most `engine.architectures.tensors.PART` at a time.

        Raises
        ------
        EngineError : when it cannot be read.
        """

    def settings(self) -> Mapping[str, Any]:
        """Give its configuration with the defaults of its type filled in; empty where it has none."""

    def words(self) -> Words:
        """Give what makes texts of ids, without loading the model.

        Raises
        ------
        EngineError : when there is none that opens.
        """
