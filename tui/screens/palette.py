"""The palette of commands: any head, every view, what every key does, and themes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import ClassVar

from rich.align import Align
from rich.text import Text
from textual import on
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingsMap, BindingType
from textual.command import CommandInput, CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.widgets import Input
from textual.widgets.option_list import Option
from textual.worker import WorkerCancelled

from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.drawing.text import quoted
from tui.screens.commands import ALSO_CALLED, THEME, Doable, doables, fit_of, in_view
from tui.state.places import parse_place, split_digits, view_names
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tree_search import is_condition, is_name
from tui.toolkit.keys import key_of
from tui.toolkit.messages import PlaceWanted, Told
from tui.toolkit.themes import every_theme, find_theme
from tui.views.switcher import Views
from tui.widgets.field import Field

MOST = 40
"""Heads that are offered at once: more than a screen has room for, and few of the thousands there are."""


class Commands(Provider):
    """Heads that a text may mean before everything else, then what matches it by its letters."""

    @property
    def _views(self) -> Views | None:
        """The views, once they are there."""
        return next(iter(self.screen.query(Views)), None)

    async def discover(self) -> Hits:
        """Offer views first, then the other actions in the order of the help."""
        for each in doables(self.screen):
            yield DiscoveryHit(Text(_shown(each)), each.do, _shown(each))

    async def search(self, query: str) -> Hits:
        """Offer heads, then actions, views and themes, the best match first; of two as good the one of the help."""
        stores = None if self._views is None else self._views.stores
        if self._views is not None and stores is not None:
            now = self._views.session.shown
            heads = _heads(query, stores, now)
            if not heads and (trouble := _trouble(query, stores, now)):
                yield Hit(2.0, Text(trouble), partial(self.app.notify, trouble), trouble)
            for place, head in enumerate(heads):
                name = f"{head.stack} {head}" if len(stores.outline.stacks) > 1 else str(head)
                label = stores.labels.of(head)
                shown = f"{name} · {label}" if label else name
                yield Hit(_worth(query, head, label) - place / 1000, Text(shown), partial(self._go, head), shown)
        matcher = self.matcher(query)
        best: dict[str, tuple[float, Doable]] = {}
        every = list(self._every())
        every += [replace(each, name=name) for each in every for name in ALSO_CALLED.get(each.name, ())]
        for place, each in enumerate(every):
            score = (fit_of(query, each.name, each.description) - place / 1000) / 10
            if score > best.get(each.description, (0.0, each))[0]:
                best[each.description] = (score, each)
        for score, each in best.values():
            yield Hit(score, matcher.highlight(_shown(each, query)), each.do, _shown(each, query))

    def _every(self) -> Iterator[Doable]:
        """Give everything that can be done; what the active view has of a name comes after what has the focus now."""
        own = [self._jump, *doables(self.screen)]
        yield from own
        known = {word for each in own for word in (each.name, each.description)}
        for each in (*self._named_views(), *(() if self._views is None else in_view(self._views))):
            if known.isdisjoint((each.name, each.description)):
                known |= {each.name, each.description}
                yield each
        for name in every_theme():
            yield Doable(
                name, f"{THEME}{name}", (), partial(self.app.run_action, f"app.choose_theme({find_theme(name)!r})")
            )

    @property
    def _jump(self) -> Doable:
        """Give the line at the foot, whose key waits for every box to be closed."""
        jump = next(each for _, each in self.screen._bindings if each.action == "jump")
        go_to = partial(self.screen.run_action, "screen.jump")
        return Doable("jump", jump.description, (key_of(self.app, str(jump.id)),), go_to)

    def _named_views(self) -> Iterator[Doable]:
        """Give the views, of which some share a key."""
        if self._views is not None and self._views.stores is not None:
            for view in view_names(is_comparing=self._views.is_comparing):
                yield Doable(view, f"{view.capitalize()} view", (), partial(self._go, view))

    def _go(self, place: Head | str) -> None:
        """Go to a head or a view."""
        if self._views is not None:
            self._views.post_message(PlaceWanted(place))


def _shown(each: Doable, typed: str = "") -> str:
    """Write what is done with its keys, behind the word for it where that alone is what was typed."""
    is_said = each.name.replace("-", " ") in each.description.lower()
    is_name = not is_said and fit_of(typed, each.name, "") > fit_of(typed, "", each.description)
    return f"{each.name} · " * is_name + each.description + (f"  ({' '.join(each.keys)})" if each.keys else "")


def _worth(typed: str, head: Head, label: str) -> float:
    """Say how well a head that is found fits what is typed: one with a number in it is meant before all else."""
    return 2.0 if any(map(str.isdigit, typed)) or typed.strip().lower() in head.stack else fit_of(typed, "", label) / 10


def _heads(query: str, stores: Stores, shown: Shown) -> tuple[Head, ...]:
    """List the heads and layers that a text may mean, a head or layer by its name first, of a layer its heads last."""
    outline = stores.outline
    try:
        place = parse_place(query, outline, shown.selected, ())
    except EngineError:
        named: tuple[Head, ...] = ()
    else:
        named = (place,) if isinstance(place, Head) else ()
    found = () if is_condition(query) else stores.found(query, shown)
    inside = (head for layer in named if layer.is_layer for head in outline.layer(layer).head_names())
    every = chain(named, split_digits(query, outline, shown.selected), found, inside)
    return tuple(islice(dict.fromkeys(every), MOST))


def _trouble(query: str, stores: Stores, shown: Shown) -> str:
    """Say why there is no head of a name; nothing of a text that is none."""
    if is_name(query):
        try:
            parse_place(query, stores.outline, shown.selected, ())
        except EngineError as error:
            return str(error)
    return ""


class Palette(CommandPalette, inherit_bindings=False):
    """The toolkit's palette, whose Enter waits for the matches of what has been typed by then.

    What the toolkit's does not take, a key before its list has lines and two quick ones that close it, it leaves be.

    Parameters
    ----------
    head : a head that there is, to say how one is written.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "escape", "Leave", show=False, id="palette.leave"),
        Binding("down,ctrl+n", "cursor_down", "Next command", show=False, id="palette.down"),
        Binding("up,ctrl+p", "command_list('cursor_up')", "Previous command", show=False, id="palette.up"),
        Binding("pagedown", "command_list('page_down')", "A page down", show=False, id="palette.page_down"),
        Binding("pageup", "command_list('page_up')", "A page up", show=False, id="palette.page_up"),
        Binding("ctrl+home", "command_list('first')", "First command", show=False, id="palette.first"),
        Binding("ctrl+end", "command_list('last')", "Last command", show=False, id="palette.last"),
        Binding("ctrl+q", "app.quit", "Quit", show=False, id="palette.quit"),
    ]

    def __init__(self, head: str) -> None:
        super().__init__(placeholder=f"{head}, a label, or what a key does", name="palette")

    @property
    def foot_keys(self) -> dict[str, str]:
        """What can be done with what is found."""
        return {"field.submit": "Do it", "palette.leave": "Back"}

    def on_mount(self) -> None:
        """Keep the cursor still: what blinks is sent again and again. Keys edit as in every other line."""
        field = self.query_one(CommandInput)
        field.cursor_blink = False
        edits = [each for each in Field.BINDINGS if isinstance(each, Binding) and each.action != "copy"]
        field._bindings = BindingsMap(edits)  # without ctrl+c, which leaves

    @on(Input.Submitted)
    async def _run_found(self, event: Input.Submitted) -> None:
        """Run the first match once it is found, unless the palette has been closed meanwhile.

        What was looked for before the last letter came is waited for as well, and may have been given up.
        """
        event.prevent_default()
        for worker in list(self.workers):
            if worker.group == self._GATHER_COMMANDS_GROUP and not worker.is_finished:
                with contextlib.suppress(WorkerCancelled):
                    await worker.wait()
        if self.is_current and not self._say_none(event.value):
            self._select_or_command(event)

    def _start_no_matches_countdown(self, search_value: str) -> None:
        """Say at once that nothing is found: all that there is has been looked through by then."""
        self._list_visible = bool(search_value)
        if search_value:
            none = Align.center(Text("No matches found", style="not bold"))
            self.query_one(CommandList).add_option(Option(none, disabled=True, id=self._NO_MATCHES))

    def _say_none(self, typed: str) -> bool:
        """Say that nothing matches what is typed, where that is so; False where there is something to run."""
        options = self.query_one(CommandList).options
        if not typed.strip() or any(each.id != self._NO_MATCHES for each in options):
            return False
        leave = key_of(self.app, "palette.leave")
        self.post_message(Told(f"no head, view or command matches {quoted(typed.strip())}; {leave} goes back"))
        return True

    def _action_command_list(self, action: str) -> None:
        """Leave the list as it is while what was found just now has no lines yet."""
        with contextlib.suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close once, and not before it is there; the second of two quick Enters would close the screen below, too."""
        if not self.is_mounted:
            self.call_later(self._close)
            return AwaitComplete()
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def _close(self) -> None:
        """Close, without waiting for it, which would be for itself."""
        self.dismiss()

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]  # decorated, there
        """Look for nothing any more once it is closed, though something may have been typed before."""
        if self.is_current:
            super()._gather_commands(search_value)
