"""A model beside the second one that its options name: spectra, sentences and maps of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from engine.analysis.open_model import OpenModel, place
from engine.values.attention import AttentionMap, AttentionMaps
from engine.values.errors import EngineError, NotFinite
from engine.values.heads import MATRICES, Head
from engine.values.progress import Work
from engine.values.spectra import SpectraGroup

Maps = TypeVar("Maps", AttentionMap, AttentionMaps)


def other_spectra(
    model: OpenModel, layer: Head, whole_layer: bool, matrices: tuple[str, ...] = MATRICES, distance: int | None = None
) -> Work[SpectraGroup]:
    """Give the second model's spectra, as `SpectraStore.layer` does.

    Raises
    ------
    EngineError : when the layers cannot be compared.
    NotFinite : naming the second model, when its layer holds NaN or infinite numbers.
    """
    other = yield from model.other()
    model.comparison.check(layer)
    try:
        return (yield from other.spectra.layer(layer, whole_layer, matrices, distance))
    except NotFinite as error:
        raise NotFinite(f"in {other.outline.name} {error.what}") from error


def check_both_read(model: OpenModel, text: str) -> Work[OpenModel]:
    """Refuse a sentence that the two models read as other tokens, or for which both do not fit into memory.

    Neither is loaded for it; the second one is given.
    """
    other = yield from model.other()
    own = (yield from model.spell(text)).tokens
    theirs = (yield from other.spell(text)).tokens
    if own != theirs:
        shared = min(len(own), len(theirs))
        at = next((n for n in range(shared) if own[n] != theirs[n]), shared)
        one, two = (tokens[at] if at < len(tokens) else "nothing" for tokens in (own, theirs))
        raise _other_tokens(model, other, f"token {at} is '{one}' for the first and '{two}' for the second")
    own_need, their_need = (each.source.sentence_need(model.options.dtype) for each in (model, other))
    if not (model.is_loaded or other.is_loaded or own_need is None or their_need is None):
        names = f"{model.outline.name} beside {other.outline.name}"
        if refusal := place(names, own_need.plus(their_need), model.options.device).refusal:
            raise EngineError(refusal)
    return other


def check_maps_of_both(model: OpenModel, text: str, stack: str, layer: int | None) -> Work[OpenModel]:
    """Refuse maps that have no difference, before either model is loaded, and give the second one."""
    yield from model.other()
    if layer is None:
        model.comparison.check_stack(stack)
    else:
        model.comparison.check(Head(stack, layer))
    return (yield from check_both_read(model, text))


def attention_of_both(model: OpenModel, text: str, stack: str, layer: int | None) -> Work[AttentionMaps]:
    """Give maps as `OpenModel.attention` does, with the second model's as their ``other``.

    Raises
    ------
    EngineError : when the layers cannot be compared, the models read other tokens, or both do not fit into memory.
    """
    other = yield from check_maps_of_both(model, text, stack, layer)
    own = yield from model.attention(text, stack, layer)
    return beside_other(model, other, own, (yield from other.attention(text, stack, layer)))


def beside_other(model: OpenModel, other: OpenModel, own: Maps, theirs: Maps) -> Maps:
    """Put the second model's maps beside a model's own, whose cells must be of the same tokens."""
    if (own.query_tokens, own.key_tokens) != (theirs.query_tokens, theirs.key_tokens):
        raise _other_tokens(model, other, "the maps of both have other tokens along their sides")
    return replace(own, other=theirs.weights)


def _other_tokens(model: OpenModel, other: OpenModel, how: str) -> EngineError:
    names = f"{model.outline.name} and {other.outline.name}"
    return EngineError(f"{names} read this sentence as other tokens, so they cannot be compared on it: {how}")
