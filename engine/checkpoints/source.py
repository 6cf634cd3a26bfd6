"""What a model is opened from: a folder, a module in memory, an adapter, a bare file; each gives the same things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.architectures.outline import Anatomy
from engine.architectures.tensors import Tensors
from engine.values.memory import SentenceNeed
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import Tensor


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
