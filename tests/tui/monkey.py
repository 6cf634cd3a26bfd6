"""Random keys, clicks, sentences and sizes, as a monkey at the keyboard would send them.

It presses the keys that work where the focus is, and opens other models. Every so often everything has to come to rest
and to agree; in the end the explorer still answers, with the right numbers. For a long play:
``python -m tests.tui.monkey --seed 7 --keys 20000 demo FOLDER …``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from textual.pilot import Pilot, WaitForScreenTimeout
from textual.widgets import Input

from engine.service.engine import Engine
from engine.store.files import log_file
from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from engine.values.options import EngineOptions
from tests.tui import monkey_actions as actions
from tests.tui.explorer import outline_of, screen_text, settle, shown, waited_for
from tests.tui.monkey_actions import has_ended
from tests.tui.painted_explorer import PaintedExplorer, stale
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen
from tui.toolkit.themes import OWN

EVERY = 120
"""Keys after which another model is opened and waited for; chance opens more."""

GLANCE = 40
"""Keys after which the screen is compared with one that is painted at once."""

LAST = 50
"""How many of the last keys a report names."""

RESTS = 0.03
"""The probability, after a few keys, that everything has to come to rest."""


class MonkeyError(AssertionError):
    """Something went wrong, with the seed and what was done last."""


class Monkey:
    """Presses keys at random in one explorer after the other.

    Parameters
    ----------
    seed : of the random choices.
    models : opened in turns.
    """

    def __init__(self, seed: int, models: Sequence[str]) -> None:
        self._random, self._seed = random.Random(seed), seed
        self._models, self._model = models, models[0]
        self._done: deque[str] = deque(maxlen=LAST)
        self.pressed = self.opened = 0
        self._due, self._seen = EVERY, 0

    async def play(self, keys: int, stay: int = 700) -> None:
        """Press keys, and open another explorer after about ``stay`` of them.

        Raises
        ------
        MonkeyError : when anything went wrong.
        """
        while self.pressed < keys:
            self._model = self._models[self.opened % len(self._models)]
            self.opened += 1
            until = min(keys, self.pressed + self._random.randint(stay // 2, stay * 3 // 2))
            try:
                await self._explore(until)
            except MonkeyError:
                raise
            except Exception as error:
                raise self._report(repr(error)) from error

    def _report(self, what: str) -> MonkeyError:
        """Make the error, with the model, the last keys and the command that repeats them."""
        return MonkeyError(
            f"{what}\nseed {self._seed}, after {self.pressed} keys, on {self._model}; the last were\n"
            f"{' '.join(self._done)}\nagain: python -m tests.tui.monkey --seed {self._seed} "
            f"--keys {self.pressed + 1} {' '.join(self._models)}"
        )

    def _explorer(self) -> PaintedExplorer:
        """Make an explorer with options by chance."""
        chance = self._random
        other = chance.choice((self._model, *self._models)) if chance.random() < 0.2 else None
        text, theme = chance.choice((None, None, *actions.SENTENCES[:3])), chance.choice((None, None, *OWN))
        ascii_only, uses_cache, is_restoring = (chance.random() < share for share in (0.2, 0.5, 0.5))
        engine = Engine(EngineOptions(use_cache=uses_cache, other=other))
        app = PaintedExplorer(engine, Start(self._model, text=text, is_restoring=is_restoring), ascii_only=ascii_only)
        app.use_theme(theme)
        self._done.append(f"<{app.start} {engine.options} {theme=} {ascii_only=}>")
        return app

    async def _explore(self, until: int) -> None:
        """Open the explorer on a model, press keys, and check that it still answers."""
        unheard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, said: unheard.append(said.get("exception", said)))
        app = self._explorer()
        other = app.engine.options.other
        async with app.run_test(size=self._random.choice(actions.SIZES), notifications=True) as pilot:
            try:
                await self._play_with(app, pilot, until)
            except WaitForScreenTimeout:
                if not has_ended(app):  # else it was left while the pilot waited for its screen
                    raise
            finally:
                await actions.leave(app)
        if app.failure and (other in (None, self._model) or "compare" not in app.failure):
            raise self._report(app.failure)
        if unheard:
            raise self._report(f"the event loop was told of {unheard[0]!r}")
        if log_file().exists():
            raise self._report(log_file().read_text(encoding="utf-8"))

    async def _play_with(self, app: PaintedExplorer, pilot: Pilot[None], until: int) -> None:
        if self._random.random() < 0.7:
            await settle(pilot)
        while self.pressed < until:
            for _ in range(self._random.randint(1, 12)):
                if not has_ended(app):
                    await self._act(app, pilot)
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.0, 0.01, 0.02)))
            if has_ended(app):
                return
            if self.pressed >= self._seen + GLANCE:
                self._seen = self.pressed
                await self._type(app)
                await pilot.pause(0)
                for wrong in stale(app):
                    raise self._report(wrong)
            if self.pressed >= self._due:
                self._due = self.pressed + EVERY
                await self._type(app, "escape", "escape", "escape")
                await self._switch(app, pilot)
                await self._rest(app, pilot)
                if not has_ended(app):
                    await self._type(app, "escape")  # which closes the opening screen where the model was refused
            elif self._random.random() < RESTS:
                await self._rest(app, pilot)
        await self._still_answers(app, pilot)

    async def _act(self, app: PaintedExplorer, pilot: Pilot[None]) -> None:
        self.pressed += 1
        chance = self._random
        kind = chance.random()
        if kind < 0.74:
            self._press(app, chance.choice(actions.working_keys(app) or ["escape"]))
        elif kind < 0.82:
            self._press(app, chance.choice("abcxyz019 .<>=[]_\u00e9\u65e5"))
        elif kind < 0.86:
            self._press(app, chance.choice(("escape", "tab", "shift+tab", "enter", "backspace")))
        elif kind < 0.93:
            self._done.append(actions.point(app, chance))
        elif kind < 0.96:
            width, height = chance.choice(actions.SIZES)
            self._done.append(f"<resize {width}x{height}>")
            actions.resize(app, width, height)
        elif kind < 0.965:
            await self._switch(app, pilot)
        elif kind < 0.977:
            self._done.append(actions.say(app, chance.choice(actions.SENTENCES)))
        elif kind < 0.99:
            self._done.append(actions.paste(app, chance))
        else:
            self._done.append("<wait>")
            await asyncio.sleep(0.05)

    async def _switch(self, app: PaintedExplorer, pilot: Pilot[None]) -> None:
        """Open another model in this explorer, if its key works now."""
        keys = [key for key, active in app.screen.active_bindings.items() if active.binding.id == actions.OPENING]
        if not keys or isinstance(app.focused, Input):
            return
        await self._type(app, keys[0])
        field = next(iter(app.screen.query(Input)), None)  # None before the screen is composed
        if isinstance(app.screen, ChooserScreen) and field is not None:
            field.value = self._random.choice(self._models)  # as it is pasted, whatever had the focus there
            self._done.append(f"<choose {field.value}>")
            await pilot.pause(0)
            self._press(app, "enter")

    def _press(self, app: Explorer, key: str) -> None:
        """Press a key without waiting for its effect."""
        self._done.append(key)
        actions.send_key(app, key)

    async def _type(self, app: PaintedExplorer, *keys: str) -> None:
        """Press keys, and wait until they are handled."""
        for key in keys:
            self._press(app, key)
        if not await actions.taken(app):
            raise self._report(waited_for(app))

    async def _rest(self, app: PaintedExplorer, pilot: Pilot[None]) -> None:
        """Wait for everything, and check that the parts of the screen agree; a box that has just opened may lag."""
        wrong: list[str] = []
        for _ in range(2):
            if not await actions.come_to_rest(app, pilot):
                raise self._report(waited_for(app))
            if has_ended(app):
                return
            wrong = [*disagreements(app), *stale(app)]
            if not wrong:
                return
            await pilot.pause(0.1)
        raise self._report(wrong[0])

    async def _still_answers(self, app: PaintedExplorer, pilot: Pilot[None]) -> None:
        """Check that heads and help are shown, and that the engine computes what a new one does."""
        if has_ended(app):
            return
        self._done.append("<does it still answer?>")
        actions.resize(app, 100, 30)
        await self._rest(app, pilot)  # or a key that was clicked in the line at the foot could come after these
        await self._type(app, *["escape"] * 4)
        await self._rest(app, pilot)
        if has_ended(app):
            return
        if len(app.screen_stack) > 1:
            raise self._report(f"{app.screen!r} does not close")
        await self._type(app, "escape", "1", "right_square_bracket", "left_square_bracket")
        if (head := app.session.shown.selected) is None or head.is_layer:
            await self._type(app, "right_square_bracket")
            head = app.session.shown.selected
        await self._rest(app, pilot)
        assert head is not None
        spectra = app.views.spectra
        if str(head) not in shown(spectra.title_line) or " = " not in shown(spectra.readout_line):
            raise self._report(f"{head} is not shown:\n{screen_text(app)}")
        await self._type(app, "question_mark")
        await pilot.pause(0)
        if "anywhere" not in screen_text(app) and "Next" not in screen_text(app):
            raise self._report(f"? shows no keys:\n{screen_text(app)}")
        await self._type(app, "escape")
        await compare(app, head)


def disagreements(app: Explorer) -> Iterator[str]:
    """Report where tree, session and views show another head, and a focus on what is not visible."""
    selected = app.session.shown.selected
    node = app.main.tree_widget.cursor_node
    under = None if node is None else node.data
    if selected != under and not (node is not None and node.data is None and node.parent is not None):
        yield f"{selected} is selected, and the tree's cursor is on line {app.main.tree_widget.cursor_line}, {under}"
    spectra = app.views.spectra
    if selected is not None and spectra.display:
        name, title = head_text(selected, outline_of(app).stacks), shown(spectra.title_line)
        has_room = spectra.title_line.size.width > len(name)  # of a terminal of a few columns it is cut
        if has_room and name not in title:
            yield f"{name} is selected, and the spectra say {title!r}"
    with contextlib.suppress(EngineError):  # where nothing is shown, which the view says
        app.views.active.table_subject()
    focused = app.focused
    if len(app.screen_stack) > 1 or app.size.width < 40 or app.size.height < 12:
        return
    if focused is None:
        yield "nothing has the focus"
    elif not focused.is_on_screen or not focused.region.area:
        yield f"{focused!r} has the focus and is not to be seen"
    if not app.views.active.region.area:
        yield f"{app.views.active!r} is active and not to be seen"


async def compare(app: Explorer, head: Head) -> None:
    """Check that the engine still computes the same as a fresh one."""
    fresh = Engine(EngineOptions(use_cache=False))
    try:
        await asyncio.wrap_future(fresh.open(outline_of(app).name, lambda progress: None))
        expected = await asyncio.wrap_future(fresh.head_spectra(head))
    finally:
        fresh.stop()
    found = await asyncio.wait_for(asyncio.wrap_future(app.engine.head_spectra(head)), 30)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.singular_values, other.singular_values, rtol=1e-9, atol=1e-12, err_msg=str(head))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tui.monkey", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keys", type=int, default=20000)
    parser.add_argument("models", nargs="*", default=["demo"])
    asked = parser.parse_args()
    models = [model if model == "demo" else str(Path(model).resolve()) for model in asked.models]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HUB_OFFLINE"] = "1"  # what is typed may be a model's name
        os.environ |= {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        os.chdir(home)  # where exports go
        monkey = Monkey(asked.seed, models)
        began, used = time.monotonic(), time.process_time()
        asyncio.run(monkey.play(asked.keys))
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - used:.0f} s of them at work"
    print(f"seed {asked.seed}: {monkey.pressed} keys, {monkey.opened} explorers, {took}")


if __name__ == "__main__":
    main()
