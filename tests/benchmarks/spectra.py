"""All spectra of a GPT-2-small-shaped model, against the plain way: ``python -m tests.benchmarks.spectra [LAYERS]``.

The plain way is ``svdvals`` of every slice and of every dense ``d_model × d_model`` product, in float32, as published
notebooks do it. Both run in this process, one after the other, on the same random weights; the plain way on the first
layers only (two unless LAYERS says otherwise) and scaled up, because it is the same work in each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from engine.service.options import limit_threads

threads = limit_threads(None)

import numpy as np  # noqa: E402  # the number of threads is set before the libraries are loaded
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from engine.mathematics.measures import energy_rank  # noqa: E402
from engine.mathematics.spectra import head_singular_values, layer_matrix  # noqa: E402
from engine.values.heads import MATRICES  # noqa: E402

LAYERS, HEADS, WIDTH, D_MODEL = 12, 12, 64, 768
Factors = tuple[Tensor, Tensor, Tensor, Tensor]


def timed(work: Callable[[], object]) -> float:
    """Run work once and give the seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain_heads(factors: Factors) -> dict[str, Tensor]:
    """Take every slice and every dense product of a layer's heads through ``svdvals``."""
    query, key, value, output = factors
    dense = {"Q": query, "K": key, "V": value, "O": output}
    dense |= {"QK": query.mT @ key, "OV": value.mT @ output.mT}
    return {matrix: torch.stack([torch.linalg.svdvals(each) for each in batch]) for matrix, batch in dense.items()}


def plain_layer(factors: Factors) -> None:
    """Take the six matrices of a whole layer through ``svdvals``."""
    query, key, value, output = factors
    stacked = [each.flatten(0, 1) for each in (query, key, value, output.mT)]
    for each in (*stacked, stacked[0].T @ stacked[1], stacked[2].T @ stacked[3]):
        torch.linalg.svdvals(each)


def main() -> None:
    """Print seconds and ratios, and whether the energy ranks agree with float64."""
    sample = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape) * 0.02

    shape = (HEADS, WIDTH, D_MODEL)
    model: list[Factors] = [
        (draw(*shape), draw(*shape), draw(*shape), draw(HEADS, D_MODEL, WIDTH)) for _ in range(LAYERS)
    ]
    head_singular_values(*model[0])
    heads = timed(lambda: [head_singular_values(*factors) for factors in model])
    layers = timed(lambda: [layer_matrix(matrix, *factors) for factors in model for matrix in MATRICES])
    scale = LAYERS / sample
    plain = timed(lambda: [plain_heads(factors) for factors in model[:sample]]) * scale
    plain_layers = timed(lambda: list(map(plain_layer, model[:sample]))) * scale
    print(f"{LAYERS} layers × {HEADS} heads, d_model {D_MODEL}, {threads} threads, torch {torch.__version__}")
    print(f"  heads         engine {heads:6.2f} s   plain {plain:6.2f} s   ratio {plain / heads:5.1f}")
    print(f"  whole layers  engine {layers:6.2f} s   plain {plain_layers:6.2f} s   ratio {plain_layers / layers:5.1f}")
    both, plain_both = heads + layers, plain + plain_layers
    print(f"  together      engine {both:6.2f} s   plain {plain_both:6.2f} s   ratio {plain_both / both:5.1f}")
    exact = plain_heads(tuple(factor.double() for factor in model[0]))  # type: ignore[arg-type]
    engine = head_singular_values(*model[0])
    same = all(
        np.array_equal(energy_rank(engine[matrix].numpy()), energy_rank(exact[matrix].numpy()[:, :WIDTH]))
        for matrix in MATRICES
    )
    print(f"  energy ranks of the first layer's heads are those of dense float64: {same}")


if __name__ == "__main__":
    main()
