"""Models in a notebook or a script: every view as a data frame, spectra and maps as arrays."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.checkpoints.locate import BASE
from engine.checkpoints.transformers_library import restoring_transformers
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Head, Off, head_argument, head_text, parse_head, parse_matrix
from engine.values.options import EngineOptions
from engine.values.outline import heads_named
from engine.values.progress import Answer, Work, finish
from engine.values.views import DEFAULT_FIRST, DEFAULT_TOP, HEAD_PARTS, HEADS, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from polars import DataFrame
    from torch import nn

    from engine.values.attention import AttentionMaps
    from engine.values.outline import LayerOutline, ModelOutline

Place: TypeAlias = "int | str | tuple[int, int] | Head | Weights"
"""A layer or a head: ``5``, ``"L5"``, ``"L5H1"`` or ``(5, 1)``; ``"encoder.L5"`` if the model has several stacks.

Also what the model gives: ``model["L5H1"]``, or the name of a layer of its outline.
"""

Layer: TypeAlias = "Place | None"
"""A layer, or a head; None for all."""

HeadOf = int | str | None
"""A head: its number, or its cell of a table, or its name; None for all."""

Heads: TypeAlias = "str | Head | Weights | Sequence[Place]"
"""Heads and layers: their names in one text, ``"L5H1 L6"``, or one by one."""


class Model:
    """An open model. It computes what you ask for, in the calling thread, and keeps what will be used again.

    Name heads and layers as everywhere: ``L5H1``, ``5.1``, ``L5``; ``encoder.L5H1`` if the model has several stacks.
    Requests that cannot be met raise `EngineError`, which says what to do; notices come as warnings. Tables are data
    frames with a row for each head, singular value or token; ``docs/views.md`` describes their columns.

    Attributes
    ----------
    outline : its stacks, layers and heads.
    """

    outline: ModelOutline

    def __init__(self, model: OpenModel, *, is_live: bool = False) -> None:
        self._model, self._is_live, self._lock = model, is_live, Lock()
        self._stacks = model.outline.stacks
        self.outline = model.outline
        model.notify = _warn

    def __repr__(self) -> str:
        outline = self.outline
        lines = [f"{outline.name} · {outline.model_type} · {outline.parameters:,} parameters, {outline.dtype}"]
        for stack in outline.stacks[:3]:
            lines.append(f"{stack}: {_sizes(outline.stack_layers(stack))}")
        if len(outline.stacks) > 3:
            lines.append(f"and {', '.join(outline.stacks[3:])}")
        return "\n".join(lines)

    def __getitem__(self, name: Place) -> Weights:
        """Return the weights of a head, or of all heads of a layer: ``model["L5H1"].W_Q``."""
        return Weights(self._model, self._named(name))

    def _ipython_key_completions_(self) -> list[str]:
        names = (name for each in self.outline.layers for name in (each.name, *each.head_names()))
        return [head_argument(name, self._stacks) for name in names]

    def close(self) -> None:
        """Free its memory; what is asked for later is read and computed anew."""
        self._model.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    __iter__ = __contains__ = None  # its names are those of layers and heads, not numbers from 0 on

    # --- from weights alone

    def spectrum(self, name: Place, matrix: str, *, distance: int | None = None) -> NDArray[np.float64]:
        """Return the singular values of a matrix of a head, or of a whole layer (``"L5"``), largest first.

        Keys and values that heads of a layer share are in its matrix once.
        """
        head, matrix = self._named(name), parse_matrix(matrix)
        self._check_distance(distance)
        [found] = self._finish(self._model.spectra.arrays([head], [matrix], distance))
        return found[matrix].copy()

    def ranks(
        self,
        layer: Layer = None,
        head: HeadOf = None,
        matrix: str | None = None,
        *,
        epsilon: float | None = None,
        distance: int | None = None,
        whole_layers: bool = False,
    ) -> DataFrame:
        """Measure spectra: a row for each head and matrix; with ``whole_layers``, for each whole layer too."""
        query = self._query(layer, head, matrix=matrix, distance=distance, whole_layers=whole_layers)
        return self.table("ranks", replace(query, epsilon=epsilon))

    def singular_values(
        self, layer: Layer = None, head: HeadOf = None, matrix: str | None = None, *, whole_layers: bool = False
    ) -> DataFrame:
        """List singular values beside chance, one a row: the view ``spectrum``."""
        return self.table("spectrum", self._query(layer, head, matrix=matrix, whole_layers=whole_layers))

    def heads(
        self, *parts: str, layer: Layer = None, text: str | None = None, epsilon: float | None = None,
        all_columns: bool = False,
    ) -> DataFrame:  # fmt: skip
        """List the heads with the ranks and circuits that most questions need, from the weights alone.

        Parameters
        ----------
        parts : ``"patterns"`` adds attention patterns, on ``text`` if one is given; ``"ranks"`` or ``"circuits"``
            leaves out the other.
        all_columns : whether the frame has every measure of its parts, beside chance.
        """
        if wrong := [part for part in parts if part not in HEAD_PARTS]:
            raise EngineError(f"there is no part '{wrong[0]}'; choose from {', '.join(HEAD_PARTS)}")
        is_run = "patterns" in parts or text is not None
        from_weights = {"ranks", "circuits"}
        wanted = (from_weights.intersection(parts) or from_weights) | ({"patterns"} if is_run else set())
        query = self._query(layer, text=text, epsilon=epsilon, parts=tuple(sorted(wanted)))
        missing = {column for part in HEAD_PARTS.keys() - wanted for column in HEAD_PARTS[part]}
        frame = self.table("heads", query).drop(*missing, *(() if is_run else ("label",)))
        return frame if all_columns else frame.select(each for each in HEADS.default_columns if each in frame.columns)

    def circuits(
        self,
        layer: Layer = None,
        head: HeadOf = None,
        *,
        distance: int | None = None,
        eigenvalues: bool = False,
        fold_norm: bool = False,
        whole_layers: bool = False,
    ) -> DataFrame:
        """Measure QK and OV as maps: symmetry, copying, ranks, subspaces."""
        query = self._query(layer, head, distance=distance, fold_norm=fold_norm, whole_layers=whole_layers)
        return self.table("circuits", replace(query, eigenvalues=eigenvalues))

    def composition(self, layer: Layer = None, head: HeadOf = None) -> DataFrame:
        """List the earlier heads that feed each head, and how strongly."""
        return self.table("composition", self._query(layer, head))

    def directions(
        self,
        layer: Layer = None,
        head: HeadOf = None,
        matrix: str | None = None,
        *,
        top: int = DEFAULT_TOP,
        first: int = DEFAULT_FIRST,
        fold_norm: bool = False,
        distance: int | None = None,
    ) -> DataFrame:
        """List the tokens at both ends of the singular directions of QK and OV."""
        query = self._query(layer, head, matrix=matrix, distance=distance, fold_norm=fold_norm)
        return self.table("directions", replace(query, top=top, first=first))

    def weights(self, layer: Layer = None, *, norms: bool = False) -> DataFrame:
        """List the parameters, or those of a layer: shape, dtype, size, ties; with ``norms``, the norms too."""
        query = self._query(layer)
        if query.head is not None:
            raise EngineError(
                f"a parameter holds all heads of a layer; ask for {query.layer}, or for model['{layer}'].W_Q"
            )
        return self.table("weights", replace(query, norms=norms))

    def changes(self, other: Model | str | Path | None = None, layer: Layer = None, head: HeadOf = None) -> DataFrame:
        """Compare with another model, most changed heads first.

        Parameters
        ----------
        other : an open model, an id or a folder; None for the one given last, or the base of an adapter.
        """
        model = self._model
        if isinstance(other, Model):
            model.compare_with(other._model)
        elif other is not None or not model.is_comparing:
            model.options = replace(model.options, other=BASE if other is None else _model_name(other))
            model.forget_other()
        return self.table("changes", self._query(layer, head, with_other=True))

    # --- what runs the model

    def attention(self, text: str, layer: Place, *, off: Heads = ()) -> NDArray[np.float32]:
        """Return a layer's attention maps for a sentence, (heads, query, key), or one head's, (query, key)."""
        head = self._named(layer)
        weights = self._maps(text, head, off).weights
        return weights if head.is_layer else weights[head.head]

    def maps(self, text: str, layer: Place, *, off: Heads = ()) -> AttentionMaps:
        """Return a layer's maps with their tokens: ``.weights``, ``.query_tokens``, ``.key_tokens``."""
        head = self._named(layer)
        if not head.is_layer:
            raise EngineError(f"maps are those of a whole layer; give L{head.layer}, or take the head's from attention")
        return self._maps(text, head, off)

    def tokens(self, text: str) -> tuple[str, ...]:
        """Split a sentence into the tokens that the model reads."""
        sentence = self._finish(self._model.spell(Query(text=text).text or ""))
        if sentence.notice:
            _warn(sentence.notice)
        return sentence.tokens

    def patterns(self, layer: Layer = None, head: HeadOf = None, *, text: str | None = None) -> DataFrame:
        """Measure where heads look: entropy, previous token, induction; without a sentence, on random tokens."""
        return self.table("patterns", self._query(layer, head, text=text))

    def rollout(self, text: str) -> DataFrame:
        """Follow attention through all layers: how much of each token reaches each other."""
        return self.table("rollout", Query(text=text))

    def predictions(
        self,
        text: str,
        *,
        position: int | None = None,
        top: int = DEFAULT_TOP,
        off: Heads = (),
        by_mean: bool = False,
        token: str | None = None,
        against: str | None = None,
    ) -> DataFrame:
        """List the likeliest tokens after the token at ``position``, by default the last.

        With heads ``off``, the prediction without them stands beside. With ``against``, columns hold the logit of
        ``token``, by default the likeliest, minus that of ``against``.
        """
        query = Query(text=text, position=position, top=top, token=token, against=against)
        return self.table("predictions", replace(query, off=self._heads(off), by_mean=by_mean))

    def lens(
        self,
        text: str,
        *,
        position: int | Literal["all"] | None = None,
        top: int = DEFAULT_TOP,
        token: str | None = None,
        against: str | None = None,
    ) -> DataFrame:
        """List what the model would predict after each block, at one position (by default the last) or at ``"all"``.

        With ``against``, columns hold the logit difference after each block, as in `predictions`.
        """
        query = Query(text=text, top=top, token=token, against=against, all_positions=position == "all")
        return self.table("lens", query if position == "all" else replace(query, position=position))

    def contributions(
        self, text: str, *, position: int | None = None, token: str | None = None, against: str | None = None
    ) -> DataFrame:
        """Split the logit of ``token``, by default the likeliest, into what heads, MLPs and the embedding add.

        With ``against``, split the difference of the two logits.
        """
        return self.table("contributions", Query(text=text, position=position, token=token, against=against))

    def ablation(
        self,
        text: str,
        layer: Layer = None,
        head: HeadOf = None,
        *,
        off: Heads = (),
        by_mean: bool = False,
        position: int | None = None,
        token: str | None = None,
        against: str | None = None,
        top: int = DEFAULT_TOP,
    ) -> DataFrame:
        """Measure how the prediction changes with heads off: each alone, or those of ``off`` together.

        With ``against``, measure the change of the logit difference too.
        """
        query = self._query(layer, head, text=text, position=position, token=token, against=against, top=top)
        return self.table("ablation", replace(query, off=self._heads(off), by_mean=by_mean))

    def explain(
        self,
        text: str,
        layer: Layer = None,
        head: HeadOf = None,
        *,
        position: int | None = None,
        key: int | None = None,
        top: int = DEFAULT_TOP,
        first: int = DEFAULT_FIRST,
    ) -> DataFrame:
        """Split the score of one query and key into terms that add up to it."""
        query = self._query(layer, head, text=text, position=position, key=key, top=top, first=first)
        return self.table("explain", query)

    def check(self, layer: Layer = None) -> DataFrame:
        """Check for every layer, or for one, that the heads are those that the model computes with."""
        return self.table("check", replace(self._query(layer), head=None))

    # --- any view

    def table(self, view: str, query: Query | None = None) -> DataFrame:
        """Compute the table of a view, by its name on the command line."""
        table = self._finish(tables.table(self._model, view, query or Query()))
        for layer, why in table.left_out.items():
            _warn(f"{layer} is left out: {why}")
        for said in table.lacking:
            _warn(said)
        return table.frame

    def _maps(self, text: str, head: Head, off: Heads) -> AttentionMaps:
        heads_off = Off(self._heads(off)) if off else NOTHING_OFF
        work = self._model.attention(Query(text=text).text or "", head.stack, head.layer, heads_off)
        maps = self._finish(work)
        if maps.sentence.notice:
            _warn(maps.sentence.notice)
        return maps

    def _finish(self, work: Work[Answer]) -> Answer:
        with self._lock, restoring_transformers():
            if self._is_live:
                self._model.forget()  # its weights may have changed
            return finish(work)

    def _check_distance(self, distance: int | None) -> None:
        if distance is None:
            return
        Query(distance=distance)  # raises
        if past := self.outline.past_context(distance):
            _warn(f"distance {distance} is {past}")

    def _named(self, name: Place) -> Head:
        head = parse_head(_text(name), self._stacks)
        self.outline.layer(head)
        return head

    def _heads(self, names: Heads) -> tuple[Head, ...]:
        several = [names] if isinstance(names, str | Head | Weights) else names
        return heads_named(" ".join(map(_text, several)), self.outline)

    def _query(self, layer: Layer, head: HeadOf = None, **narrowed: Any) -> Query:
        """Make a query for a layer or one of its heads; ``layer`` may name a head, and ``head`` its layer, too."""
        place = None if layer is None else self._named(layer)
        self._check_distance(narrowed.get("distance"))
        number = None if place is None or place.is_layer else place.head
        if head is not None:
            name = _text(head).lower()
            if name.isdecimal() or name == "all":
                if place is None:
                    return Query(head=int(name) if name.isdecimal() else -1, **narrowed)
                name = f"{place.stack}.{place.layer}.{name}"
            named = self._named(name)
            if place not in (None, named, named.whole_layer):
                raise EngineError(f"{layer} and head {head} are two places; give one of them")
            place, number = named, named.head
        return Query(layer=None if place is None else place.whole_layer, head=number, **narrowed)


