"""A second model is opened and closed while the explorer runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, shown, type_keys, until


async def test_vs_opens_a_second_model_and_takes_it_away(tiny_model: TinyModel, tmp_path: Path) -> None:
    first, second = tiny_model("llama"), tmp_path / "second"
    shutil.copytree(first, second)
    async with explorer(first) as (app, pilot):
        app.session.change(selected=Head("decoder", 1, 2), pins=(Head("decoder", 0, 1),))
        await press(pilot, "colon", *f"vs {second}", "enter")
        assert f"{first.name} vs {second.name}" in shown(app.main.model_line)
        assert app.session.shown.selected == Head("decoder", 1, 2)
        assert app.session.shown.pins == (Head("decoder", 0, 1),)
        await press(pilot, "colon", *"changes", "enter")
        assert app.views.active.view == "changes"
        await press(pilot, "colon", "v", "s", "enter")
        assert " vs " not in shown(app.main.model_line)


async def test_a_second_model_that_does_not_open_is_reported_and_the_first_stays(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await type_keys(pilot, "colon", *"vs ./no-such-folder", "enter")
        await until(pilot, lambda: any("no-such-folder" in each.message for each in app._notifications))
        assert not app.engine.is_comparing
        assert not app.main.prompt.display
