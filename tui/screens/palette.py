"""The palette: heads, views, commands and themes by name."""

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
from textual.events import Click
from textual.widgets import Input
from textual.widgets.option_list import Option
from textual.worker import WorkerCancelled

from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from tui.drawing.text import quote_text
from tui.screens.commands import ALSO_CALLED, THEME, Command, commands_in_view, commands_on, fit_of
from tui.state.places import parse_place, split_digits, view_names
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tree_search import is_condition, is_name
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Notice, PlaceWanted
from tui.toolkit.screen import SizedScreen
from tui.toolkit.themes import every_theme, find_theme
from tui.views.switcher import Views
from tui.widgets.field import Field
from tui.widgets.key_line import KeyLine

MOST = 40
"""How many heads are offered: more than fit the screen, few of the thousands that a model can have."""


class Commands(Provider):
    """Offers the heads that a text may mean first, then commands, views and themes that match it."""

    @property
    def _views(self) -> Views | None:
        return next(iter(self.screen.query(Views)), None)

    async def discover(self) -> Hits:
        """Offer views first, then the other commands in the order of the help."""
        for each in commands_on(self.screen):
            yield DiscoveryHit(Text(_shown(each)), each.run, _shown(each))

    async def search(self, query: str) -> Hits:
        """Offer heads, then commands, views and themes, the best match first; ties keep the order of the help."""
        stores = None if self._views is None else self._views.stores
        if self._views is not None and stores is not None:
            now = self._views.session.shown
            heads = _heads(query, stores, now)
            if not heads and (why := _why_no_head(query, stores, now)):
                yield Hit(2.0, Text(why), partial(self.app.notify, why), why)
            for place, head in enumerate(heads):
                name = head_text(head, stores.outline.stacks)
                label = stores.labels.of(head)
                shown = f"{name} · {label}" if label else name
                yield Hit(_worth(query, head, label) - place / 1000, Text(shown), partial(self._go, head), shown)
        matcher = self.matcher(query)
        best: dict[str, tuple[float, Command]] = {}
        every = list(self._every())
        every += [replace(each, name=name) for each in every for name in ALSO_CALLED.get(each.name, ())]
        for place, each in enumerate(every):
            score = (fit_of(query, each.name, each.description) - place / 1000) / 10
            if score > best.get(each.description, (0.0, each))[0]:
                best[each.description] = (score, each)
        for score, each in best.values():
            yield Hit(score, matcher.highlight(_shown(each, query)), each.run, _shown(each, query))

    def _every(self) -> Iterator[Command]:
        """Yield everything once by name and description: what has the focus now comes before the active view."""
        own = [self._jump, *commands_on(self.screen)]
        yield from own
        known = {word for each in own for word in (each.name, each.description)}
        for each in (*self._named_views(), *(() if self._views is None else commands_in_view(self._views))):
            if known.isdisjoint((each.name, each.description)):
                known |= {each.name, each.description}
                yield each
        for name in every_theme():
            yield Command(
                name, f"{THEME}{name}", (), partial(self.app.run_action, f"app.choose_theme({find_theme(name)!r})")
            )

    @property
    def _jump(self) -> Command:
        """The prompt at the foot, whose key does not work while the palette is open."""
        jump = next(each for _, each in self.screen._bindings if each.action == "jump")
        go_to = partial(self.screen.run_action, "screen.jump")
        return Command("jump", jump.description, (key_of(self.app, str(jump.id)),), go_to)

    def _named_views(self) -> Iterator[Command]:
        if self._views is not None and self._views.stores is not None:
            for view in view_names(is_comparing=self._views.is_comparing):
                yield Command(view, f"{view.capitalize()} view", (), partial(self._go, view))

    def _go(self, place: Head | str) -> None:
        if self._views is not None:
            self._views.post_message(PlaceWanted(place))


