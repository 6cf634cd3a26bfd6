"""Settings in a file and in the environment, mistakes in them, own keys, and what is saved and logged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from textual.theme import BUILTIN_THEMES

from engine.store.files import log_file, state_directory
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.documentation import REPOSITORY
from tests.exporting import attn_tui
from tests.opening import open_on_thread, run_apart
from tui.app.keymap import every_binding
from tui.app.start import Config
from tui.cli.command_line import command, explore
from tui.cli.configuration import SETTINGS, config_file, read_config
from tui.state.saved_state import place_of, recall, remember
from tui.toolkit.themes import OWN, SHORT


def configure(text: str) -> Config:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text, encoding="utf-8")
    return read_config()


def test_the_example_sets_everything_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")  # the second is for nested threads
    printed = attn_tui("config", "--example").stdout
    lines = [line.removeprefix("# ") for line in printed.splitlines() if re.match(r"# [\w.]+ = |\[", line)]
    config = configure("\n".join(lines))
    assert config.values.keys() == SETTINGS.keys()
    assert config.all_problems() == ()
    keys, _ = config.checked_keys()
    assert {name: tuple(filter(None, each.split(","))) for name, each in keys.items()} == {
        name: bound.keys for name, bound in every_binding().items()
    }
    assert config.values["threads"] == 3, "as many as there are without it"
    for name, setting in SETTINGS.items():
        if name == "threads":
            continue
        assert setting.default == str(config.values[name]).lower().replace(" ", "") or setting.default[0] == '"'
    themes = printed.replace("\n#", "").partition("Themes: ")[2].partition(".")[0].split(", ")
    assert {SHORT.get(name, name) for name in themes} == {*BUILTIN_THEMES, *OWN}


def test_the_page_of_the_configuration_names_bindings_that_are_there() -> None:
    text = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    known = every_binding().keys()
    parts = "|".join({name.partition(".")[0] for name in known})
    named = re.findall(rf"\b((?:{parts})\.\w+) =", text)
    assert named
    assert set(named) <= known


def test_options_come_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    configure('theme = "light"\nenergy = 0.05\nthreads = 3\nascii = true\ncache = false\nlog_scale = false\n')
    monkeypatch.setenv("ATTN_TUI_ENERGY", "0.2")
    monkeypatch.setenv("ATTN_TUI_ASCII", "0")

    given = explore.make_context("attn-tui", ["demo"]).params
    names = ("theme", "ascii_only", "log_scale", "energy", "threads", "use_cache")
    assert [given[name] for name in names] == ["textual-light", False, False, 0.2, 3, False]
    typed = explore.make_context("attn-tui", ["demo", "--energy", "0.3", "--threads", "1", "--cache"])
    assert (typed.params["energy"], typed.params["threads"], typed.params["use_cache"]) == (0.3, 1, True)


def test_keys_that_change_places_do_not_clash() -> None:
    keys, problems = configure('[keys]\ntree.down = "k"\ntree.up = ["j", "up"]\napp.help = "f1,?"\n').checked_keys()
    assert problems == ()
    assert keys == {"tree.down": "k", "tree.up": "j,up", "app.help": "f1,question_mark"}


def test_a_configured_epsilon_does_not_affect_other_tables() -> None:
    configure("energy = 0.5\nnonsense = 1\n")
    wanted = ("export", "demo", "ranks", "--head", "L0H0", "--matrix", "QK")
    half = attn_tui(*wanted)
    assert "there is no setting nonsense" in half.stderr
    assert half.stdout == attn_tui(*wanted, "--energy", "0.5").stdout != attn_tui(*wanted, "--energy", "0.01").stdout
    assert attn_tui("export", "demo", "spectrum", "--head", "L0H0", "--matrix", "QK").returncode == 0


def test_a_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTN_TUI_CONFIG", str(tmp_path / "mine.toml"))
    assert read_config().problems == (f"{tmp_path / 'mine.toml'}, which ATTN_TUI_CONFIG names, is not there",)


def test_a_damaged_state_is_ignored(tiny_model: TinyModel) -> None:
    outline = open_on_thread(tiny_model("gpt2")).outline
    said = {"head": "decoder.L1H2", "view": "ranks", "text": "日本\t\ud83d", "measure": "stable_rank", "epsilon": 0.05}
    remember("gpt2", said)
    found = {"selected": Head("decoder", 1, 2), "view": "ranks", "text": said["text"], "measure": "stable_rank"}
    assert recall("gpt2", outline) == {**found, "epsilon": 0.05}
    assert place_of("gpt2").stat().st_mode & 0o077 == 0  # a sentence is nobody else's
    for spoilt in (b"[1]", b"\xff\xfe", b'{"head": 3, "epsilon": "x", "view": "ranks"}'):
        place_of("gpt2").write_bytes(spoilt)
        assert recall("gpt2", outline) in ({}, {"view": "ranks"})
    assert recall("another", outline) == {}


def test_info_names_versions_and_every_path_and_says_what_is_not_there() -> None:
    configure("")
    said = attn_tui("info").stdout
    for word in ("torch", "transformers", "textual", "python", "settings", "cache of spectra", "log", "devices"):
        assert any(line.startswith(word) and len(line.split(None, 1)) == 2 for line in said.splitlines()), word
    for path in (config_file(), state_directory(), log_file(), Path.cwd()):
        assert str(path) in said
    assert f"{config_file()}\n" in said
    assert f"{log_file()}  (not there yet)" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ascii = true\nenergy = = 2\n", "(at line 2, column 10); nothing in the file is used; attn-tui"),
        ("Log-Scale = true\n", "there is no setting Log-Scale; attn-tui config --example lists all"),
        ('threads = "many"\n', "'many' is not a valid integer range; it is not used"),
        ("energy = 7\n", "between 0 and 1, such as 0.01; it is not used"),
        ('device = "gpu"\n', "give auto, cpu, cuda, cuda:N or mps"),
        ('theme = "drak"\n', "there is no theme 'drak'; did you mean dark? attn-tui config --example lists all"),
        ('[keys]\n"tree.dwon" = "n"\n', "no binding is called tree.dwon; attn-tui config --example lists all"),
        ('[keys]\ntree.down = "f8"\ntree.up = "f8"\n', "tree.up: f8 is taken by tree.down (Down)"),
        ('[keys]\napp.export = "q"\n', "q is taken by app.quit (Quit); it keeps e"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_the_place(text: str, said: str) -> None:
    configure(text)
    done = attn_tui("config")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"attn-tui: {config_file()}: ")
    assert said in line


@pytest.mark.parametrize(
    ("said", "typed", "variable", "expected"),
    [
        ({"LANG": "C"}, (), "", True),
        ({"LANG": "C"}, ("--no-ascii",), "", False),
        ({"LANG": "C"}, (), "false", False),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, (), "", True),
        ({"LC_ALL": "", "LC_CTYPE": "en_GB.utf8", "LANG": "C"}, (), "", False),
        ({"LANG": "C", "LC_ALL": "en_GB.UTF-8"}, ("--ascii",), "", True),
    ],
)
def test_the_locale_is_the_default_of_ascii(
    said: dict[str, str], typed: tuple[str, ...], variable: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bool] = []

    def launch(*_: Any, ascii_only: bool, **others: Any) -> None:
        drawn.append(ascii_only)

    monkeypatch.setattr("tui.cli.launch.launch", launch)
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.setenv(name, said.get(name, ""))
    monkeypatch.setenv("ATTN_TUI_ASCII", variable)
    assert CliRunner().invoke(command, ["demo", *typed]).exit_code == 0
    assert drawn == [expected]


def test_what_python_makes_of_the_locale_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    imported = "import os; from tui.cli.standard_streams import is_ascii_locale"
    code = f"{imported}; print(os.environ['LC_CTYPE'], is_ascii_locale())"
    assert run_apart(code, LANG="C").split() == ["C.UTF-8", "True"]
