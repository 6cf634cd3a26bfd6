"""The speed of the explorer in a pseudo-terminal: ``python -m tests.benchmarks.terminal [MODEL]``.

Prints each figure beside its budget: the time to the first frame of the explorer and of a minimal Textual application,
to the first head (without and with the cache of spectra), of keys while the model is loaded and computed, gaps of the
event loop, the bytes of a key and the time to the last of them, the bytes of an idle second, and the time to quit.
First on a quiet machine, then beside a process that keeps a core busy; ``--quiet`` skips the second round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.machine import environment
from tests.terminal import COMMAND, FIRST_HEAD, Terminal
from tui.views.overview_view import PAUSE

SENTENCE = "the cat sat on the mat and the dog sat on the cat and then the cat and the dog sat on the mat again"
SIZES = ((80, 24), (160, 50))

MOVE = 2000
"""The budget for a cursor's move, in bytes."""

BUSY_SECONDS = 7.0
"""Seconds from the start of the program in which keys are pressed while it is busy."""

STARTS = 3
"""Starts that are measured; the median counts."""

PROBLEM = "import numpy as np\na = np.random.default_rng(0).normal(size=(400, 400))\nwhile True: np.linalg.svd(a)"
"""The work of the process that keeps a core busy."""

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("sentence")
Minimal().run()
"""
"""The fastest start of a Textual application on this machine."""


HEARTBEAT = """
import asyncio, json, sys, time
import tui.app.explorer
from tui.cli.command_line import main

place, gaps = sys.argv.pop(1), [0.0, 0.0]

def has_torch():
    torch = sys.modules.get("torch")
    return torch is not None and not torch.__spec__._initializing

async def beat():
    was_there, last = False, time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now, is_there = time.perf_counter(), has_torch()
        gaps[was_there] = max(gaps[was_there], (now - last - 0.001) * 1e3)
        was_there, last = is_there, now

class Watched(tui.app.explorer.Explorer):
    async def _begin(self):
        self.beating = asyncio.create_task(beat())
        await super()._begin()

    async def action_quit(self):
        with open(place, "w") as file:
            json.dump(gaps, file)
        await super().action_quit()

