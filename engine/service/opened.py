"""A model opened from a script or a debugger: the same heads, spectra, tables and maps that the explorer shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.mathematics.measures import DEFAULT_EPSILON
from engine.mathematics.tabulate import ranks_table, spectrum_table
from engine.models.live import ModuleSource
from engine.service.options import EngineOptions
from engine.service.session import Session
from engine.service.worked_out import WorkedOut
from engine.values.attention import AttentionMaps
from engine.values.errors import EngineError
from engine.values.heads import Head, parse_head
from engine.values.model import ModelOutline, Parameter
from engine.values.proof import LayerProof
from engine.values.spectra import SpectraGroup, Spectrum
from engine.values.tables import Table
from engine.values.view import Query
from engine.values.views import VIEWS

if TYPE_CHECKING:
    import numpy as np
    from torch import nn


def _at_once() -> None:
    """Work without looking for anything more urgent."""


class OpenModule:
    """A module in memory. Everything is computed when it is asked for, in the thread that asks.

    Layers and heads are named as everywhere: ``L5H1``, ``5.1``, ``L5`` for a layer, ``encoder.L5H1`` where a model has
    several stacks. Each method raises `EngineError` for a name that the model does not have.
    """

    def __init__(self, module: nn.Module, tokenizer: Any, name: str, example: Any, options: EngineOptions) -> None:
        self._session = Session(ModuleSource(module, tokenizer, name, example), options)

    @property
    def outline(self) -> ModelOutline:
        """Its stacks, layers and heads, and what changes their circuits."""
        return self._session.outline

    def weights(self, head: str) -> dict[str, np.ndarray[Any, Any]]:
        """Give a head's ``W_Q, W_K [head_dim, d_model]``, ``W_V [head_dim_v, d_model]``, ``W_O [d_model, head_dim_v]``.

        Biases ``b_Q`` to ``b_O`` stand beside them where the model has them; ``b_O`` is the whole layer's.

        Raises
        ------
        EngineError : when the model has no such head.
        """
        name = self._named(head)
        if name.is_layer:
            raise EngineError(f"'{head}' is a whole layer; name one of its heads, such as {name}H0")
        return self._session.arrays(name.whole_layer)[name]

    def spectra(self, layer: str, whole_layer: bool = False) -> SpectraGroup:
        """Give the singular values of all heads of a layer, or of the layer as a whole."""
        self._session.forget()
        return self._session.spectra(self._named(layer).whole_layer, whole_layer, _at_once)

    def ranks(self, epsilon: float = DEFAULT_EPSILON) -> Table:
        """Measure every head, every whole layer and every matrix: the table of ``attn-tui export MODEL ranks``."""
        return ranks_table(self._batches(), epsilon)

    def spectrum(self) -> Table:
        """List every singular value: the table of ``attn-tui export MODEL spectrum``."""
        return spectrum_table(self._batches())

    def attention(self, text: str, layer: str) -> AttentionMaps:
        """Give the attention maps of all heads of a layer for a sentence."""
        name = self._named(layer)
        return self._session.attention(text, name.stack, name.layer, _at_once)

    def check(self) -> tuple[LayerProof, ...]:
        """Prove every layer's heads against the module's own numbers."""
        return tuple(proof for proof, _ in self._session.proofs(_at_once))

    def parameters(self) -> tuple[Parameter, ...]:
        """List the module's parameters."""
        return self._session.parameters()

    def table(self, view: str, query: Query | None = None) -> Table:
        """Work out a table of `engine.values.views.VIEWS`: the table of ``attn-tui export MODEL view``.

        Parameters
        ----------
        view : its name, such as ``circuits`` or ``weights``.
        query : which part of it; everything unless given.

        Raises
        ------
        EngineError : when there is no such table, or it cannot be had of this model.
        """
        if view not in VIEWS:
            raise EngineError(f"there is no table '{view}'; there are {', '.join(VIEWS)}")
        self._session.forget()
        return WorkedOut(self._session).table(view, query or Query(), _at_once)

    def _named(self, text: str) -> Head:
        """Read the name of a head or layer that the model has."""
        name = parse_head(text, self.outline.stacks)
        self.outline.layer(name)
        return name

    def _batches(self) -> Iterator[list[Spectrum]]:
        """Go through the spectra of every layer: its heads, then the layer as a whole."""
        self._session.forget()
        for layer in self.outline.layers:
            for whole_layer in (False, True):
                yield self._session.spectra(layer.name, whole_layer, _at_once).listed()
