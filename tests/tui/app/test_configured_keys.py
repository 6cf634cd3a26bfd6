"""Keys that a person gives, shares out or takes away in the configuration file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from engine.service.engine import Engine
from tests.cli.test_settings import call, configure
from tests.tui.explorer import explorer, screen_text, settle, until
from tui.app.explorer import Explorer
from tui.app.main_screen import MainScreen
from tui.app.start import Start
from tui.screens.help_screen import HelpScreen
from tui.toolkit.keys import key_of


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_of_two_with_one_key_the_first_in_the_file_has_it_in_every_process(seed: str) -> None:
    configure('[keys]\napp.spectra = "f1"\napp.help = ["f1", "f4"]\napp.ranks = ["f4", "f5"]\n')
    program = "from tui.cli import configuration; print(configuration.read_config().checked_keys())"
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "{'app.spectra': 'f1', 'app.ranks': 'f4,f5'}" in done.stdout
    assert "app.help: f1 is taken by app.spectra (Spectra); it keeps ?" in done.stdout


@pytest.mark.parametrize(
    ("text", "key", "does"),
    [
        ('tree.down = "q"', "q", "cursor_down"),
        ('app.zoom = "f8"', "f8", "zoom"),
        ('app.palette = "ctrl+k"', "ctrl+k", "command_palette"),
    ],
)
async def test_a_key_of_ones_own_does_what_it_is_given_to(
    text: str, key: str, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(f"[keys]\n{text}\n")
    assert config.all_problems() == ()
    done: list[str] = []
    async with explorer("demo", head="L0H0", start=Start("demo", config=config)) as (app, pilot):
        await settle(pilot)
        await pilot.press("unbound:app.tree")
        await settle(pilot)
        run_action = app.run_action

        async def note_action(action: str, *rest: Any) -> bool:
            is_done = await run_action(action, *rest)
            done.extend([action] * is_done)
            return is_done

        monkeypatch.setattr(app, "run_action", note_action)
        await pilot.press(key)
        assert done[:1] == [does]


@pytest.mark.parametrize("nothing", ['""', "[]"])
async def test_a_key_that_is_taken_away_does_nothing_and_is_named_nowhere(nothing: str) -> None:
    config = configure(f'[keys]\napp.zoom = {nothing}\napp.ranks = {nothing}\napp.spectra = "2"\n')
    shown = call("config")
    assert shown.exit_code == 0
    assert "app.zoom = (no key)" in shown.stdout
    async with explorer("demo", head="L0H0", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        await settle(pilot)
        assert not app._notifications
        assert "All room" not in screen_text(app).splitlines()[-1]
        await pilot.press("3", "2")
        assert app.views.active.view == "spectra"
        await pilot.press("z")
        assert not app.views.has_class("-zoomed")
        assert key_of(app, "app.zoom") == ":zoom"
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "Zoom the panel" not in screen_text(app)
        assert "unbound" not in screen_text(app)
        await pilot.press("escape", *":zoom", "enter")
        await settle(pilot)
        assert app.views.has_class("-zoomed")  # by its name it can be done all the same


async def test_the_first_of_several_keys_stays_the_one_that_the_line_of_keys_shows() -> None:
    config = configure('[keys]\napp.quit = "q,ctrl+w"\napp.sentence = ["f7", "i"]\n')
    async with explorer("demo", head="L0H0", start=Start("demo", config=config)) as (app, pilot):
        await settle(pilot)
        line = screen_text(app).splitlines()[-1]
        assert line.rstrip().endswith("q Quit")
        assert "f7 Sentence" in line


async def test_the_first_frame_names_the_keys_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure('[keys]\napp.sentence = "f2"\napp.quit = "Q"\n')
    seen: list[str] = []
    make_views = MainScreen.make_views

    async def late(main: MainScreen, engine: Engine, start: Start) -> None:
        assert isinstance(main.app, Explorer)
        seen.append(screen_text(main.app))
        await make_views(main, engine, start)

    monkeypatch.setattr(MainScreen, "make_views", late)
    async with explorer("demo", start=Start("demo", config=config)):
        (first,) = seen
        assert "f2: type a sentence, Enter reads it" in first
        assert "f2 Sentence" in first.splitlines()[-1]
        assert first.splitlines()[-1].rstrip().endswith("? Help  Q Quit")
