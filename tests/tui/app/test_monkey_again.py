"""The other half of the plays of `tests.tui.app.test_monkey`, for a second process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.monkey_plays import play


@pytest.mark.parametrize("seed", [3, 4])
async def test_other_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(seed, tiny_model, tmp_path, monkeypatch)
