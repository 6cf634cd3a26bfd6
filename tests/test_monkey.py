"""After hundreds of keys at random, in several models, the explorer still answers and its engine still computes.

For long plays with other seeds: ``python -m tests.long_play --seed 7 --keys 20000 demo FOLDER …``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.monkey import Monkey
from tests.painted import good_terminal


@pytest.mark.parametrize("seed", [1])
async def test_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)  # where exports go
    models = ["demo", *(str(tiny_model(kind, with_head=True)) for kind in ("llama", "gpt2", "t5", "bert"))]
    monkey = Monkey(seed=seed, models=models)
    await monkey.play(400, stay=800)  # which ends by finding that everything still answers
    assert monkey.pressed >= 400
    assert monkey.switched > 1
    assert monkey.resized > 5