class Weights:
    """The weights of a head, ``W_Q [head_dim, d_model]``, or of all heads of a layer, ``[heads, head_dim, d_model]``.

    ``W_Q``, ``W_K``, ``W_V`` are ``[head_dim, d_model]`` and ``W_O`` is ``[d_model, head_dim]``; a query head has the
    keys and values of its group. Biases, if there are any, are ``b_Q`` to ``b_O``; ``b_O`` is the whole layer's.
    """

    def __init__(self, model: OpenModel, name: Head) -> None:
        self._model, self.name = model, name
        self._read: dict[str, NDArray[Any]] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of all of them by name; they are read once."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self._read is None:
            import numpy as np

            from engine.analysis.weights import arrays_of

            with restoring_transformers():
                by_head = arrays_of(self._model, self._model.outline.layer(self.name.whole_layer))
            of_heads = list(by_head.values())
            self._read = (
                {each: np.stack([arrays[each] for arrays in of_heads]) for each in of_heads[0]}
                if self.name.is_layer
                else by_head[self.name]
            )
        return self._read

    def __getattr__(self, attribute: str) -> NDArray[Any]:
        if not attribute.startswith(("W_", "b_")):
            raise AttributeError(attribute)
        arrays = self._arrays()
        if attribute not in arrays:
            raise AttributeError(f"{self._full_name} has no {attribute}; it has {', '.join(arrays)}")
        return arrays[attribute].copy()

    def __dir__(self) -> Iterator[str]:
        return iter([*super().__dir__(), "W_Q", "W_K", "W_V", "W_O", *(self._read or {})])

    @property
    def _full_name(self) -> str:
        return head_text(self.name, self._model.outline.stacks)

    def __repr__(self) -> str:
        layer = self._model.outline.layer(self.name.whole_layer)
        what = f"{layer.heads} heads" if self.name.is_layer else f"a head of {layer.module}"
        shapes = f"W_Q {layer.head_dim}×{layer.d_model}, W_O {layer.d_output}×{layer.value_head_dim}"
        return f"{self._full_name}: {what}, {shapes}"


