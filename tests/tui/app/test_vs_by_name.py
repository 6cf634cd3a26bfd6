"""A second model is opened to compare with, or taken away, while the explorer runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, settle, shown, until


async def test_vs_opens_a_second_model_and_takes_it_away(tiny_model: TinyModel, tmp_path: Path) -> None:
    first, second = tiny_model("llama"), tmp_path / "second"
    shutil.copytree(first, second)
    async with explorer(first) as (app, pilot):
        app.session.change(selected=Head("decoder", 1, 2), pins=(Head("decoder", 0, 1),))
        await pilot.press("colon", *f"vs {second}", "enter")
        await settle(pilot)
        assert f"{first.name} vs {second.name}" in shown(app.main.model_line)
        assert app.session.shown.selected == Head("decoder", 1, 2)
        assert app.session.shown.pins == (Head("decoder", 0, 1),)
        await pilot.press("colon", *"changes", "enter")
        await settle(pilot)
        assert app.views.active.view == "changes"
        await pilot.press("colon", "v", "s", "enter")
        await settle(pilot)
        assert " vs " not in shown(app.main.model_line)


async def test_what_cannot_be_compared_is_said_and_the_model_stays(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("colon", *"vs ./no-such-folder", "enter")
        await until(pilot, lambda: any("no-such-folder" in each.message for each in app._notifications))
        assert not app.engine.is_comparing
        assert not app.main.prompt.display
