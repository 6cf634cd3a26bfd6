"""Every binding is named and can be changed; after random keys the explorer still answers.

For long plays with other seeds: ``python -m tests.tui.monkey --seed 7 --keys 20000 demo FOLDER …``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.app import App
from textual.screen import Screen
from textual.widgets import Input

from tests.cli.test_settings import configure
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, notices, press, screen_text, see, type_keys
from tests.tui.monkey import Monkey
from tests.tui.painted import good_terminal
from tui.app.keymap import classes_with_keys
from tui.app.start import Start
from tui.screens.palette import Palette
from tui.state.session import how_to_pin
from tui.toolkit.keys import key_of

KEYS = 1000
"""Keys in each play."""


@pytest.mark.parametrize("seed", [1, 2])
async def test_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)  # where exports go
    models = ["demo", *(str(tiny_model(kind, with_head=True)) for kind in ("llama", "gpt2", "t5", "bert"))]
    await Monkey(seed=seed, models=models).play(KEYS, stay=2 * KEYS)


def test_every_key_that_does_something_has_an_id() -> None:
    whole = [
        each
        for each in classes_with_keys()
        if (issubclass(each, Screen | App) or getattr(each, "can_focus", False))
        and ("BINDINGS" in vars(each) or not each.__subclasses__())
    ]
    assert [key for kind in whole for key in kind._merge_bindings() if key[1].id is None] == []


EDITS = (
    ("o n e space t w o ctrl+left backspace space", "one two"), ("ctrl+a delete ctrl+right ctrl+w", "two"),
    ("ctrl+e x alt+backspace", ""), ("a b left ctrl+k", "a"), ("ctrl+u", ""), ("a space b ctrl+backspace", "a "),
    ("left left alt+d", ""), ("a b home shift+right ctrl+x ctrl+v", "ab"), ("end shift+home ctrl+x", ""),
    ("a b home shift+end ctrl+x", ""), ("a b ctrl+shift+left ctrl+x", ""), ("a b home ctrl+shift+right ctrl+x", ""),
    ("a b ctrl+shift+a ctrl+x", ""),
)  # fmt: skip
"""Keys in a line that is typed into, and its text after them."""


async def test_a_line_is_edited_alike_wherever_one_is_typed_into() -> None:
    async with explorer("demo", head="L0H1") as (app, pilot):
        for begin in ("i", "colon", "ctrl+p"):
            await type_keys(pilot, "unbound:app.tree", *begin.split())
            field = app.focused
            assert isinstance(field, Input)
            for keys, wanted in EDITS:
                await type_keys(pilot, *keys.split())
                assert field.value == wanted, (begin, keys)
            await type_keys(pilot, "escape")


async def test_a_removed_key_does_nothing_and_a_parts_own_key_comes_before_another() -> None:
    config = configure(
        '[keys]\napp.zoom = ""\napp.ranks = []\napp.spectra = "2"\ntree.down = "q"\napp.palette = "ctrl+k"\n'
    )
    async with explorer("demo", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        assert not app._notifications
        assert "All room" not in foot(app)
        await see(pilot, "unbound:app.tree", "q", selected="L0H1")  # and does not leave
        await see(pilot, "3", "2", view="spectra")
        await type_keys(pilot, "z")
        assert not app.views.has_class("-zoomed")
        assert [key_of(app, name) for name in ("app.zoom", "app.ranks")] == [":zoom", ":ranks"]
        await press(pilot, "question_mark")
        for said in ("Zoom the panel", "Ranks", "unbound"):
            assert said not in screen_text(app)
        await press(pilot, "escape", *":zoom", "enter")
        assert app.views.has_class("-zoomed")  # by its name it can be done all the same
        await press(pilot, "ctrl+k")
        assert isinstance(app.screen, Palette)


async def test_configured_keys_work_and_are_shown_at_the_foot_and_in_the_help(tiny_model: TinyModel) -> None:
    config = configure(
        'nonsense = 1\n[keys]\napp.export = "f6"\ntree.down = "f8"\napp.ranks = ["R", "f2"]\ntree.upp = "q"\n'
        'app.sentence = "f7"\napp.compare = "f9"\n'
    )
    start = Start(str(tiny_model("llama")), text="", config=config)
    async with explorer("", start=start, size=(120, 40)) as (app, pilot):
        (said,) = notices(app)
        assert re.search(r"^config\.toml: there is no setting nonsense.*\n… and 1 more; attn-tui config lists", said)
        assert re.search(r" f7 Sentence .*f6 Export .*q Quit", foot(app))
        await see(pilot, "j", selected="L0H0")
        await see(pilot, "f8", "f8", "k", selected="L0H1")
        await see(pilot, "2", view="overview")
        await see(pilot, "f2", view="ranks")
        app.clear_notifications()
        await see(pilot, "3", "f9", text="press f7 and type a sentence")
        await see(pilot, text="sentence f7: type a sentence, Enter reads it")
        assert notices(app) == [how_to_pin("P", "f9")]
        app.clear_notifications()
        for typed, line in (("export", r"f6\s+Export"), ("ranks", r"(R f2|f2 R)\s+Ranks")):
            await press(pilot, "question_mark", "slash", *typed)
            assert re.search(line, screen_text(app))
            await type_keys(pilot, "escape", "escape")
