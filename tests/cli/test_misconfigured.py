"""What is wrong in a configuration: each mistake has a line that says where and what is right, and all can be read."""

from __future__ import annotations

import re
import time
from textwrap import wrap

import pytest
from textual.theme import BUILTIN_THEMES

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.cli.test_settings import call, configure
from tests.tui.explorer import explorer, screen_text, until
from tui.app import Explorer
from tui.cli import launch
from tui.cli.command_line import explore
from tui.cli.configuration import ConfiguredCommand, effective
from tui.cli.settings import config_file
from tui.frame import SEEN
from tui.screens.help_screen import HelpScreen
from tui.start import Start
from tui.themes import OWN, SHORT

MISTAKES = 'threads = "many"\nworse = 2\n[keys]\ntree.dwon = "n"\napp.export = "q"\n'
"""Of each kind some, on lines 1, 2, 4 and 5."""

LINES = (
    'line 1: threads = "many"',
    "line 2: there is no setting worse",
    "line 4: no binding",
    "line 5: app",
)
"""What is said of them."""


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("ascii = true\nenergy = = 2\n", ", line 2: energy = = 2", "(column 10)"),
        ("ascii = true\n\ntheme = dark\n", ", line 3: theme = dark", 'a text stands in quotes, theme = "dark"'),
        ('theme = "light\n', ", line 1", "a text ends with the quote that it begins with"),
        ("cache = true\ncache = false\n", ", line 2", "it is there twice"),
        ("theme\n", ", line 1", "name = value"),
        ("[keys\n", ", line 1", "attn-tui config --example shows how it is written; nothing in the file is used"),
        ('ascii = true\ntheme = "\\x"\n', ", line 2", "attn-tui config --example shows how it is written"),
        ('theme = """\n', ", line 1", "nothing in the file is used"),
        ('ascii = true\n[settings]\ntheme = "dark"\n', ", line 2", "settings stand above all tables"),
        ("Log-Scale = true\n", ", line 1", "there is no setting Log-Scale; it is written log_scale"),
        ('log_scale = "yes"\n', ", line 1", "give true or false; it is not used"),
        ('threads = "many"\n', ", line 1", "give a whole number of at least 1; it is not used"),
        ("threads = 1.5\n", ", line 1", "give a whole number of at least 1"),
        ("threads = 0\n", ", line 1", "give a whole number of at least 1"),
        ('energy = "x"\n', ", line 1", "give a number, such as 0.01; it is not used"),
        ('device = ["cpu"]\n', ", line 1", "give a text, which stands in quotes"),
        ("[keys.map]\n[keys.tree]\ndown = 3\n", ", line 3", "tree.down takes keys"),
        ('[keys]\nmap.x = "n"\n', ", line 2", "attn-tui config --example lists all"),
        ('[keys]\napp.quit = "j"\n', ", line 2", "text and tree, j is something else and hides app.quit (Quit)"),
        ('theem = "dark"\n', ", line 1", "there is no setting theem; there are theme, ascii"),
        ("\nenergy = 7\n", ", line 2", "between 0 and 1, such as 0.01; it is not used"),
        ("ascii = 1\n", ", line 1", "ascii = 1: give true or false"),
        ("threads = true\n", ", line 1", "give a whole number"),
        ('theme = "pink"\n', ", line 1", "there is no theme 'pink'; there are dark, light, colour-blind"),
        (
            'theme = "drak"\n',
            ", line 1",
            "there is no theme 'drak'; did you mean dark? attn-tui config --example lists all",
        ),
        (
            'theme = "Nord"\n',
            ", line 1",
            "there is no theme 'Nord'; did you mean nord? attn-tui config --example lists all",
        ),
        ('device = "gpu"\n', ", line 1", "give auto, cpu, cuda, cuda:N or mps"),
        ('keys = "n"\n', ", line 1", "[keys]"),
        ("[keys]\ntree.down = 3\n", ", line 2", 'tree.down takes keys, such as "n"'),
        ('[keys]\n"tree.dwon" = "n"\n', ", line 2", "no binding is called tree.dwon; there are tree.down"),
        ('[keys]\n"map.foo" = "n"\n', ", line 2", "no binding is called map.foo; there are app.…, "),
        ('[keys]\ntree.down = "ctrl+nonsense"\n', ", line 2", "ctrl+nonsense is no key"),
        ('[keys]\napp.spectra = "ctrl+shift+banana"\n', ", line 2", "ctrl+shift+banana is no key"),
        ('[keys]\napp.spectra = "shift+1"\n', ", line 2", "shift+1 is no key"),
        ('[keys]\napp.spectra = "ctrl+N"\n', ", line 2", "ctrl+N is no key"),
        ('[keys]\napp.spectra = "return"\n', ", line 2", "return is no key"),
        ('[keys]\napp.spectra = "shift+p"\n', ", line 2", "P is taken by app.pin"),
        ('[keys]\ntree.down = "f8"\ntree.up = "f8"\n', ", line 3", "tree.up: f8 is taken by tree.down (Down)"),
        ('[keys]\ntree.up = "f8"\ntree.down = "f8"\n', ", line 3", "tree.down: f8 is taken by tree.up (Up)"),
        ('[keys]\napp.tree = "gt"\n', ", line 2", "pressed one after the other there is gg alone; it keeps t"),
        ('[keys]\napp.search = "ctrl+h"\n', ", line 2", "terminals send backspace for ctrl+h"),
        ('[keys]\napp.zoom = " "\n', ", line 2", "a space is written space; it keeps z"),
        ('[keys]\napp.zoom = ["n", ""]\n', ", line 2", 'takes keys, such as "n" or ["n", "ctrl+n"], or "" for none'),
        ('[keys]\napp.zoom = "tab"\n', ", line 2", "tab is taken by app.next_view (Next view); it keeps z"),
        ('[keys]\napp.zoom = "ctrl+i"\n', ", line 2", "terminals send tab for ctrl+i"),
        ('[keys]\napp.zoom = ["z", "ctrl+["]\n', ", line 2", "most likely never comes; give another"),
        (
            '[keys]\napp.zoom = "ctrl+j"\n',
            ", line 2",
            "terminals send enter for ctrl+j, which most likely never comes; it keeps z",
        ),
        ('[keys]\napp.zoom = "ctrl+3"\n', ", line 2", "terminals send escape for ctrl+3"),
        ('[keys]\napp.zoom = "ctrl+?"\n', ", line 2", "terminals send ? for ctrl+question_mark"),
        ('[keys]\napp.zoom = "ctrl+space"\n', ", line 2", "terminals send ctrl+@ for ctrl+space"),
        ('[keys]\napp.zoom = "shift+enter"\n', ", line 2", "terminals send enter for shift+enter"),
        ('[keys]\napp.zoom = "ctrl+shift+f"\n', ", line 2", "terminals send ctrl+f for ctrl+shift+f"),
        ('[keys]\nsentence.read = "ctrl+j"\n', ", line 2", "most likely never comes; it keeps enter"),
        ('[keys]\nprompt.answer = ""\n', ", line 2", "nothing that is typed could be taken; it keeps enter"),
        (
            '[keys]\napp.weights = "enter"\n',
            ", line 2",
            "in the explain, filter, heads, overview, prompt, sentence, table,",
        ),
        (
            '[keys]\napp.jump = "f8"\ntree.down = "f8"\n',
            ", line 3",
            "in the tree, f8 is app.jump and hides tree.down (Down)",
        ),
        ('[keys]\nzoom = "Z"\n', ", line 2", "no binding is called zoom; there are app.zoom;"),
        ('[keys]\napp.leave = "Esc"\n', ", line 2", "Esc is no key; write escape; it keeps"),
        ('[keys]\napp.zoom = "Ctrl+F"\n', ", line 2", "Ctrl+F is no key; write ctrl+f; it keeps"),
        ('[keys]\napp.export = "q"\n', ", line 2", "q is taken by app.quit (Quit); it keeps e"),
    ],
)
def test_what_is_wrong_with_the_file_is_one_line_that_names_the_place(text: str, place: str, said: str) -> None:
    configure(text)
    done = call("config")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"attn-tui: {config_file()}{place}")
    assert said in line


