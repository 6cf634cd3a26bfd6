"""Spectra of a model of GPT-2-small's shape, by us and others: ``python -m tests.benchmarks.spectra [LAYERS]``.

* The plain way is ``svdvals`` of every slice and of every dense ``d_model × d_model`` product, in float32, as in
  published notebooks.
* TransformerLens, if installed, decomposes the heads' circuits by its ``FactoredMatrix``, in float32.

All work on the same random weights. The engine computes all twelve layers, as it does in the background of the
explorer; the others compute only LAYERS of them (two by default), in between, and their time is scaled up.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from engine.values.options import limit_threads

limit_threads(None)

import numpy as np  # noqa: E402  # the number of threads is set before the libraries are loaded
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from engine.analysis.decompositions import Decomposer  # noqa: E402
from engine.mathematics.measures import energy_rank, numerical_rank  # noqa: E402
from engine.values.progress import finish  # noqa: E402
from engine.values.spectra import FloatArray  # noqa: E402
from tests.benchmarks.machine import machine  # noqa: E402
from tests.engine.mathematics.dense_spectra import Factors, change_all, draw_layer, stacked, weights_of  # noqa: E402

LAYERS, HEADS, WIDTH, D_MODEL = 12, 12, 64, 768
EPSILONS = (0.01, 0.05, 0.1, 0.001)

Way = Callable[[Factors], Any]
Seconds = tuple[float, float]


def drawn(heads: int, shared: int, width: int, d_model: int, seed: int = 0) -> Factors:
    """Draw a layer's weights in float32."""
    return change_all(draw_layer(heads, shared, width, width, d_model, d_model, seed), lambda each: 0.02 * each.float())


def timed(way: Way, layer: Factors) -> tuple[float, Any]:
    start = time.perf_counter()
    values = way(layer)
    return time.perf_counter() - start, values


def dense_heads(factors: Factors) -> dict[str, Tensor]:
    """Decompose every slice and every dense product of a layer's heads with ``svdvals``."""
    query, key, value, output = factors
    dense = {"Q": query, "K": key, "V": value, "O": output}
    dense |= {"QK": query.mT @ key, "OV": value.mT @ output.mT}
    return {matrix: torch.stack([torch.linalg.svdvals(each) for each in batch]) for matrix, batch in dense.items()}


def dense_layer(factors: Factors) -> dict[str, Tensor]:
    """Decompose the six matrices of a whole layer with ``svdvals``."""
    query, key, value, output = factors
    q, k, v, o = (each.flatten(0, 1) for each in (query, key, value, output.mT))
    dense = {"Q": q, "K": k, "V": v, "O": o, "QK": q.T @ k, "OV": v.T @ o}
    return {matrix: torch.linalg.svdvals(each)[None] for matrix, each in dense.items()}


def transformer_lens(factors: Factors) -> None:
    """Decompose the circuits of a layer's heads as TransformerLens does."""
    factored = importlib.import_module("transformer_lens").FactoredMatrix
    query, key, value, output = factors
    for left, right in ((query.mT, key), (value.mT, output.mT)):
        factored(left, right).svd()


def same_ranks(found: dict[str, FloatArray], exact: dict[str, Tensor]) -> tuple[int, int]:
    """Count the energy ranks at several ε and the numerical ranks that agree with dense float64, and all of them."""
    agree = total = 0
    for matrix, rows in found.items():
        truth = exact[matrix].numpy()[:, : rows.shape[1]]
        noise = 2.0**-23 * truth[:, 0]
        pairs = [(energy_rank(rows, epsilon), energy_rank(truth, epsilon)) for epsilon in EPSILONS]
        for ours, theirs in (*pairs, (numerical_rank(rows, noise), numerical_rank(truth, noise))):
            agree += int(np.count_nonzero(ours == theirs))
            total += len(ours)
    return agree, total


def line(name: str, spent: Seconds, ours: Seconds) -> str:
    """Format a way's seconds, and their ratio to ours."""

    def cell(seconds: float, our_seconds: float) -> str:
        return f"{seconds:8.2f} s {seconds / our_seconds:5.1f} ×" if seconds else f"{'—':>18}"

    both = sum(spent) if all(spent) else 0.0
    return f"  {name:<28}{cell(spent[0], ours[0])}{cell(spent[1], ours[1])}{cell(both, sum(ours))}"


def main() -> None:
    """Print seconds and ratios, and how many ranks agree with float64."""
    sample = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    logging.disable(logging.CRITICAL)
    decomposer = Decomposer("auto", print)
    ours: tuple[Way, Way] = (
        lambda layer: stacked(finish(decomposer.heads(weights_of(*layer)))),
        lambda layer: stacked(finish(decomposer.layer(weights_of(*layer)))),
    )
    beside: dict[str, tuple[Way, Way | None]] = {"svdvals of dense matrices": (dense_heads, dense_layer)}
    if importlib.util.find_spec("transformer_lens"):
        beside["TransformerLens, circuits"] = (transformer_lens, None)
    small = drawn(2, 2, 8, 32)
    for way in (*ours, dense_heads, dense_layer):
        way(small)  # the first call of a library takes longer
    spent = {name: [0.0, 0.0] for name in ("engine", *beside)}
    agree = total = 0
    for number in range(LAYERS):
        layer = drawn(HEADS, HEADS, WIDTH, D_MODEL, number)
        found = []
        for place, way in enumerate(ours):
            seconds, values = timed(way, layer)
            spent["engine"][place] += seconds
            found.append(values)
        if number >= sample:
            continue
        for name, ways in beside.items():
            for place, other in enumerate(ways):
                if other is not None:
                    spent[name][place] += timed(other, layer)[0] * LAYERS / sample
        exact = change_all(layer, Tensor.double)
        for values, dense in zip(found, (dense_heads, dense_layer), strict=True):
            right, counted = same_ranks(values, dense(exact))
            agree, total = agree + right, total + counted
    print(f"{LAYERS} layers × {HEADS} heads, d_model {D_MODEL}; {machine()}")
    print(f"  {'':<28}{'all heads':>18}{'whole layers':>18}{'together':>18}")
    for name, (heads, layers) in spent.items():
        print(line(name, (heads, layers), (spent["engine"][0], spent["engine"][1])))
    print(f"  {agree} of {total} ranks are those of dense float64")


if __name__ == "__main__":
    main()
