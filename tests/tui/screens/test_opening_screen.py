"""Opening a model from the opening screen: what is listed, what Enter would do, and what goes wrong on the way."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from engine.demo import MODEL_DIRECTORY
from engine.service.engine import Engine
from engine.store.history import recent_file, recent_models, remember
from engine.values.found_models import Origin
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub
from tests.opening import hold_up, outline
from tests.tui.explorer import screen_text, settle, type_keys, until
from tests.tui.screens.choosing import opening_screen, words
from tui.screens.chooser import ChooserScreen

NAME = "somebody/tiny"


async def test_models_of_the_cache_are_listed_with_what_they_are_and_what_they_lack(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path
) -> None:
    from engine.checkpoints.locate import locate

    for name in (NAME, "somebody/half", "somebody/empty"):
        hub.add(name, tiny_model("gpt2"))
        locate(name)
    half = tmp_path / "cache" / "models--somebody--half"
    next(half.glob("snapshots/*/model.safetensors")).unlink()
    next((tmp_path / "cache" / "models--somebody--empty").glob("snapshots/*/model.safetensors")).unlink()
    (tmp_path / "cache" / "models--somebody--broken").mkdir()
    (tmp_path / "cache" / "datasets--somebody--words" / "snapshots").mkdir(parents=True)
    async with opening_screen() as (app, pilot, screen):
        found = screen.list.models
        assert (found["demo"].model_type, found["demo"].layers, found["demo"].heads) == ("llama", 4, 8)
        assert found[NAME].missing == ""
        assert found["somebody/half"].missing == "weights"
        assert found["somebody/broken"].missing == "no files"
        assert found["somebody/empty"].missing == "weights"
        assert not any("words" in name for name in found)
        row = next(line for line in screen_text(app).splitlines() if NAME in line)
        assert re.search(r"\d+ kB +gpt2 +2 × 4 +just now", row)
        screen.field.value = "half"
        said = "somebody/half is not complete: weights; Enter downloads"
        await until(pilot, lambda: said in screen_text(app))


async def test_typing_filters_and_enter_opens(hub: FakeHub, tiny_model: TinyModel) -> None:
    from engine.checkpoints.locate import locate

    hub.add(NAME, tiny_model("gpt2"))
    locate(NAME)
    async with opening_screen() as (app, pilot, screen):
        assert "demo" in screen_text(app)
        await type_keys(pilot, *"tin")
        screen.field.value = "tiny gpt"
        for size in ((160, 50), (80, 24), (40, 12)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: "somebody/tiny" in screen_text(app) and "demo" not in screen_text(app))
        assert screen.list.name_chosen == NAME
        await pilot.press("enter")
        await settle(pilot)
        assert not isinstance(app.screen, ChooserScreen)
        assert "tiny" in screen_text(app)
        assert app.conductor.is_open


async def test_the_list_has_the_keys_of_vim_and_the_mouse(hub: FakeHub, tiny_model: TinyModel) -> None:
    from engine.checkpoints.locate import locate

    for number in range(3):
        hub.add(f"{NAME}{number}", tiny_model("gpt2"))
        locate(f"{NAME}{number}")
    async with opening_screen() as (app, pilot, screen):
        assert screen.list.name_chosen == "demo"
        await type_keys(pilot, "down", "down", "up")
        first = screen.list.name_chosen
        assert first.startswith(NAME)
        await type_keys(pilot, "tab", "j", "j")
        last = screen.list.name_chosen
        await type_keys(pilot, "g")
        assert screen.list.name_chosen == "demo"
        await type_keys(pilot, "G", "k", "j")
        assert screen.list.name_chosen == last != first
        await type_keys(pilot, "slash", *"2")
        assert screen.list.name_chosen == f"{NAME}2"
        await type_keys(pilot, "backspace")
        await until(pilot, lambda: f"{NAME}0" in screen_text(app))
        row = next(n for n, line in enumerate(screen_text(app).splitlines()) if f"{NAME}1" in line)
        await pilot.click(offset=(5, row))  # which comes behind the key, when that is done
        await until(pilot, lambda: screen.list.name_chosen == f"{NAME}1")
        assert app.screen is screen, "the first click chooses it"
        await pilot.click(offset=(5, row))
        await settle(pilot)
        assert app.conductor.is_open
        assert "tiny1" in screen_text(app)


@pytest.mark.parametrize("keys", [("escape",), ("tab", "q")])
async def test_without_a_choice_the_program_is_left(keys: tuple[str, ...]) -> None:
    async with opening_screen() as (app, pilot, _):
        await pilot.press(*keys)
        await until(pilot, lambda: not app.is_running or app._exit)
        assert app.return_code == 0
        assert app.failure == ""


async def test_tab_completes_paths_and_a_failure_leaves_the_person_on_the_screen(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_copy("gpt2")
    (folder.parent / "another").mkdir()
    monkeypatch.chdir(folder.parent)
    async with opening_screen() as (app, pilot, screen):
        screen.field.value = "./an"
        await pilot.press("tab")
        await until(pilot, lambda: screen.field.value == "./another/")
        await until(pilot, lambda: "the folder ./another/ holds no model" in screen_text(app))
        (folder.parent / "model.py").write_text("")
        screen.field.value = "./model.py"
        await until(pilot, lambda: "./model.py is a file; a model is the folder with its config.json" in words(app))
        screen.field.value = "./"
        await until(pilot, lambda: "./ holds no model; tab completes: another gpt2-copy" in words(app))
        screen.field.value = "./another/"
        await pilot.press("enter")
        await until(pilot, lambda: "give a folder written by save_pretrained" in words(app))
        assert screen.focused is screen.field
        screen.field.value = "./nowhere/at/all"
        await until(pilot, lambda: "there is no ./nowhere" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "there is no folder" in words(app))
        screen.field.value = "./gp"
        await pilot.press("tab")
        await until(pilot, lambda: screen.field.value == "./gpt2-copy/")
        await pilot.press("tab")
        assert screen.field.value == "./gpt2-copy/"  # which is the model; its files are none
        screen.field.value = "./gpt2-copy/model.safetensors"
        await until(pilot, lambda: "of the model in its folder: Enter opens ./gpt2-copy/" in words(app))
        await pilot.press("enter")
        await settle(pilot)
        assert app.conductor.is_open
    assert [(model.name, model.layers, model.heads) for model in recent_models()] == [(str(folder), 2, 4)]


async def test_a_download_says_how_far_it_is_is_stopped_and_goes_on(
    hub: FakeHub, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.progress.ENOUGH", 0.0)
    hub.add(NAME, tiny_model("gpt2"), **{"long.txt": b" " * 2 * constants.DOWNLOAD_CHUNK_SIZE})
    hub.held_at = constants.DOWNLOAD_CHUNK_SIZE * 3 // 2
    async with opening_screen() as (app, pilot, screen):
        screen.field.value = NAME
        await until(pilot, lambda: f"{NAME} is not on this machine: Enter downloads it" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "10.5 / 21.1 MB" in screen_text(app))
        assert re.search(r"downloading somebody/tiny 10\.5 / 21\.1 MB · [\d.]+ [kM]?B/s · \d+ s left", screen_text(app))
        assert "esc stops, and keeps whole files" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "stopped; whole files are kept" in words(app))
        assert isinstance(app.screen, ChooserScreen)
        whole = {each.name for each in Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/*")}
        assert whole >= {"config.json", "tokenizer.json"}
        hub.requests.clear()
        hub.held_at = None
        await pilot.press("enter")
        await settle(pilot)
        assert app.conductor.is_open
    assert sorted(hub.fetched()) == ["long.txt", "model.safetensors"]


async def test_a_hub_that_does_not_answer_can_be_left_at_once(hub: FakeHub) -> None:
    hub.hanging = ("/api/",)
    async with opening_screen() as (app, pilot, screen):
        screen.field.value = "no/where"
        await pilot.press("enter")
        await until(pilot, lambda: "asking the Hub for no/where" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not screen.field.disabled)
        screen.field.value = "demo"
        await pilot.press("enter")
        await settle(pilot)
        assert app.conductor.is_open


async def test_a_second_model_that_fails_leads_back_to_the_choice_of_the_first(hub: FakeHub) -> None:
    async with opening_screen(options=EngineOptions(use_cache=False, other="no/where")) as (app, pilot, screen):
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ChooserScreen) and app.screen is not screen)
        await until(pilot, lambda: "Enter opens demo" in words(app))
        assert "the Hub has no model 'no/where'" in words(app)
        await pilot.press(*str(MODEL_DIRECTORY), "enter")
        await until(pilot, lambda: not isinstance(app.screen, ChooserScreen))
        await settle(pilot)
        assert app.conductor.is_open
        assert not app.engine.is_comparing
        assert app.failure == ""


async def test_what_was_opened_before_comes_first_and_says_when_it_is_gone(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path
) -> None:
    for name in (str(tmp_path / "gone"), "demo", "somebody/deleted", str(tiny_model("gpt2"))):
        remember(name, outline(name))
    async with opening_screen() as (app, _, screen):
        assert re.search(r" demo .*just now", screen_text(app))
        recent = {name: each.missing for name, each in screen.list.models.items() if each.origin is Origin.RECENT}
    assert recent == {
        str(tiny_model("gpt2")): "", "somebody/deleted": "not on this machine", str(tmp_path / "gone"): "it is gone"
    }  # fmt: skip
    async with opening_screen(options=EngineOptions(keep_recent=False)) as (app, pilot, screen):
        assert list(screen.list.models) == ["demo"]
        assert not re.search(r" demo .*just now", screen_text(app))
        before = recent_file().read_bytes()
        await pilot.press("enter")
        await settle(pilot)
        assert app.conductor.is_open
    assert recent_file().read_bytes() == before


async def test_the_end_of_a_path_is_seen_on_a_narrow_screen(tmp_path: Path) -> None:
    for length in range(20, 40):
        name = f"/{'m' * (length - 6)}/last"
        assert len(name) == length
        remember(name, outline(name))
    async with opening_screen(size=(40, 30)) as (app, _, __):
        rows = re.findall(r"\S*m\S*/last", screen_text(app))
    assert len(rows) == 20
    assert all(row.startswith(("/m", "…m")) for row in rows)


async def test_what_is_typed_while_a_model_opens_is_done_once_it_is_there(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_model, may_open = Engine.open, threading.Event()

    def later(engine: Engine, *arguments: Any) -> Future[ModelOutline]:
        hold_up(engine, may_open)
        return open_model(engine, *arguments)

    monkeypatch.setattr(Engine, "open", later)
    async with opening_screen() as (app, pilot, _):
        for wanted in (str(tiny_model("gpt2")), "demo"):  # the first model, and one over another
            may_open.clear()
            await type_keys(pilot, *wanted, "enter", "2", "j")
            await until(pilot, lambda: "opening" in screen_text(app))
            await type_keys(pilot, "j")
            assert isinstance(app.screen, ChooserScreen)
            may_open.set()
            await settle(pilot)
            assert app.conductor.is_open
            assert app.views.active is app.views.ranks
            assert str(app.session.shown.selected) == "L0H2"
            await pilot.press("1", "B")
            await until(pilot, lambda: isinstance(app.screen, ChooserScreen))
        may_open.clear()
        await type_keys(pilot, *"./nowhere", "enter", "2", "escape")
        await until(pilot, lambda: "stopped" in screen_text(app))
        await type_keys(pilot, *"x")
        assert isinstance(app.screen, ChooserScreen)
        assert app.screen.field.value == "./nowherex"  # what was typed for no model is gone
        may_open.set()
