"""Keys that a person adds, shares or removes in the configuration file."""

from __future__ import annotations

import re

import pytest

from tests.cli.test_settings import configure
from tests.conftest import TinyModel
from tests.opening import run_apart
from tests.tui.explorer import explorer, foot, notices, press, screen_text, see, type_keys
from tui.app.start import Start
from tui.screens.palette import Palette
from tui.state.marked_heads import how_to_pin
from tui.toolkit.keys import key_of


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_the_first_binding_in_the_file_gets_a_contested_key_in_every_process(seed: str) -> None:
    configure('[keys]\napp.spectra = "f1"\napp.help = ["f1", "f4"]\napp.ranks = ["f4", "f5"]\n')
    program = "from tui.cli import configuration; print(configuration.read_config().checked_keys())"
    said = run_apart(program, PYTHONHASHSEED=seed)
    assert "{'app.spectra': 'f1', 'app.ranks': 'f4,f5'}" in said
    assert "app.help: f1 is taken by app.spectra (Spectra); it keeps ?" in said


async def test_configured_keys_do_what_they_are_set_to_even_in_place_of_others() -> None:
    config = configure('[keys]\ntree.down = "q"\napp.zoom = "f8"\napp.palette = "ctrl+k"\n')
    assert config.all_problems() == ()
    async with explorer("demo", start=Start("demo", config=config)) as (app, pilot):
        await see(pilot, "unbound:app.tree", "q", selected="L0H1")
        await press(pilot, "f8")
        assert app.views.has_class("-zoomed")
        await press(pilot, "ctrl+k")
        assert isinstance(app.screen, Palette)


async def test_a_removed_key_does_nothing_and_is_named_nowhere() -> None:
    config = configure('[keys]\napp.zoom = ""\napp.ranks = []\napp.spectra = "2"\n')
    assert config.all_problems() == ()
    async with explorer("demo", start=Start("demo", config=config), size=(160, 50)) as (app, pilot):
        assert not app._notifications
        assert "All room" not in foot(app)
        await see(pilot, "3", "2", view="spectra")
        await type_keys(pilot, "z")
        assert not app.views.has_class("-zoomed")
        assert [key_of(app, name) for name in ("app.zoom", "app.ranks")] == [":zoom", ":ranks"]
        await press(pilot, "question_mark")
        for said in ("Zoom the panel", "Ranks", "unbound"):
            assert said not in screen_text(app)
        await press(pilot, "escape", *":zoom", "enter")
        assert app.views.has_class("-zoomed")  # by its name it can be done all the same


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
