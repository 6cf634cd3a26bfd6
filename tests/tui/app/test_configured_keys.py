"""Keys that a person adds, shares or removes in the configuration file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from engine.service.engine import Engine
from engine.values.heads import Head
from tests.cli.test_settings import call, configure
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, notices, press, screen_text, settle, type_keys, until
from tui.app.explorer import Explorer
from tui.app.main_screen import MainScreen
from tui.app.start import Start
from tui.cli.configuration import config_file, read_config
from tui.screens.help_screen import HelpScreen
from tui.state.marked_heads import how_to_pin
from tui.toolkit.keys import key_of
from tui.widgets.key_line import KeyLine


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_the_first_binding_in_the_file_gets_a_contested_key_in_every_process(seed: str) -> None:
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
async def test_a_configured_key_does_its_action(
    text: str, key: str, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(f"[keys]\n{text}\n")
    assert config.all_problems() == ()
    done: list[str] = []
    async with explorer("demo", head="L0H0", start=Start("demo", config=config)) as (app, pilot):
        await settle(pilot)
        await press(pilot, "unbound:app.tree")
        run_action = app.run_action

        async def note_action(action: str, *rest: Any) -> bool:
            is_done = await run_action(action, *rest)
            done.extend([action] * is_done)
            return is_done

        monkeypatch.setattr(app, "run_action", note_action)
        await type_keys(pilot, key)
        assert done[:1] == [does]


@pytest.mark.parametrize("nothing", ['""', "[]"])
async def test_a_removed_key_does_nothing_and_is_named_nowhere(nothing: str) -> None:
    config = configure(f'[keys]\napp.zoom = {nothing}\napp.ranks = {nothing}\napp.spectra = "2"\n')
    shown = call("config")
    assert shown.exit_code == 0
    assert "app.zoom = (no key)" in shown.stdout
    async with explorer("demo", head="L0H0", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        await settle(pilot)
        assert not app._notifications
        assert "All room" not in foot(app)
        await type_keys(pilot, "3", "2")
        assert app.views.active.view == "spectra"
        await type_keys(pilot, "z")
        assert not app.views.has_class("-zoomed")
        assert key_of(app, "app.zoom") == ":zoom"
        await type_keys(pilot, "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "Zoom the panel" not in screen_text(app)
        assert "unbound" not in screen_text(app)
        await press(pilot, "escape", *":zoom", "enter")
        assert app.views.has_class("-zoomed")  # by its name it can be done all the same


async def test_the_foot_shows_the_first_of_several_keys() -> None:
    config = configure('[keys]\napp.quit = "q,ctrl+w"\napp.sentence = ["f7", "i"]\n')
    async with explorer("demo", head="L0H0", start=Start("demo", config=config)) as (app, pilot):
        await settle(pilot)
        line = foot(app)
        assert line.rstrip().endswith("q Quit")
        assert "f7 Sentence" in line


async def test_the_first_frame_names_the_configured_keys(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_configured_keys_work_and_are_shown_at_the_foot_and_in_the_help(tiny_model: TinyModel) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text(
        'nonsense = 1\n[keys]\napp.export = "f6"\ntree.down = "f8"\napp.ranks = ["R", "f2"]\ntree.upp = "q"\n'
        'app.sentence = "f7"\napp.compare = "f9"\n',
        encoding="utf-8",
    )
    start = Start(str(tiny_model("llama")), text="", config=read_config())
    async with explorer(start.model or "", start=start, size=(120, 40)) as (app, pilot):
        (said,) = notices(app)
        assert re.search(r"^config\.toml: there is no setting nonsense.*\n… and 1 more; \? lists all$", said)
        line = app.query_one(KeyLine).render().plain
        assert re.search(r" f7 Sentence .*f6 Export .*q Quit", line)
        await press(pilot, "j")
        assert app.session.shown.selected == Head("decoder", 0, 0)
        await press(pilot, "f8", "f8", "k")
        assert app.session.shown.selected == Head("decoder", 0, 1)
        views = []
        for key in ("2", "f2"):
            await type_keys(pilot, key)
            views.append(app.views.active.view)
        assert views == ["overview", "ranks"]
        app.clear_notifications()
        await press(pilot, "3", "f9")
        assert "press f7 and type a sentence" in screen_text(app)
        assert "sentence f7: type a sentence, Enter reads it" in screen_text(app)
        assert notices(app) == [how_to_pin("P", "f9")]
        app.clear_notifications()
        await press(pilot, "question_mark", "slash", *"export")
        assert re.search(r"f6\s+Export", screen_text(app))
        await type_keys(pilot, "escape", "escape")
        await press(pilot, "question_mark", "slash", *"ranks")
        assert re.search(r"(R f2|f2 R)\s+Ranks", screen_text(app))
