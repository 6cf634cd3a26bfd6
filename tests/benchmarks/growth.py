"""The cost of spectra by layers, heads, widths and shared keys: ``python -m tests.benchmarks.growth [--large]``.

Each line comes from a separate process: seconds for all heads and for all whole layers of a model of that shape, and
the largest growth of the resident memory since the first layer. Of many layers only a few are computed, and the time is
scaled up. ``--large`` adds the shapes of models of 8 and 70 billion parameters, on the GPU if there is one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from engine.values.options import limit_threads
from tests.benchmarks.machine import apart, forget_peak, resident_mib

MOST_LAYERS = 12
"""The most layers that are computed; the time of more is scaled up."""


@dataclass(frozen=True)
class Shape:
    """A model's shape; ``whole`` says whether its whole layers are decomposed too."""

    name: str
    layers: int
    heads: int
    shared: int
    width: int
    d_model: int
    whole: bool = True


SHAPES = (
    Shape("GPT-2 small", 12, 12, 12, 64, 768),
    Shape("twice the layers", 24, 12, 12, 64, 768),
    Shape("twice the heads", 12, 24, 24, 32, 768),
    Shape("half the width of a head", 12, 12, 12, 32, 768),
    Shape("twice the width of a head", 12, 12, 12, 128, 768),
    Shape("a quarter of the keys", 12, 12, 3, 64, 768),
    Shape("half of d_model", 12, 6, 6, 64, 384),
    Shape("one and a half of d_model", 12, 18, 18, 64, 1152),
)
LARGE = (
    Shape("8 billion parameters", 32, 32, 8, 128, 4096, whole=False),
    Shape("70 billion parameters", 80, 64, 8, 128, 8192, whole=False),
)


def measure(shape: Shape) -> dict[str, float]:
    """Compute a model's spectra in this process."""
    limit_threads(None)

    from engine.analysis.decompositions import Decomposer
    from engine.values.progress import finish
    from tests.benchmarks.spectra import drawn
    from tests.engine.mathematics.dense_spectra import weights_of

    decomposer = Decomposer("auto", print)
    layer = weights_of(*drawn(shape.heads, shape.shared, shape.width, shape.d_model))
    finish(decomposer.heads(weights_of(*drawn(2, 2, 8, 32))))
    spent = {"heads": 0.0, "layers": 0.0}
    forget_peak()
    before = resident_mib()
    computed = min(shape.layers, MOST_LAYERS if shape.whole else 4)
    for _ in range(computed):
        start = time.perf_counter()
        finish(decomposer.heads(layer))
        middle = time.perf_counter()
        if shape.whole:
            finish(decomposer.layer(layer))
        spent["heads"] += middle - start
        spent["layers"] += time.perf_counter() - middle
    scaled = {kind: seconds * shape.layers / computed for kind, seconds in spent.items()}
    return {**scaled, "memory": resident_mib(peak=True) - before}


def main() -> None:
    print(f"{'':<28}{'layers':>7}{'heads':>7}{'keys':>6}{'width':>7}{'d_model':>9}", end="")
    print(f"{'heads':>10}{'layers':>10}{'memory':>10}")
    for shape in (*SHAPES, *(LARGE if "--large" in sys.argv else ())):
        found = apart(measure, shape)
        layers = f"{found['layers']:8.2f} s" if shape.whole else f"{'—':>10}"
        counts = f"{shape.layers:7d}{shape.heads:7d}{shape.shared:6d}{shape.width:7d}{shape.d_model:9d}"
        print(f"{shape.name:<28}{counts}{found['heads']:8.2f} s{layers}{found['memory']:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