def open_model(
    name: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    base: str | None = None,
    layout: str | Path | None = None,
    trust_remote_code: bool = False,
    use_cache: bool = True,
) -> Model:
    """Open a model: find or download its files, and read their headers.

    Parameters
    ----------
    name : an id on the Hugging Face Hub, a folder, a GGUF file, or ``"demo"``.
    device : ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    dtype : in which the model reads sentences; ``auto`` keeps the stored one. Spectra are always float64.
    revision : branch, tag or commit of a model on the Hub.
    base : the model that an adapter changes; None takes the one that the adapter names.
    layout : a file that describes the heads of a bare state dict.
    trust_remote_code : whether code that comes with the model may run.
    use_cache : whether spectra are kept on disk between runs.

    Raises
    ------
    EngineError : if it cannot be found, read or split into heads.

    Examples
    --------
    >>> model = open_model("demo")
    >>> model.spectrum("L0H1", "OV").shape
    (32,)
    """
    options = EngineOptions(
        device=device, dtype=dtype, revision=revision, base=base, layout=None if layout is None else Path(layout),
        trust_remote_code=trust_remote_code, use_cache=use_cache,
    )  # fmt: skip
    with restoring_transformers():
        model = Model(OpenModel.open(_model_name(name), options))
    for note in model.outline.notes:
        _warn(note)
    return model