def _shown(each: Command, typed: str = "") -> str:
    """Write a command's description and keys, after its name where the text matches the name alone."""
    is_said = each.name.replace("-", " ") in each.description.lower()
    is_name = not is_said and fit_of(typed, each.name, "") > fit_of(typed, "", each.description)
    return f"{each.name} · " * is_name + each.description + (f"  ({' '.join(each.keys)})" if each.keys else "")


def _worth(typed: str, head: Head, label: str) -> float:
    """Rate a head for a text: with a digit or a stack's name in the text, a head is what is looked for."""
    return 2.0 if any(map(str.isdigit, typed)) or typed.strip().lower() in head.stack else fit_of(typed, "", label) / 10


def _heads(query: str, stores: Stores, shown: Shown) -> tuple[Head, ...]:
    """List the heads and layers that a text may mean: the named one first, the heads of a named layer last."""
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


def _why_no_head(query: str, stores: Stores, shown: Shown) -> str:
    """Say why the model has no such head; empty where the text is no head's name."""
    if is_name(query):
        try:
            parse_place(query, stores.outline, shown.selected, ())
        except EngineError as error:
            return str(error)
    return ""


class Palette(CommandPalette, SizedScreen[None], inherit_bindings=False):
    """Textual's palette; Enter waits for the matches of all that was typed before it.

    It also survives what breaks Textual's: a key before the list has lines, two quick keys that close it, and a click
    that the terminal has become too small for.

    Parameters
    ----------
    head : an example of how the open model's heads are written.
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
        """The keys at the foot."""
        return {"field.submit": "Do it", "palette.leave": "Back"}

    def on_screen_resume(self) -> None:
        """Show the keys of this screen."""
        self.app.screen_stack[0].query_one(KeyLine).follow(self)

    def on_mount(self) -> None:
        """Stop the cursor from blinking, which would send bytes all the time, and take the editing keys of `Field`."""
        field = self.query_one(CommandInput)
        field.cursor_blink = False
        edits = [each for each in Field.BINDINGS if isinstance(each, Binding) and each.action != "copy"]
        field._bindings = BindingsMap(edits)  # without ctrl+c, which leaves

    def on_click(self, event: Click) -> None:
        """Ignore a click outside the terminal, which has been resized since."""
        if not self.region.contains(event.screen_x, event.screen_y):
            event.prevent_default()

    @on(Input.Submitted)
    async def _run_found(self, event: Input.Submitted) -> None:
        """Run the first match once the searches are done; those for earlier letters may have been cancelled."""
        event.prevent_default()
        for worker in list(self.workers):
            if worker.group == self._GATHER_COMMANDS_GROUP and not worker.is_finished:
                with contextlib.suppress(WorkerCancelled):
                    await worker.wait()
        if self.is_current and not self._say_none(event.value):
            self._select_or_command(event)

    def _start_no_matches_countdown(self, search_value: str) -> None:
        """Say at once that nothing is found: the search is complete by then."""
        self._list_visible = bool(search_value)
        if search_value:
            none = Align.center(Text("No matches found", style="not bold"))
            self.query_one(CommandList).add_option(Option(none, disabled=True, id=self._NO_MATCHES))

    def _say_none(self, typed: str) -> bool:
        """Say that nothing matches; False where there is something to run."""
        options = self.query_one(CommandList).options
        if not typed.strip() or any(each.id != self._NO_MATCHES for each in options):
            return False
        leave = key_of(self.app, "palette.leave")
        self.post_message(Notice(f"no head, view or command matches {quote_text(typed.strip())}; {leave} goes back"))
        return True

    def _action_command_list(self, action: str) -> None:
        """Ignore a key that comes before the list has lines."""
        with contextlib.suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close once, and not before it is mounted: a second quick Enter would close the screen below."""
        if not self.is_mounted:
            self.call_later(self._close)
            return AwaitComplete()
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def _close(self) -> None:
        self.dismiss()  # a callback that awaits it would wait for itself

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]  # decorated, there
        """Search nothing once it is closed, though letters may still arrive."""
        if self.is_current:
            super()._gather_commands(search_value)
