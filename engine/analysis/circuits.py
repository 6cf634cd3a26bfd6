"""The rows of ``circuits``: measures of QK and OV as maps, of heads and whole layers, beside chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.analysis.layers import measure_cells, place_cells, wanted_heads, wanted_parts
from engine.analysis.open_model import OpenModel
from engine.analysis.spectra import spectra_group
from engine.analysis.token_tables import mean_row, token_map, token_tables
from engine.architectures.heads import LayerWeights
from engine.architectures.vocabulary import Vocabulary, final_gain, gain_before, read_gain
from engine.mathematics.circuits import (
    FACTORS_OF,
    CircuitSettings,
    LayerFactors,
    Numbers,
    chance_ranks,
    circuit_chance,
    factor_heads,
    factor_layer,
    measure_circuits,
    spectra_of,
)
from engine.mathematics.measures import cosine_noise, numerical_rank
from engine.mathematics.scores import rotate_keys
from engine.mathematics.threads import run_in_rounds
from engine.models.rotations import rotation_of
from engine.values import memory
from engine.values.memory import token_map_room
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Work, finish
from engine.values.spectra import FloatArray, Spectrum
from engine.values.table import Groups, RowGroup
from engine.values.views import CIRCUITS, Query

Ranks = Mapping[str, NDArray[np.int64]]

SHARED_AT_ONCE = 3
"""Key/value heads, with the query heads that share them, in a piece of the work."""

QUICK = 1024
"""The width up to which eigenvalues of whole layers are always computed: three problems of 0.1 to 0.6 s a layer."""


@dataclass(frozen=True)
class CircuitMeasures:
    """The measures of a layer's heads, or of the whole layer, by head number (-1 for the layer) and column.

    ``lacking`` says what is missing, and why.
    """

    own: Mapping[int, Numbers]
    chance: Numbers
    lacking: tuple[str, ...]


def circuits_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Compute the rows of one layer's heads, and of the whole layer if the query wants it."""
    for whole_layer in wanted_parts(query):
        found = yield from measure_layer(model, layer, whole_layer, query)
        yield RowGroup(
            [
                (*place_cells(layer, number), *measure_cells(CIRCUITS.columns[3:], own, found.chance))
                for number, own in found.own.items()
            ],
            lacking=found.lacking,
        )


def measure_layer(model: OpenModel, layer: LayerOutline, whole_layer: bool, query: Query) -> Work[CircuitMeasures]:
    """Measure the circuits of a layer's heads, or of the whole layer.

    Raises
    ------
    LayerLeftOut : if the weights hold NaN or infinite numbers.
    EngineError : if the query asks for rotary positions or norms that are not known.
    """
    lane = Lane.LAYERS if whole_layer else Lane.WEIGHTS
    yield lane
    weights = model.layer_weights(layer.name)
    factors = query_factors(model, layer, weights, query)
    if query.fold_norm:  # gains do not change how finely weights are stored
        stored = {
            matrix: np.full_like(each, each.max()) if whole_layer else each for matrix, each in weights.epsilons.items()
        }
        folded = LayerWeights(*factors, stored)
        rows = yield from model.spectra.decompose(folded, whole_layer)
        group = spectra_group(layer, [layer.name] if whole_layer else list(layer.head_names()), rows)
    else:
        group = yield from model.spectra.layer(layer.name, whole_layer, distance=query.distance)
    numbers = [-1] if whole_layer else wanted_heads(layer, query)
    spectra = [group.spectra[number] for number in numbers]
    ranks = {
        matrix: np.array([numerical_rank(own[matrix].singular_values, own[matrix].noise) for own in spectra])
        for matrix in spectra[0]
    }
    noise = np.array([own["QK"].noise for own in spectra])
    tolerance = {
        circuit: cosine_noise(max(layer.shape(circuit, False)), max(weights.epsilons[each].max() for each in circuit))
        for circuit in FACTORS_OF
    }
    # Attention across stacks has two residual streams, so that no circuit maps a space to itself.
    is_across = layer.stack == "cross"
    compared = frozenset(each for each in FACTORS_OF if len({*layer.shape(each, False)}) == 1 and not is_across)
    token_map = yield from _token_map(model, layer, query.fold_norm)
    has_eigenvalues = not whole_layer or query.eigenvalues or layer.d_model <= QUICK
    solved = spectra_of(compared, token_map is not None) if has_eigenvalues else ()
    settings = CircuitSettings(compared, tolerance, not whole_layer, solved, token_map)
    yield lane
    chosen = factors if whole_layer else select_heads(factors, numbers)
    own = yield from _measure_factors(model, chosen, ranks, noise, settings)
    chance = yield from _chance(model, layer, spectra[0], settings)
    lacking = token_tables(model).lacking(layer.stack, "ov_copying")
    return CircuitMeasures(dict(zip(numbers, own, strict=True)), chance, lacking)