def open_module(
    module: nn.Module,
    tokenizer: Any = None,
    *,
    name: str = "",
    example: Any = None,
    projections: Sequence[str] = (),
    device: str = "auto",
) -> Model:
    """Open a PyTorch model in memory: of transformers, ``nn.MultiheadAttention``, or written by hand.

    A model of transformers is split into heads by the same rules as a checkpoint. Any other is called once, and its
    heads are found where it computes attention, by the usual names of projections. The model is not changed, and every
    result is that of its present weights.

    Parameters
    ----------
    module : the model, or a part that computes attention.
    tokenizer : of transformers, or anything with ``encode`` and ``decode``; with None, sentences are token ids.
    name : its name; by default its class.
    example : the arguments to call it with for one sentence: one, a tuple or a dictionary; by default made up from its
        embeddings and widths.
    projections : names of the projections of queries, keys, values and outputs beside the attention, if they are
        unusual; name a fused one three times.
    device : where spectra are computed; sentences are read where the model is.

    Raises
    ------
    EngineError : if no attention is found that can be followed, saying why.

    Examples
    --------
    >>> from torch import nn
    >>> model = open_module(nn.MultiheadAttention(32, 4))
    >>> model["L0H1"].W_Q.shape
    (8, 32)
    """
    from engine.models.live_module import ModuleSource

    source = ModuleSource(module, tokenizer, name, example, projections)
    return Model(OpenModel(source, EngineOptions(device=device)), is_live=True)


