"""Browsing checkpoints larger than memory: ``python -m tests.benchmarks.checkpoints [--shape 13b|70b|405b]``.

Writes a checkpoint of the shape to a temporary folder, as sparse files in which the attention of a few layers has
numbers. A separate process measures the time to open it, to compute the first head after ``import torch``, and a
layer's heads, and the largest resident set after each, including mapped files. Then the explorer is started in a
pseudo-terminal and walked to other layers. Only Linux reports the memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.mathematics.chance import chance_of
from engine.values.display_text import size
from engine.values.heads import Head
from engine.values.options import EngineOptions, limit_threads
from engine.values.progress import finish
from tests.benchmarks.machine import apart, environment, resident_mib
from tests.sparse_checkpoints import SHAPES, write_checkpoint
from tests.terminal import COMMAND, FIRST_HEAD, Terminal

LAYERS = 3
"""The layers with numbers."""

SECONDS = 120.0
"""How long a layer's heads may take in the explorer."""


def peak(process: int | str = "self") -> str:
    return size(round(resident_mib(True, process) * 2**20))


def step(label: str, work: Callable[[], object]) -> None:
    """Run a step; print its time and the largest resident set so far."""
    start = time.perf_counter()
    work()
    print(f"  {label:<44}{time.perf_counter() - start:8.2f} s {peak():>10}", flush=True)


def inside(folder: str) -> None:
    """Measure the engine in this process."""
    limit_threads(None)
    from engine.analysis.open_model import OpenModel

    options = EngineOptions(device="cpu", use_cache=False, is_browsing=True)
    opened: list[OpenModel] = []
    step("open: find, read all headers", lambda: opened.append(OpenModel.open(folder, options, lambda progress: None)))

    def import_torch() -> None:
        import torch  # noqa: F401  # the import itself is timed

    step("import torch", import_torch)
    session = opened[0]
    step("first head's six spectra", lambda: finish(session.spectra.head(Head("decoder", 0, 0))))

    def spectra_of(layer: Head) -> None:
        finish(session.spectra.layer(layer, False))

    for number in range(LAYERS):
        name = Head("decoder", number)
        step(f"all heads of layer {number}", partial(spectra_of, name))
    layer = session.outline.layer(Head("decoder", 0))
    step("chance for heads", lambda: chance_of(layer, False))


def explorer(folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as cache,
        Terminal(COMMAND, str(folder), "--text", "", environment=environment(cache)) as terminal,
    ):
        frame = terminal.wait_for("sentence")
        head = terminal.wait_for(FIRST_HEAD, SECONDS)
        print(f"  {'explorer: first frame after the start':<44}{frame:8.2f} s")
        print(f"  {'explorer: first head after the start':<44}{head:8.2f} s {peak(terminal.process):>10}")
        terminal.send("1t")
        terminal.settle()
        for layer in range(1, LAYERS):
            since = len(terminal.output)
            pressed = time.monotonic() - terminal.started
            terminal.send("}")
            named = terminal.wait_for(f"L{layer}H0", SECONDS, since) - pressed
            shown = terminal.wait_for("σ₁", SECONDS, since) - pressed
            label = f"explorer: key to L{layer}H0's name, its spectra"
            print(f"  {label:<44}{named:8.2f} s {shown:8.2f} s {peak(terminal.process):>10}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="13b")
    chosen = parser.parse_args()
    shape = SHAPES[chosen.shape]
    with tempfile.TemporaryDirectory() as place:
        folder = write_checkpoint(Path(place) / chosen.shape, shape, filled=tuple(range(LAYERS)))
        files = list(folder.glob("*.safetensors"))
        total = size(sum(file.stat().st_size for file in files))
        print(
            f"{chosen.shape}: {total} in {len(files)} files; the largest resident set so far at the right", flush=True
        )
        apart(inside, str(folder))
        explorer(folder)


if __name__ == "__main__":
    main()
