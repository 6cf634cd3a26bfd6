"""What is typed on the opening screen: which model Enter means, what tab completes, and which keys are shown."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
from textual.widgets import Input

from engine.checkpoints import model_names
from engine.checkpoints.locate import locate
from engine.store.history import remember
from engine.values.found_models import GONE, FoundModel, Origin, Place
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub
from tests.opening import hold_up, outline
from tests.tui.explorer import screen_text, type_keys, until
from tests.tui.screens.choosing import opening_screen, words
from tui.app import Explorer
from tui.screens.enter_words import enter_does


async def test_a_name_typed_in_full_is_what_enter_opens_and_a_fragment_finds(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("org/gpt2-xl", "org/gpt2-medium", "distilbert"):
        hub.add(name, tiny_model("gpt2"))
        locate(name)
    (tmp_path / "org" / "mine").mkdir(parents=True)
    folder = str(tiny_model("gpt2"))
    remember(folder, outline("gpt2"))
    monkeypatch.chdir(tmp_path)
    meant = {
        "org/gpt2": "org/gpt2", "org/gpt2-xl": "org/gpt2-xl", "ORG/GPT2-XL": "org/gpt2-xl", "gpt2-xl": "org/gpt2-xl",
        "medium": "org/gpt2-medium", "tilb": "tilb", "ber": "distilbert", "bert": "bert", "dem": "demo",
        "org/mine": "org/mine", "org/": "org/", "./org/mi": "./org/mi", folder[:-1]: folder,
    }  # fmt: skip
    async with opening_screen() as (app, pilot, screen):
        for typed, opened in meant.items():
            screen.field.value = typed
            await until(pilot, lambda: screen._place is not None)
            await until(pilot, partial(lambda name: screen.list.name_chosen == name, opened))
            is_listed = typed in ("org/gpt2-xl", folder[:-1])
            await until(pilot, partial(lambda wanted: ("as typed" in screen_text(app)) == wanted, not is_listed))
        await type_keys(pilot, "end", "ctrl+u", *"medium", "up")
        await until(pilot, lambda: "medium is not on this machine: Enter downloads it from the Hub" in words(app))
        assert screen.list.name_chosen == "medium"
        await type_keys(pilot, "down", "ctrl+p", "ctrl+n")
        await until(pilot, lambda: "Enter opens org/gpt2-medium" in words(app))
        assert screen.list.name_chosen == "org/gpt2-medium"


async def test_the_cursor_follows_what_is_found_until_it_is_moved() -> None:
    async with opening_screen() as (app, pilot, screen):
        await type_keys(pilot, *"tiny")
        await until(pilot, lambda: screen.list.name_chosen == "tiny")
        screen.list.add([FoundModel("org/tiny-one", Origin.HUB)])
        assert screen.list.name_chosen == "org/tiny-one"
        await type_keys(pilot, "up")
        await until(pilot, lambda: screen.list.name_chosen == "tiny")
        screen.list.add([FoundModel("org/tiny", Origin.HUB)])
        assert screen.list.name_chosen == "tiny"
        await type_keys(pilot, "backspace")
        await until(pilot, lambda: screen.list.name_chosen == "org/tiny-one")
        await until(pilot, lambda: "Enter opens org/tiny-one" in words(app))


async def test_tab_completes_the_names_of_listed_models_and_then_goes_to_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening_screen() as (app, pilot, screen):
        screen.list.add(FoundModel(name, Origin.HUB) for name in ("org/tiny-one", "org/tiny-two", "other/three"))
        await type_keys(pilot, *"org/")
        await until(pilot, lambda: "as typed" not in screen_text(app))
        await type_keys(pilot, "t")
        await until(pilot, lambda: "Enter downloads it from the Hub; tab completes: org/tiny-" in words(app))
        await type_keys(pilot, "ctrl+u", "O", "r", "tab")
        await until(pilot, lambda: screen.field.value == "org/tiny-")
        await type_keys(pilot, "o", "tab")
        await until(pilot, lambda: screen.field.value == "org/tiny-one")
        assert screen.focused is screen.field
        await type_keys(pilot, "tab")
        await until(pilot, lambda: screen.focused is screen.list)
        await type_keys(pilot, "tab")
        may_go_on = threading.Event()
        hold_up(app.engine, may_go_on)
        await type_keys(pilot, "tab")
        screen.post_message(Input.Changed(screen.field, screen.field.value))  # it is looked at what is typed, too
        await pilot.pause()
        may_go_on.set()
        await until(pilot, lambda: screen.focused is screen.list)
        (tmp_path / "folder").mkdir()
        monkeypatch.chdir(tmp_path)
        screen.field.value = "fold"
        await until(pilot, lambda: "Enter downloads it from the Hub; tab completes: folder/" in words(app))


@pytest.mark.parametrize("width", [80, 40])
async def test_the_line_of_keys_says_what_works_where_the_focus_is(hub: FakeHub, width: int) -> None:
    hub.hanging = ("/api/",)

    def key_line(app: Explorer) -> str:
        return screen_text(app).splitlines()[-1].strip()

    async with opening_screen((width, 12)) as (app, pilot, _):
        await until(pilot, lambda: "tab Complete" in key_line(app))
        assert "? Keys" not in key_line(app)
        assert ("f1 Keys" in key_line(app)) == (width == 80)
        await type_keys(pilot, "tab")
        await until(pilot, lambda: "/ Search" in key_line(app))
        assert "? Keys" in key_line(app)
        assert ("g First" in key_line(app)) == (width == 80)
        assert "Complete" not in key_line(app)
        await pilot.click(offset=(key_line(app).index("/ Search") + 2, 11))
        await until(pilot, lambda: "tab Complete" in key_line(app))
        await type_keys(pilot, "tab")
        await until(pilot, lambda: "/ Search" in key_line(app))
        await type_keys(pilot, "slash", *"no/where", "enter")
        await until(pilot, lambda: "esc Stop" in key_line(app))
        assert "Open" not in key_line(app)
        await type_keys(pilot, "escape")
        await until(pilot, lambda: "tab Complete" in key_line(app))
        await type_keys(pilot, "f1")
        await until(pilot, lambda: "in this menu" in screen_text(app))


async def test_an_empty_cache_says_so_and_the_columns_stand_below_their_names(
    hub: FakeHub, tiny_model: TinyModel
) -> None:
    async with opening_screen((40, 12)) as (app, pilot, _):
        assert "nothing in the local Hub cache yet: type an id, such as gpt2" in words(app)
        await type_keys(pilot, "d")
        await until(pilot, lambda: "nothing in the local" not in words(app))
    hub.add("org/tiny", tiny_model("gpt2"))
    locate("org/tiny")
    for size in ((80, 24), (160, 50)):
        async with opening_screen(size) as (app, pilot, _):
            assert "nothing in the local" not in words(app)
            lines = screen_text(app).splitlines()
            heading = next(line for line in lines if "L × H" in line)
            row = next(line for line in lines if "org/tiny" in line)
            assert heading.index("model") == row.index("org/tiny")
            assert heading.index("size") + len("size") == row.index(" kB") + len(" kB")
            assert heading.index("last used") == row.index("just now")
    async with opening_screen() as (app, pilot, _):
        before = app.theme
        await type_keys(pilot, "ctrl+t")
        await until(pilot, lambda: app.theme != before)


async def test_what_is_pasted_in_quotes_as_an_address_or_beside_a_model_opens_that_model(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path
) -> None:
    hub.add("org/tiny", tiny_model("gpt2"))
    cached = locate("org/tiny").directory
    folder = tiny_model("gpt2")
    copy = tmp_path / "hub" / "models--some--body"
    (copy / "snapshots").mkdir(parents=True)
    (copy / "refs").mkdir()
    (copy / "refs" / "main").write_text("abc", encoding="utf-8")
    (copy / "snapshots" / "abc").symlink_to(cached)
    pasted = {
        f'"{folder}"': f"opens the folder {folder}", f"'{folder}/' ": f"opens the folder {folder}/",
        f"file://{folder}": f"opens the folder {folder}", f"{folder}/config.json": "in its folder: Enter opens",
        "https://huggingface.co/org/tiny": "Enter opens org/tiny", "hf.co/no/tiny/tree/main": "no/tiny is not on",
        str(cached.parents[1]): "cache calls a model: Enter opens",
        str(copy): "cache calls a model: Enter opens", "https://huggingface.co/datasets/a/b": "no Hub id is written so",
    }  # fmt: skip
    async with opening_screen((200, 24)) as (app, pilot, screen):
        for typed, said in pasted.items():
            screen.field.value = typed
            await until(pilot, lambda said=said: said in words(app))  # type: ignore[misc]
        screen.field.value = f"'{folder}/config.json'"
        await until(pilot, lambda: screen.list.name_chosen == f"{folder}/config.json")
        await type_keys(pilot, "enter")
        await until(pilot, lambda: app.is_ready and app.conductor.is_open)
    assert Path(model_names.model_at_path(str(copy))) == copy / "snapshots" / "abc"


async def test_a_slash_in_the_list_begins_a_new_text_and_a_tilde_becomes_a_path() -> None:
    async with opening_screen() as (_, pilot, screen):
        await type_keys(pilot, *"demo", "tab")
        await until(pilot, lambda: screen.focused is screen.list)
        await type_keys(pilot, "slash", *"/tmp")
        await until(pilot, lambda: screen.field.value == "/tmp")
        await type_keys(pilot, "ctrl+u", "~", "tab")
        await until(pilot, lambda: screen.field.value == "~/")
        assert screen.focused is screen.field


def test_of_many_completions_the_first_are_named() -> None:
    for count, more in ((8, ""), (9, "  …")):
        place = Place("/x/", "", tuple(f"/x/{letter}/" for letter in "abcdefghi"[:count]))
        assert enter_does(None, "/x/", place, "⏎", "tab") == f"tab completes: a  b  c  d  e  f  g  h{more}"


async def test_escape_goes_one_step_back_at_a_time_and_the_line_of_keys_says_which() -> None:
    async with opening_screen() as (app, pilot, screen):

        def foot() -> str:
            return screen_text(app).splitlines()[-1]

        await until(pilot, lambda: "esc Leave" in foot())
        await type_keys(pilot, *"zzz")
        await until(pilot, lambda: "esc Clear" in foot())
        screen.set_focus(screen.list)
        await until(pilot, lambda: "esc Back" in foot())
        await type_keys(pilot, "escape")
        assert screen.focused is screen.field
        assert screen.field.value == "zzz"
        await type_keys(pilot, "escape")
        assert screen.field.value == ""
        await until(pilot, lambda: "esc Leave" in foot())
        assert not app._exit
        await type_keys(pilot, "escape")
        await until(pilot, lambda: app._exit)


async def test_behind_the_opening_screen_stands_nothing_of_an_explorer_without_a_model() -> None:
    async with opening_screen((160, 50)) as (app, _, screen):
        box = screen.query_one("#chooser").region
        lines = screen_text(app).splitlines()
        around = [*lines[: box.y], *lines[box.bottom : -1]]
        around += [line[: box.x] + line[box.right :] for line in lines[box.y : box.bottom]]
        assert "".join(around).strip() == ""


def test_a_folder_that_is_gone_is_said_to_be_in_one_sentence() -> None:
    gone = FoundModel("/some/where", Origin.RECENT, missing=GONE)
    assert (
        enter_does(gone, gone.name, None, "Enter", "tab") == "/some/where is no longer there; Enter looks for it again"
    )