def test_the_example_that_messages_name_is_printed_and_has_every_setting_and_key() -> None:
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


def test_info_says_how_many_mistakes_there_are() -> None:
    configure(MISTAKES)
    assert f"{config_file()}  (4 mistakes: attn-tui config lists all)\n" in call("info").stdout
    configure("ascii = 3\n")
    assert f"{config_file()}  (1 mistake: attn-tui config lists all)\n" in call("info").stdout


def listed(app: Explorer) -> str:
    """Give the letters of the help's list, which breaks a long path anywhere, without its scrollbar."""
    room = app.screen.query_one("#list").content_region
    inside = (line[room.x : room.right] for line in screen_text(app).splitlines()[room.y : room.bottom])
    return re.sub(r"[\s▁-█]+", "", "".join(inside))


async def test_every_mistake_can_be_read_in_the_help_and_in_the_log() -> None:
    configure(MISTAKES)
    assert isinstance(explore, ConfiguredCommand)
    config, _ = effective(explore)
    async with explorer("demo", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        (said,) = (str(each.message) for each in app._notifications)
        assert said.startswith("config.toml, line 1: threads"), "short: the help has the whole path"
        assert said.endswith("… and 3 more; ? lists all")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        lines = [line.replace(" ", "") for line in LINES]
        await until(pilot, lambda: lines[-1] in listed(app))
        shown = listed(app)
        places = [shown.index(line) for line in lines]
        assert places == sorted(places)
        assert places[-1] < shown.index("findingone'sway")


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


def test_what_is_shown_is_written_as_a_person_writes_it_and_does_not_run_together() -> None:
    configure('theme = "dark"\n[keys]\napp.back = ["f2", "f2", "f3", "alt+left", "ctrl+shift+left", "f11"]\n')
    said = call("config").stdout
    assert f'theme       "dark"          {config_file()}, line 1\n' in said
    assert f"app.back = f2 f3 alt+left ctrl+shift+left f11  {config_file()}, line 3\n" in said


async def test_a_mistake_takes_few_lines_of_the_screen_and_goes_with_a_key_once_it_can_have_been_read() -> None:
    configure(MISTAKES)
    assert isinstance(explore, ConfiguredCommand)
    config, _ = effective(explore)
    async with explorer("demo", start=Start("demo", config=config)) as (app, pilot):
        (said,) = app._notifications
        lines = [part for line in said.message.splitlines() for part in wrap(line, 57)]
        assert len(lines) + bool(said.title) <= 3
        said.raised_at = time.time()
        await pilot.press("j")
        assert said in app._notifications
        said.raised_at -= SEEN
        await pilot.press("j")
        assert not app._notifications