def query_factors(model: OpenModel, layer: LayerOutline, weights: LayerWeights, query: Query) -> LayerFactors:
    """Return a layer's W_Q, W_K, W_V and W_O by head, with the rotation and the folded norm that a query asks for.

    At a distance, rows of W_K are rotated like keys so many tokens before the query. A folded norm multiplies the
    columns of W_Q, W_K and W_V by its gain.

    Raises `EngineError` if the layer's rotary positions, or the norm before it, are not known.
    """
    source = model.source
    own, key, value, output = weights.factors
    if query.distance is not None:
        key = rotate_keys(key, rotation_of(model.outline, layer, source.settings(), source.tensors), query.distance)
    if query.fold_norm:
        gain = read_gain(source.tensors, gain_before(model.outline, layer, source.tensors.entries))
        own, key, value = own * gain, key * gain, value * gain
    return own, key, value, output


def select_heads(factors: LayerFactors, numbers: list[int]) -> LayerFactors:
    """Select the factors of some heads, with shared keys and values copied; of all heads unchanged."""
    query, key, value, output = factors
    if len(numbers) == len(query):
        return factors
    shared = [number // (len(query) // len(key)) for number in numbers]
    return query[numbers], key[shared], value[shared], output[numbers]


def _measure_factors(
    model: OpenModel, factors: LayerFactors, ranks: Ranks, noise: FloatArray, settings: CircuitSettings
) -> Work[list[Numbers]]:
    if not settings.of_heads:
        with model.reporter("measuring the whole layer", "problems") as report:
            return (yield from measure_circuits(factor_layer(factors), ranks, noise, settings, report.step))
    group, heads = len(factors[0]) // len(factors[1]), len(factors[0])
    pieces: list[Callable[[], list[Numbers]]] = []
    for start in range(0, len(factors[1]), SHARED_AT_ONCE):
        shared = slice(start, start + SHARED_AT_ONCE)
        own = slice(group * start, group * (start + SHARED_AT_ONCE))
        part = factors[0][own], factors[1][shared], factors[2][shared], factors[3][own]
        own_ranks = {name: each[own] for name, each in ranks.items()}
        pieces.append(partial(_measure_heads, part, own_ranks, noise[own], settings))
    with model.reporter("measuring circuits", "heads") as report:
        report(0, heads)
        found = yield from run_in_rounds(pieces, done=lambda done: report(done * heads // len(pieces), heads))
    return [row for rows in found for row in rows]


def _measure_heads(factors: LayerFactors, ranks: Ranks, noise: FloatArray, settings: CircuitSettings) -> list[Numbers]:
    return finish(measure_circuits(factor_heads(factors), ranks, noise, settings))


def _chance(
    model: OpenModel, layer: LayerOutline, spectra: Mapping[str, Spectrum], settings: CircuitSettings
) -> Work[Numbers]:
    """Measure Gaussian factors of a layer's shapes, stored as finely, once for layers of one shape."""
    ranks = chance_ranks(layer, not settings.of_heads, {matrix: each.chance_noise for matrix, each in spectra.items()})
    shape = replace(layer, stack="", layer=0, module="", marks=())
    of = (*ranks.items(), settings.of_heads, settings.compared, settings.spectra, *sorted(settings.tolerance.items()))
    yield None
    return model.cached(("chance of circuits", shape, of), partial(circuit_chance, layer, ranks, settings))


def _token_map(model: OpenModel, layer: LayerOutline, is_folded: bool) -> Work[Tensor | None]:
    """Compute ``W_Uᵀ W_E`` in float64, once for every pair of tables; None if the layer's OV leads to no tokens.

    With the last norm folded in, it is ``diag(g) (W_U − 1 mᵀ)ᵀ W_E``, where g is the norm's gain and m the mean of the
    unembedding over the tokens, which changes all logits alike.
    """
    tables = token_tables(model)
    found = tables.sound(layer.stack)
    source, unembedding = found.source, found.unembedding
    if source is None or unembedding is None or source != found.queries:
        return None
    shapes = tables.shape(source), tables.shape(unembedding)
    if shapes[0][0] != shapes[1][0] or (shapes[0][1], shapes[1][1]) != (layer.d_values, layer.d_output):
        return None
    known = model.cached("token maps", dict[Vocabulary, Tensor | None])
    if found not in known:
        has_room, notice = token_map_room(layer, model.options.is_browsing, memory.free_memory())
        if notice:
            model.notify(notice)
        if not has_room:
            known[found] = None
        else:
            with model.reporter("computing token maps", "tokens") as report:
                target = None if source == unembedding else tables.rows(unembedding)
                known[found] = yield from token_map(tables.rows(source), target, report)
    plain = known[found]
    if plain is None or not is_folded:
        return plain
    gain = final_gain(model.outline, layer, model.source.tensors.entries)

    def folded() -> Tensor:
        centred = plain - shapes[0][0] * torch.outer(mean_row(tables.rows(unembedding)), mean_row(tables.rows(source)))
        return centred.mul_(read_gain(model.source.tensors, gain)[:, None])

    return model.cached(("folded token map", found, gain), folded)