tui.app.explorer.Explorer = Watched
main()
"""
"""The command, with a task in its event loop that wakes every millisecond."""


@dataclass(frozen=True)
class Figure:
    """One measurement, with its budget if it has one."""

    what: str
    value: float
    unit: str
    budget: float | None = None

    def __str__(self) -> str:
        line = f"{self.what:<46} {self.value:8.0f} {self.unit:<4}"
        if self.budget is None:
            return line.rstrip()
        return f"{line} {self.budget:8.0f}  {'kept' if self.value <= self.budget else 'over'}"


def start(model: str, columns: int, rows: int, cache: str, *options: str) -> Terminal:
    return Terminal(COMMAND, model, *options, columns=columns, rows=rows, environment=environment(cache))


def starts(model: str, columns: int, rows: int) -> Iterator[Figure]:
    """Measure starts without the cache of spectra and with it, and of a minimal application."""
    minimal, frames, heads, kept, quits = (list[float]() for _ in range(5))
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as cache:
            command = (sys.executable, "-c", MINIMAL)
            with Terminal(*command, columns=columns, rows=rows, environment=environment(cache)) as terminal:
                minimal.append(terminal.wait_for("sentence") * 1e3)
            for known in (heads, kept):
                with start(model, columns, rows, cache, "--text", "") as terminal:
                    frames.append(terminal.wait_for("sentence") * 1e3)
                    known.append(terminal.wait_for(FIRST_HEAD) * 1e3)
                    terminal.settle(0.4)
                    terminal.send("q")
                    sent = time.monotonic()
                    terminal.exit_code()
                    quits.append((time.monotonic() - sent) * 1e3)
    yield Figure("first frame of a minimal Textual application", statistics.median(minimal), "ms")
    yield Figure("first frame", statistics.median(frames), "ms", 1.5 * statistics.median(minimal))
    yield Figure("first head", statistics.median(heads), "ms", 2500)
    yield Figure("first head, from the cache", statistics.median(kept), "ms", 800)
    yield Figure("quit", statistics.median(quits), "ms", 200)


def words(*command: str) -> float:
    """Measure a command that prints and ends, in milliseconds."""
    times = []
    for _ in range(STARTS):
        began = time.monotonic()
        subprocess.run([COMMAND, *command], capture_output=True, check=True)
        times.append((time.monotonic() - began) * 1e3)
    return statistics.median(times)


def busy(model: str, columns: int, rows: int) -> Iterator[Figure]:
    """Measure keys from the first frame on, while torch is imported, the model swept, and a sentence read."""
    waits: list[float] = []
    with tempfile.TemporaryDirectory() as cache, start(model, columns, rows, cache, "--text", SENTENCE) as terminal:
        terminal.wait_for("L0H0")
        while time.monotonic() - terminal.started < BUSY_SECONDS:
            key, name = ("]", "L0H1") if len(waits) % 2 == 0 else ("[", "L0H0")
            since = len(terminal.output)
            terminal.send(key)
            sent = time.monotonic()
            terminal.wait_for(name, since=since)
            waits.append((time.monotonic() - sent) * 1e3)
            terminal.read(0.1)
    yield Figure(f"key while the engine is busy, median of {len(waits)}", statistics.median(waits), "ms", 50)
    yield Figure("key while the engine is busy, worst", max(waits), "ms", 150)


def press(terminal: Terminal, what: str, keys: str, most: float | None) -> Iterator[Figure]:
    """Measure the bytes of each key, and the time to the last of them."""
    measured = []
    for key in keys:
        terminal.send(key)
        measured.append(terminal.settle(0.15))
    yield from key_figures(what, measured, most)


def press_and_rest(terminal: Terminal, what: str, keys: str, most: float, whole: float) -> Iterator[Figure]:
    """Measure keys that move a cursor, and separately the selection that follows after a pause."""
    moved, rested = [], []
    for key in keys:
        terminal.send(key)
        moved.append(terminal.settle(PAUSE, limit=PAUSE))
        rested.append(terminal.settle(2 * PAUSE))
    yield from key_figures(what, moved, most)
    yield from key_figures(f"{what}, at rest", rested, whole)


def key_figures(what: str, measured: list[tuple[int, float]], most: float | None) -> Iterator[Figure]:
    counts = [count for count, _ in measured]
    yield Figure(f"{what}, median", statistics.median(counts), "B", most)
    yield Figure(f"{what}, most", max(counts), "B", most)
    yield Figure(f"{what}, last byte, worst", max(last for _, last in measured) * 1e3, "ms", 100)


def keys(model: str, columns: int, rows: int) -> Iterator[Figure]:
    """Measure keys in each view once the engine is idle, and idle seconds."""
    whole = 40_000 if columns > 80 else 12_000
    with tempfile.TemporaryDirectory() as cache:
        with start(model, columns, rows, cache, "--text", SENTENCE) as terminal:
            wait_until_idle(terminal)
            yield from keys_in_views(terminal, whole)
        with start(model, columns, rows, cache, "--text", SENTENCE) as terminal:
            wait_until_idle(terminal)
            terminal.send("w:tree\r")
            terminal.settle(0.5)
            yield from press(terminal, "tree move, with the overview beside it", "j" * 8, whole)
            for typed in ("2z:tree\r", "gg", "jjj"):  # to heads whose ranks are in one table
                terminal.send(typed)
                terminal.settle(0.5)
            yield from press(terminal, "tree move, at the ranks of a layer", "j" * 4, MOVE)


def wait_until_idle(terminal: Terminal) -> None:
    """Wait for a map, which needs torch, and then until nothing more is drawn."""
    terminal.wait_for(FIRST_HEAD)
    terminal.send("3")
    terminal.wait_for('" → k', 60.0)  # the readout at the cursor of the map
    terminal.settle(2.0)


def keys_in_views(terminal: Terminal, whole: float) -> Iterator[Figure]:
    """Measure keys in each view, and idle seconds; ``whole`` is the budget for a whole view, in bytes."""
    for typed in (":tree\r", "1"):
        terminal.send(typed)
        terminal.settle(0.5)
    yield from press(terminal, "next head", "]" * 12, whole)
    yield from press(terminal, "next layer", "}" * 4, whole)
    yield from press(terminal, "next measure", "m" * 4, whole)
    yield from press(terminal, "spectra cursor", "l" * 8, MOVE)
    terminal.send("3")
    terminal.settle(0.5)
    yield from press(terminal, "heatmap cursor", "k" * 8, MOVE)
    yield from press(terminal, "next head, at the map", "[" * 8, whole)
    terminal.send("w")
    terminal.settle(0.5)
    yield from press_and_rest(terminal, "overview cursor", "kkjjhhhllllll", MOVE, whole)
    yield from press(terminal, "next measure, at the overview", "m" * 8, whole)
    terminal.send("3Tgg")
    terminal.settle(2.0)
    yield from press(terminal, "cursor of the coloured text", "l" * 8, MOVE)
    yield from press(terminal, "cursor of the coloured text, by lines", "j" * 2, MOVE)
    yield from press(terminal, "next head, at the coloured text", "]" * 3, whole)
    terminal.send("TA")
    terminal.settle(1.0)
    yield from press(terminal, "cursor of the small maps", "h" * 3, whole)  # it selects the head
    yield from press(terminal, "next layer, at the small maps", "{" * 2, whole)
    terminal.send("A3p]p]p")
    terminal.settle(1.0)
    yield from press(terminal, "three maps side by side", "C", whole)
    terminal.send("G")
    terminal.read(4.0)  # until the message about pinned maps has gone
    yield from press(terminal, "cursor of three maps", "k" * 8, MOVE)
    yield from press(terminal, "cursor of three maps, by keys", "h" * 8, MOVE)
    idle = len(terminal.read(4.0))
    yield Figure("idle, a second", idle / 4, "B", 0)


def gaps(model: str, columns: int, rows: int) -> Iterator[Figure]:
    """Measure the longest gaps of the event loop while heads are stepped through, until torch is imported and after."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "gaps.json"
        command = (sys.executable, "-c", HEARTBEAT, str(place), model, "--text", SENTENCE)
        with Terminal(*command, columns=columns, rows=rows, environment=environment(folder)) as terminal:
            terminal.wait_for(FIRST_HEAD)
            for turn in range(int((BUSY_SECONDS + 3) / 0.25)):
                terminal.send("]" if turn % 2 == 0 else "[")
                terminal.read(0.25)
            terminal.send("q")
            terminal.exit_code()
        before, after = json.loads(place.read_text())
    yield Figure("gap of the event loop until torch is imported", before, "ms")
    yield Figure("gap of the event loop after that, longest", after, "ms", 50)


@contextmanager
def beside() -> Iterator[None]:
    """Keep one core busy with linear algebra."""
    limits = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    with subprocess.Popen([sys.executable, "-c", PROBLEM], env=limits) as process:
        try:
            yield
        finally:
            process.kill()


def measure(model: str) -> None:
    for option in ("--help", "--version"):
        print(f"  {Figure(f'attn-tui {option}', words(option), 'ms', 300)}", flush=True)
    for columns, rows in SIZES:
        print(f"{model} at {columns}×{rows}")
        for part in (starts, busy, gaps, keys):
            print(f"{columns}×{rows}: {part.__name__} …", file=sys.stderr)
            for figure in part(model, columns, rows):
                print(f"  {figure}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", nargs="?", default="demo")
    arguments.add_argument("--quiet", action="store_true", help="leave out the round with a busy process beside")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as cache, start(given.model, *SIZES[0], cache, "--text", SENTENCE) as terminal:
        terminal.wait_for(FIRST_HEAD)  # so that later starts find files cached and modules compiled
        terminal.settle(2.0)
    print("on this machine as it is")
    measure(given.model)
    if not given.quiet:
        print("beside a process that keeps a core busy")
        with beside():
            measure(given.model)


if __name__ == "__main__":
    main()
