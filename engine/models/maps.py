"""What gives attention maps layer by layer, and the mean over layers that follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.model import ModelOutline

if TYPE_CHECKING:
    from engine.models.witness import Observation


class MapReader(ABC):
    """A model that reads sentences and gives attention maps, one layer's at a time."""

    def __init__(self, outline: ModelOutline) -> None:
        self._outline = outline

    @abstractmethod
    def read(self, text: str, breathe: Callable[[], None]) -> Sentence:
        """Run the model on a sentence, unless it is the one that was read last.

        Parameters
        ----------
        text : the sentence.
        breathe : called before every attention module; it may raise to give up.

        Raises
        ------
        EngineError : when the sentence is empty, or the model fails on it.
        """

    @abstractmethod
    def layer_maps(self, layer: Head) -> AttentionMaps:
        """Recompute the maps of all heads of one layer for the sentence that was read last.

        Raises
        ------
        EngineError : when the layer was not run, or has no maps to show, saying why.
        """

    @abstractmethod
    def observe(self, breathe: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads a few tokens, for `engine.models.proof.prove`."""

    def mean_over_layers(self, stack: str, breathe: Callable[[], None]) -> AttentionMaps:
        """Average the maps over a stack's layers, head by head, holding one layer's maps at a time.

        Raises
        ------
        EngineError : when the layers differ in their number of heads, so that no head has a counterpart.
        """
        layers = self._outline.stack_layers(stack)
        if len({layer.heads for layer in layers}) > 1:
            raise EngineError("the layers differ in their number of heads, so there is no mean over layers by head")
        total: np.ndarray[Any, np.dtype[np.float64]] | None = None
        for layer in layers:
            breathe()
            maps = self.layer_maps(layer.name)
            total = maps.weights.astype(np.float64) if total is None else total + maps.weights
        if total is None:
            raise EngineError(f"{self._outline.name} has no stack '{stack}'")
        mean = (total / len(layers)).astype(np.float32)
        return AttentionMaps(maps.sentence, stack, None, maps.query_tokens, maps.key_tokens, mean)
