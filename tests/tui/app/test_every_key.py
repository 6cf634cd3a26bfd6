"""Every binding is pressed by a test, and after hundreds of random keys the explorer still answers.

For long plays with other seeds: ``python -m tests.tui.monkey --seed 7 --keys 20000 demo FOLDER …``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest
from textual.notifications import Notification

from tests.conftest import TinyModel
from tests.documentation import bindings
from tests.tui.explorer import key_event, settle, type_keys
from tests.tui.monkey import Monkey
from tests.tui.monkey_checks import drawn_otherwise, said_twice
from tests.tui.painted import good_terminal
from tests.tui.painted_explorer import painted_explorer

WHERE = Path(__file__).parents[2]

_PRESSES = re.compile(r"(?:press\w*|send|type_keys|keys?)\b[^\n]*|\([\[(]?\"[^\n]*")
_WORDS = re.compile(r"[\"']([^\"'\s]+)[\"']")


def pressed() -> set[str]:
    """Give all keys that tests of the explorer name where they press some."""
    texts = (file.read_text(encoding="utf-8") for file in WHERE.rglob("test_*.py"))
    lines = [line for text in texts if "pilot" in text or "terminal" in text for line in _PRESSES.findall(text)]
    words = {word for line in lines for word in _WORDS.findall(line)}
    return words | {key_event(character).key for word in words if len(word) < 40 for character in word}


def test_every_binding_is_pressed_by_a_test() -> None:
    keys: dict[str | None, set[str]] = defaultdict(set)
    for binding in bindings():
        keys[binding.id].add(binding.key)
    done = pressed()
    missing = {name: of for name, of in keys.items() if not of & done}
    assert not missing, "press one key of each in a test of the explorer"


async def test_the_random_play_finds_stale_cells_and_double_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with painted_explorer() as (app, pilot):
        rest, press = partial(settle, pilot), partial(type_keys, pilot)
        await rest()
        assert not [wrong async for wrong in drawn_otherwise(app, press, rest)]
        app.picture.cells[3, 3] = ("#", "")
        assert len([wrong async for wrong in drawn_otherwise(app, press, rest)]) == 1
        app.notify("said")
        await rest()
        assert not list(said_twice(app))
        app._notifications.add(Notification("said"))
        assert list(said_twice(app)) == ["('', 'said') is said 2 times at the same time"]


KEYS = 510
"""Keys in each play; the four take about a minute of one processor."""


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_keys_at_random_do_no_harm(
    seed: int, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)  # where exports go
    models = ["demo", *(str(tiny_model(kind, with_head=True)) for kind in ("llama", "gpt2", "t5", "bert"))]
    monkey = Monkey(seed=seed, models=models)
    await monkey.play(KEYS, stay=2 * KEYS)
    assert monkey.pressed >= KEYS
    assert monkey.opened + monkey.switched > 2, "a model is opened anew after the key that quits, too"
    assert monkey.resized > 2
