"""After hundreds of random keys, in several models, the explorer still answers and its engine still computes.

For long plays with other seeds: ``python -m tests.tui.monkey --seed 7 --keys 20000 demo FOLDER …``; with
``--try-keys`` it names every key that the line at the foot shows and that does nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.monkey import Monkey
from tests.tui.painted import good_terminal

KEYS = 510
"""Keys in each play; the four take about a minute of one processor."""


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)  # where exports go
    models = ["demo", *(str(tiny_model(kind, with_head=True)) for kind in ("llama", "gpt2", "t5", "bert"))]
    monkey = Monkey(seed=seed, models=models)
    await monkey.play(KEYS, stay=2 * KEYS)
    assert monkey.pressed >= KEYS
    assert monkey.opened + monkey.switched > 2, "a model is opened anew after the key that quits, too"
    assert monkey.resized > 2
