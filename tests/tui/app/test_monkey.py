"""After hundreds of keys at random, in several models, the explorer still answers and its engine still computes.

`tests.tui.app.test_monkey_again` has as many more, so that two processes share them. For long plays with other seeds:
``python -m tests.tui.long_play --seed 7 --keys 20000 demo FOLDER …``; with ``--try-keys`` it names every key that the
line at the foot shows and that does nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.monkey_plays import play


@pytest.mark.parametrize("seed", [1, 2])
async def test_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(seed, tiny_model, tmp_path, monkeypatch)