def _text(name: Place) -> str:
    if isinstance(name, Weights):
        name = name.name
    if isinstance(name, Head):
        return f"{name.stack}.{name}"
    if isinstance(name, str):
        return name
    try:
        return ".".join(str(index(number)) for number in (name if isinstance(name, tuple) else (name,)))
    except TypeError:
        raise EngineError(f"{name!r} is not a layer or a head; write 5, 'L5', 'L5H1' or (5, 1)") from None


def _model_name(name: str | Path) -> str:
    if not isinstance(name, (str, os.PathLike)):
        raise EngineError(f"{type(name).__name__} is not the name of a model; open_module opens one in memory")
    return str(name)


def _warn(said: str) -> None:
    """Warn at the line that called the library."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(f"{Path(__file__).parent}{os.sep}"):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(said, stacklevel=depth)


def _sizes(layers: Sequence[LayerOutline]) -> str:
    first = layers[0]
    heads = quantity(first.heads, "head")
    if first.key_value_heads != first.heads:
        heads += f" on {first.key_value_heads} keys"
    varies = ", sizes vary" if len({(each.heads, each.head_dim, each.d_model) for each in layers}) > 1 else ""
    return f"{quantity(len(layers), 'layer')} of {heads}, d_model {first.d_model}, head_dim {first.head_dim}{varies}"
