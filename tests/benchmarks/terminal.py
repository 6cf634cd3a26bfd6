"""How the explorer feels, measured from outside in a pseudo-terminal: ``python -m tests.benchmarks.terminal [MODEL]``.

Prints, for 80×24 and 154×64: the time to the first frame and to the first head's spectra (without and with the cache
of spectra), the time from a key to its head's name while everything is still being loaded and computed, the bytes and
the time to the last byte of keys, the bytes of an idle second, and the time to quit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.terminal import COMMAND, Terminal

SENTENCE = "the cat sat on the mat and the dog sat on the cat and then the cat and the dog sat on the mat again"
KEYS = (("tree move", "j", 12), ("next head", "]", 12), ("next measure", "m", 6), ("smaller ε", "-", 3))
SIZES = ((80, 24), (154, 64))

BUSY_SECONDS = 8.0
"""From the start of the program, for which keys are pressed without waiting for it to be done."""


def start(model: str, columns: int, rows: int, cache: str, *options: str) -> Terminal:
    """Start the explorer with a cache of its own."""
    environment = {"XDG_CACHE_HOME": cache, "COLORTERM": "truecolor"}
    return Terminal(COMMAND, model, *options, columns=columns, rows=rows, environment=environment)


def starts(model: str, columns: int, rows: int) -> Iterator[str]:
    """Measure starts: the first without the cache of spectra, then with it."""
    with tempfile.TemporaryDirectory() as cache:
        for label in ("no cache", "cache"):
            with start(model, columns, rows, cache, "--text", "") as terminal:
                frame = terminal.wait_for("sentence")
                head = terminal.wait_for("σ₁")
                terminal.settle(1.0)
                terminal.send("q")
                sent = time.monotonic()
                terminal.exit_code()
                left = time.monotonic() - sent
            times = f"first frame {frame * 1e3:5.0f} ms   first head {head * 1e3:5.0f} ms   quit {left * 1e3:4.0f} ms"
            yield f"{label:<9} {times}"


def busy(model: str, columns: int, rows: int) -> Iterator[str]:
    """Walk on from the first frame, while torch is imported, the model swept, and a sentence read."""
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
            terminal.read(0.15)
    waits.sort()
    tenth = waits[-len(waits) // 10]
    yield (
        f"{'busy: next head':<18} shown after {statistics.median(waits):5.1f} ms "
        f"(a tenth of {len(waits)} over {tenth:5.1f}, most {waits[-1]:5.1f})"
    )


def press(terminal: Terminal, key: str, times: int) -> str:
    """Measure one key."""
    counts, lasts = [], []
    for _ in range(times):
        terminal.send(key)
        count, last = terminal.settle(0.25)
        counts.append(count)
        lasts.append(last * 1e3)
    middle = f"{statistics.median(counts):7.0f} B (most {max(counts):6d})"
    return f"{middle}   last byte {statistics.median(lasts):5.1f} ms (most {max(lasts):5.1f})"


def keys(model: str, columns: int, rows: int) -> Iterator[str]:
    """Measure keys in each view, and an idle second."""
    with tempfile.TemporaryDirectory() as cache, start(model, columns, rows, cache, "--text", SENTENCE) as terminal:
        terminal.wait_for("σ₁")
        terminal.settle(3.0)
        for label, key, times in KEYS:
            yield f"{label:<18} {press(terminal, key, times)}"
        terminal.send("3")
        terminal.settle(1.0)
        for label, key in (("heatmap cursor", "j"), ("heatmap: next head", "]"), ("next mean", "a"), ("scale", "s")):
            yield f"{label:<18} {press(terminal, key, 8)}"
        terminal.send("1")
        terminal.settle(1.0)
        yield f"{'spectra cursor':<18} {press(terminal, 'l', 8)}"
        yield f"{'spectra scale':<18} {press(terminal, 's', 4)}"
        idle = len(terminal.read(5.0))
        yield f"{'idle':<18} {idle / 5:7.0f} B/s"


def main() -> None:
    """Print all measurements."""
    model = sys.argv[1] if len(sys.argv) > 1 else "demo"
    for columns, rows in SIZES:
        print(f"{model} at {columns}×{rows}")
        for line in starts(model, columns, rows):
            print(f"  {line}", flush=True)
        for line in (*busy(model, columns, rows), *keys(model, columns, rows)):
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
