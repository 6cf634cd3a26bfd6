"""Each mistake in a configuration has a line that says where it is and what is right."""

from __future__ import annotations

import re

import pytest
from textual.theme import BUILTIN_THEMES

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.cli.test_settings import call, configure
from tests.tui.explorer import explorer, screen_text, type_keys, until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.cli import launch
from tui.cli.command_line import explore
from tui.cli.configuration import config_file, effective
from tui.screens.help_screen import HelpScreen
from tui.toolkit.themes import OWN, SHORT

MISTAKES = 'threads = "many"\nworse = 2\n[keys]\ntree.dwon = "n"\napp.export = "q"\n'
"""Of each kind some."""

LINES = ("there is no setting worse", 'threads = "many"', "no binding is called tree.dwon", "app.export: q is taken")
"""What is said of them."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ascii = true\nenergy = = 2\n", "(at line 2, column 10); nothing in the file is used; attn-tui"),
        ('theme = """\n', "nothing in the file is used"),
        ('ascii = true\n[settings]\ntheme = "dark"\n', "there is no setting settings; attn-tui config --example"),
        ("Log-Scale = true\n", "there is no setting Log-Scale; did you mean log_scale?"),
        ('theem = "dark"\n', "there is no setting theem; did you mean theme?"),
        ('log_scale = "maybe"\n', "log_scale = \"maybe\": 'maybe' is not a valid boolean"),
        ('threads = "many"\n', "'many' is not a valid integer range; it is not used"),
        ("threads = 1.5\n", "'1.5' is not a valid integer range"),
        ("threads = 0\n", "0 is not in the range x>=1"),
        ("threads = true\n", "threads = true: 'True' is not a valid integer range"),
        ('energy = "x"\n', "'x' is not a valid float; it is not used"),
        ("energy = 7\n", "between 0 and 1, such as 0.01; it is not used"),
        ('device = "gpu"\n', "give auto, cpu, cuda, cuda:N or mps"),
        ('theme = "pink"\n', "there is no theme 'pink'; there are dark, light, colour-blind"),
        ('theme = "drak"\n', "there is no theme 'drak'; did you mean dark? attn-tui config --example lists all"),
        ('theme = "Nord"\n', "there is no theme 'Nord'; did you mean nord? attn-tui config --example lists all"),
        ('keys = "n"\n', "[keys]"),
        ('[keys]\n"tree.dwon" = "n"\n', "no binding is called tree.dwon; did you mean tree.down?"),
        ('[keys]\n"map.foo" = "n"\n', "no binding is called map.foo"),
        ('[keys]\nzoom = "Z"\n', "no binding is called zoom; did you mean app.zoom?"),
        ('[keys]\ntree.down = "f8"\ntree.up = "f8"\n', "tree.up: f8 is taken by tree.down (Down)"),
        ('[keys]\napp.zoom = "tab"\n', "tab is taken by app.next_view (Next panel); it keeps z"),
        ('[keys]\napp.export = "q"\n', "q is taken by app.quit (Quit); it keeps e"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_the_place(text: str, said: str) -> None:
    configure(text)
    done = call("config")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"attn-tui: {config_file()}: ")
    assert said in line


def test_the_example_has_every_setting_and_key() -> None:
    printed = call("config", "--example").stdout
    assert "# log_scale = true" in printed
    assert "# tree.down = " in printed
    listed = re.search(r"^# Themes: ((?:[^\n]|\n# )*)\.$", printed, re.MULTILINE)
    assert listed is not None
    names = listed[1].replace("\n#", "").split(", ")
    assert {SHORT.get(name, name) for name in names} == {*BUILTIN_THEMES, *OWN}
    assert not config_file().exists()
    assert call("config", "--example", "--init").exit_code == 2
    call("config", "--init")
    assert config_file().read_text(encoding="utf-8") == printed


def listed(app: Explorer) -> str:
    """Give the letters of the help's list, which breaks a long path anywhere, without its scrollbar."""
    room = app.screen.query_one("#list").content_region
    inside = (line[room.x : room.right] for line in screen_text(app).splitlines()[room.y : room.bottom])
    return re.sub(r"[\s▁-█]+", "", "".join(inside))


async def test_every_mistake_can_be_read_in_the_help_and_in_the_log() -> None:
    configure(MISTAKES)
    config, _ = effective(explore)
    async with explorer("demo", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        (said,) = (str(each.message) for each in app._notifications)
        assert said.startswith("config.toml: there is no setting worse"), "short: the help has the whole path"
        assert said.endswith("… and 3 more; ? lists all")
        await type_keys(pilot, "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        lines = [line.replace(" ", "") for line in LINES]
        await until(pilot, lambda: lines[-1] in listed(app))
        shown = listed(app)
        places = [shown.index(line) for line in lines]
        assert places == sorted(places)
        assert places[-1] < shown.index("views")


def test_every_mistake_is_said_once_the_terminal_is_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(app: Explorer) -> None:
        app.misconfigured = ("c.toml, line 1: one", "c.toml, line 2: two")

    monkeypatch.setattr(launch, "_has_terminal", lambda: True)
    monkeypatch.setattr(Explorer, "run", run)
    launch.run_explorer(Engine(EngineOptions()), Start("demo"), theme=None, ascii_only=False)
    assert capsys.readouterr().err == "attn-tui: c.toml, line 1: one\nattn-tui: c.toml, line 2: two\n"


def test_a_file_that_begins_with_a_mark_of_its_encoding_is_read() -> None:
    configure("\ufeffascii = true\n")
    assert "ascii       true            " in call("config").stdout
