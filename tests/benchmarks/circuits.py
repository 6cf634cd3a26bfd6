"""Tables of the weights alone, for GPT-2-small's shape: ``python -m tests.benchmarks.circuits``.

A model of that shape with random weights is written to a folder and opened as usual, without the cache. The budget is
ten seconds for the model on two cores. Each line is the wall time of one complete table for all layers and heads, and
the processor time, which tells a busy machine from a slow program.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

from engine.values.options import EngineOptions, limit_threads

limit_threads(None)

import torch  # noqa: E402  # the number of threads is set before the libraries are loaded
import transformers  # noqa: E402

from engine.analysis.open_model import OpenModel  # noqa: E402
from engine.values.views import Query  # noqa: E402
from tests import tiny_models  # noqa: E402
from tests.benchmarks.machine import machine  # noqa: E402
from tests.opening import worked_out  # noqa: E402

Step = tuple[str, Callable[[], int]]


def main() -> None:
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
        tiny_models.byte_level_tokenizer().save_pretrained(folder)
        session = OpenModel.open(folder, EngineOptions(device="cpu", use_cache=False), lambda progress: None)
        first = Query(session.outline.layers[1].name, 0)
        for view in ("circuits", "composition"):  # libraries do some things once
            worked_out(session, view, first)
        session.forget()

        def rows(view: str, **asked: Any) -> int:
            return len(tuple(worked_out(session, view, Query(**asked)).rows))

        steps: tuple[Step, ...] = (
            ("ranks", lambda: rows("ranks", whole_layers=True)),
            ("circuits", lambda: rows("circuits", whole_layers=True, eigenvalues=True)),
            ("composition", lambda: rows("composition")),
        )
        print(machine())
        wall = busy = 0.0
        for name, step in steps:
            start, spent = time.perf_counter(), time.process_time()
            count = step()
            seconds, used = time.perf_counter() - start, time.process_time() - spent
            wall, busy = wall + seconds, busy + used
            print(f"  {name:<14}{count:7d} rows {seconds:7.2f} s {used:7.2f} s of processors")
        print(f"  {'together':<14}{'':12} {wall:7.2f} s {busy:7.2f} s of processors")


if __name__ == "__main__":
    main()
