"""The opening screen: what is listed and typed, what Enter does, and what goes wrong."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import constants
from textual.pilot import Pilot

from engine.checkpoints.locate import locate
from engine.store.history import MOST_MODELS, recent_file, recent_models, remember_model
from engine.values.options import EngineOptions
from engine.values.outline import Origin
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub
from tests.opening import outline
from tests.tui.explorer import foot, line_of, opening_screen, press, screen_text, settle, type_keys, until, until_shown
from tui.screens.chooser import ChooserScreen

NAME = "somebody/tiny"


async def put(pilot: Pilot[None], screen: ChooserScreen, typed: str, said: str) -> None:
    """Put a name into the field, and wait until something is said of it."""
    screen.field.value = typed
    await until_shown(pilot, said)


async def until_chosen(pilot: Pilot[None], screen: ChooserScreen, name: str) -> None:
    """Wait until the cursor is on a model."""
    await until(pilot, lambda: screen.list.name_chosen == name)


async def test_cached_models_are_listed_found_and_opened(hub: FakeHub, tiny_model: TinyModel, tmp_path: Path) -> None:
    for name in (NAME, "somebody/half"):
        hub.add(name, tiny_model("gpt2"))
        locate(name)
    next((tmp_path / "cache" / "models--somebody--half").glob("snapshots/*/model.safetensors")).unlink()
    (tmp_path / "cache" / "models--somebody--broken").mkdir()
    (tmp_path / "cache" / "datasets--somebody--words" / "snapshots").mkdir(parents=True)
    async with opening_screen() as (app, pilot, screen):
        found = screen.list.models
        assert {name: each.missing for name, each in found.items()} == {
            "demo": "", NAME: "", "somebody/half": "weights", "somebody/broken": "no files"
        }  # fmt: skip
        assert (found["demo"].model_type, found["demo"].layers, found["demo"].heads) == ("llama", 4, 8)
        assert re.search(rf"{NAME} .*\d+ kB +gpt2 +2 × 4", screen_text(app))
        await put(pilot, screen, "half", "somebody/half is not complete: weights; Enter downloads")
        screen.field.value = "tiny gpt"
        await until(pilot, lambda: NAME in screen_text(app) and "demo" not in screen_text(app))
        await press(pilot, "enter")
        assert not isinstance(app.screen, ChooserScreen)
        assert "tiny" in screen_text(app)
        assert app.main.stores is not None


async def test_the_list_has_the_keys_of_vim_and_the_mouse(hub: FakeHub, tiny_model: TinyModel) -> None:
    for number in range(2):
        hub.add(f"{NAME}{number}", tiny_model("gpt2"))
        locate(f"{NAME}{number}")
    async with opening_screen() as (app, pilot, screen):
        await type_keys(pilot, "tab", "G")
        last = screen.list.name_chosen
        await type_keys(pilot, "g", "g")
        assert screen.list.name_chosen == "demo" != last
        await type_keys(pilot, "G", "k", "j")
        assert screen.list.name_chosen == last
        await type_keys(pilot, "slash", "1")
        assert screen.list.name_chosen == f"{NAME}1"
        await type_keys(pilot, "backspace")
        await until_shown(pilot, f"{NAME}0")
        row = line_of(app, f"{NAME}0")
        await pilot.click(offset=(5, row))  # which comes behind the key, when that is done
        await until_chosen(pilot, screen, f"{NAME}0")
        assert app.screen is screen, "the first click chooses it"
        await pilot.click(offset=(5, row))
        await settle(pilot)
        assert "tiny0" in screen_text(app)


async def test_paths_are_opened_and_failures_are_said(tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_copy("gpt2")
    (folder.parent / "another").mkdir()
    monkeypatch.chdir(folder.parent)
    async with opening_screen() as (app, pilot, screen):
        for wrong, said in (
            ("./another/", "give a folder written by save_pretrained"),
            ("./none", "there is no folder"),
        ):
            await put(pilot, screen, wrong, f"Enter opens {wrong}")
            await type_keys(pilot, "enter")
            await until_shown(pilot, said)
            assert screen.focused is screen.field
        await put(pilot, screen, "./gpt2-copy", "Enter opens ./gpt2-copy")
        await press(pilot, "enter")
        assert app.main.stores is not None
    assert [(model.name, model.layers, model.heads) for model in recent_models()] == [(str(folder), 2, 4)]


async def test_a_download_says_how_far_it_is_is_stopped_and_goes_on(
    hub: FakeHub, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.progress.RATE_SECONDS", 0.0)
    hub.add(NAME, tiny_model("gpt2"), **{"long.txt": b" " * 2 * constants.DOWNLOAD_CHUNK_SIZE})
    hub.held_at = constants.DOWNLOAD_CHUNK_SIZE * 3 // 2
    async with opening_screen() as (app, pilot, screen):
        await put(pilot, screen, NAME, f"{NAME} is not listed: Enter opens a folder of that name, or downloads")
        await type_keys(pilot, "enter")
        await until_shown(pilot, "10.5 / 21.1 MB")
        assert re.search(r"downloading somebody/tiny 10\.5 / 21\.1 MB · [\d.]+ [kM]?B/s · \d+ s left", screen_text(app))
        assert "esc stops, and keeps complete files" in screen_text(app)
        await type_keys(pilot, "escape")
        await until_shown(pilot, "stopped; complete files are kept")
        assert isinstance(app.screen, ChooserScreen)
        whole = {each.name for each in Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/*")}
        assert whole >= {"config.json", "tokenizer.json"}
        hub.requests.clear()
        hub.held_at = None
        await press(pilot, "enter")
        assert app.main.stores is not None
    assert sorted(hub.fetched()) == ["long.txt", "model.safetensors"]


async def test_a_failing_second_model_ends_the_explorer_with_the_reason(hub: FakeHub) -> None:
    async with opening_screen(options=EngineOptions(use_cache=False, other="no/where")) as (app, pilot, _):
        await type_keys(pilot, "enter")
        await until(pilot, lambda: "the Hub has no model 'no/where'" in app.failure)


async def test_recent_models_come_first_and_say_if_gone(hub: FakeHub, tiny_model: TinyModel, tmp_path: Path) -> None:
    for name in (str(tmp_path / "gone"), "demo", "somebody/deleted", str(tiny_model("gpt2"))):
        remember_model(outline(name))
    async with opening_screen() as (app, _, screen):
        assert "opened before" in screen_text(app)
        recent = {name: each.missing for name, each in screen.list.models.items() if each.origin is Origin.RECENT}
    assert recent == {
        str(tiny_model("gpt2")): "", "somebody/deleted": "not on this machine", str(tmp_path / "gone"): "it is gone"
    }  # fmt: skip
    async with opening_screen(options=EngineOptions(keep_recent=False)) as (app, pilot, screen):
        assert list(screen.list.models) == ["demo"]
        assert "opened before" not in screen_text(app)
        before = recent_file().read_bytes()
        await press(pilot, "enter")
        assert app.main.stores is not None
    assert recent_file().read_bytes() == before


async def test_names_paths_and_addresses_are_opened_and_a_fragment_searches(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("org/gpt2-xl", "org/gpt2-medium", "distilbert"):
        hub.add(name, tiny_model("gpt2"))
        locate(name)
    (tmp_path / "org" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    meant = {
        "org/gpt2": "org/gpt2", "org/gpt2-xl": "org/gpt2-xl", "ORG/GPT2-XL": "org/gpt2-xl", "gpt2-xl": "org/gpt2-xl",
        "medium": "org/gpt2-medium", "tilb": "tilb", "ber": "distilbert", "bert": "bert", "dem": "demo",
        "org/mine": "org/mine", "org/": "org/", "./org/mi": "./org/mi",
    }  # fmt: skip
    folder = tiny_model("gpt2")
    pasted = {
        f'"{folder}"': f"opens {folder}", f"file://{folder}": f"opens {folder}",
        "https://huggingface.co/org/gpt2-xl": "Enter opens org/gpt2-xl",
        "hf.co/no/tiny/tree/main": "no/tiny is not listed",
    }  # fmt: skip
    async with opening_screen((200, 24)) as (app, pilot, screen):
        for typed, opened in meant.items():
            screen.field.value = typed
            await until_chosen(pilot, screen, opened)
            is_listed = typed == "org/gpt2-xl"
            await until(pilot, partial(lambda wanted: ("as typed" in screen_text(app)) == wanted, not is_listed))
        await type_keys(pilot, "end", "ctrl+u", *"medium", "up")
        await until_shown(pilot, "medium is not listed: Enter opens a folder of that name, or downloads it")
        assert screen.list.name_chosen == "medium"
        await type_keys(pilot, "down", "ctrl+p", "ctrl+n")
        await until_shown(pilot, "Enter opens org/gpt2-medium")
        assert screen.list.name_chosen == "org/gpt2-medium"
        for typed, said in pasted.items():
            await put(pilot, screen, typed, said)
        screen.field.value = f"'{folder}/'"
        await until_chosen(pilot, screen, f"{folder}/")
        await type_keys(pilot, "enter")
        await until(pilot, lambda: app.main.is_ready and app.main.stores is not None)


async def test_an_empty_cache_says_so_escape_clears_and_leaves_and_columns_stand_below_their_names(
    hub: FakeHub, tiny_model: TinyModel
) -> None:
    async with opening_screen((40, 12)) as (app, pilot, screen):
        await until_shown(pilot, "the Hub cache is empty; type an id, such as gpt2")
        await until(pilot, lambda: "esc Leave" in foot(app))
        await type_keys(pilot, "d")
        await until(pilot, lambda: "the Hub cache is empty" not in screen_text(app) and "esc Clear" in foot(app))
        await type_keys(pilot, "escape")
        assert screen.field.value == ""
        await until(pilot, lambda: "esc Leave" in foot(app))
        await type_keys(pilot, "escape")
        await until(pilot, lambda: app._exit)
    hub.add("org/tiny", tiny_model("gpt2"))
    locate("org/tiny")
    async with opening_screen() as (app, pilot, _):
        for size in ((80, 24), (160, 50)):
            await pilot.resize_terminal(*size)
            await until_shown(pilot, "L × H")
            assert "the Hub cache is empty" not in screen_text(app)
            heading, row = (screen_text(app).splitlines()[line_of(app, each)] for each in ("L × H", "org/tiny"))
            assert heading.index("model") == row.index("org/tiny")
            assert heading.index("size") + len("size") == row.index(" kB") + len(" kB")
            assert heading.index("type") == row.index("gpt2")


def test_a_damaged_list_is_written_anew_and_a_list_is_short_and_has_every_model_once() -> None:
    recent_file().parent.mkdir(parents=True)
    for content in ("{", "[1, {}, null]", '[{"name": 3}, {"name": " "}]'):
        recent_file().write_text(content)
        assert recent_models() == (), content
    for number in range(MOST_MODELS + 5):
        remember_model(outline(f"m{number}"))
    remember_model(outline("m20"))
    names = [model.name for model in recent_models()]
    assert names[:3] == ["m20", "m34", "m33"]
    assert len(names) == len(set(names)) == MOST_MODELS == len(json.loads(recent_file().read_text()))
