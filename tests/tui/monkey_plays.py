"""The plays with keys at random among the tests: which models they open, how long they are, what they reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.monkey import Monkey
from tests.tui.painted import good_terminal

KEYS = 510
"""Keys in each play; the four take about a minute of one processor."""


async def play(seed: int, tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press keys at random, with files written to a folder; it ends by finding that everything still answers."""
    good_terminal(monkeypatch)
    monkeypatch.chdir(folder)  # where exports go
    models = ["demo", *(str(tiny_model(kind, with_head=True)) for kind in ("llama", "gpt2", "t5", "bert"))]
    monkey = Monkey(seed=seed, models=models)
    await monkey.play(KEYS, stay=2 * KEYS)
    assert monkey.pressed >= KEYS
    assert monkey.opened + monkey.switched > 2, "a model is opened anew after the key that quits, too"
    assert monkey.resized > 2
