"""The explorer opens on a model in memory, and on an adapter, with everything that it shows of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import tui
from engine.service.engine import Engine
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.explorer import explorer, screen_text, settle
from tests.handmade import OddNames, Speaker
from tests.test_adapters import LAYER, low_rank, write_adapter


async def test_a_module_is_explored_like_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = Engine.of_module(Speaker(OddNames), None, "mine", None)
    async with explorer("mine", size=(160, 50), text="1 2 3 4 5", head="L1H2", engine=engine) as (app, pilot):
        await settle(pilot)
        screen = screen_text(app)
        assert "mine" in screen
        assert "2 layers × 4 heads (2 key/value)" in screen
        assert "L1H2" in screen
        assert "1 → 1" in screen or "query" in screen
        await pilot.press("E")
        await settle(pilot)
    assert list(tmp_path.glob("*.csv"))


async def test_a_module_without_attention_is_declined_in_the_explorer() -> None:
    engine = Engine.of_module(nn.Linear(4, 4), None, "", None)
    async with explorer("Linear", engine=engine) as (app, _):
        assert "no softmax attention" in app.failure


def test_the_explorer_of_a_module_needs_a_terminal() -> None:
    with pytest.raises(EngineError, match="needs a terminal"):
        tui.explore(Speaker(OddNames))


async def test_the_change_of_an_adapter_is_a_stack_of_the_tree(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_model("llama")
    folder = write_adapter(tmp_path / "adapter", str(base), low_rank(f"{LAYER}.q_proj", 32, 32))
    async with explorer(folder, size=(160, 50), head="decoder-delta.L1H0", text="The cat") as (app, pilot):
        await settle(pilot)
        screen = screen_text(app)
        assert "decoder-delta" in screen
        assert "look at the stack decoder" in screen
        await pilot.press("c")
        await settle(pilot)
        assert "2 layers: 2 verified" in screen_text(app)
