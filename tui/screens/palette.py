"""The palette: heads, views, measures, commands and themes by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from engine.values.views import meaning
from tui.drawing.text import quote_text
from tui.screens.commands import ALSO_CALLED, THEME, Command, commands_in_view, commands_on, fit_of, show_measure
from tui.screens.modal import Modal
from tui.state.overview_measures import NAMES
from tui.state.places import NoPlaceError, example, is_condition, parse_place, view_names
from tui.toolkit.keys import key_of
from tui.toolkit.messages import PlaceWanted
from tui.toolkit.themes import every_theme, find_theme
from tui.views.switcher import Views
from tui.widgets.field import Field
from tui.widgets.menu import Menu

MOST = 40
"""How many heads are offered: more than fit the screen, few of the thousands that a model can have."""

NAMED = 10
"""How well a head fits that is named by number or stack: better than any command."""

Found = tuple[int, str, Callable[[], object]]
"""How well something fits, how it is written, and what runs when it is taken."""


class Palette(Modal[None]):
    """Lists views and commands, and what fits a typed text.

    Parameters
    ----------
    screen : whose commands are listed.
    views : of that screen, once they exist.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", show=False, id="palette.leave"),
        Binding("down,ctrl+n", "move('cursor_down')", "Next command", show=False, id="palette.down"),
        Binding("up,ctrl+p", "move('cursor_up')", "Previous command", show=False, id="palette.up"),
        Binding("pagedown", "move('page_down')", "A page down", show=False, id="palette.page_down"),
        Binding("pageup", "move('page_up')", "A page up", show=False, id="palette.page_up"),
        Binding("ctrl+home", "move('first')", "First command", show=False, id="palette.first"),
        Binding("ctrl+end", "move('last')", "Last command", show=False, id="palette.last"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {"field.submit": "Do it", "palette.leave": "Back"}

    def __init__(self, screen: Screen[Any], views: Views | None) -> None:
        super().__init__(name="palette")
        self._views = views
        self._stores = None if views is None else views.stores
        self._listed = list(commands_on(screen))
        self._every = [*self._listed, *self._others()]
        self._found: list[Found] = []
        head = "L0H0" if self._stores is None else str(example(self._stores.outline))
        hint = f"{head}, a label, or what a key does"
        self._field = Field(leaving="screen.leave", placeholder=hint, name="palette")
        self._list = _Matches()

    def compose(self) -> ComposeResult:
        """Put the text over what fits it."""
        with Vertical(id="palette", classes="box") as box:
            box.border_title = "commands"
            yield self._field
            yield self._list

    def on_mount(self) -> None:
        """List views first, then the other commands in the order of the help."""
        self.set_focus(self._field)
        self._fill("")

    def action_leave(self) -> None:
        """Close, unless this is closed already and the key came for it nevertheless."""
        self.dismiss()

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self._fill(event.value.strip())

    def _fill(self, typed: str) -> None:
        """List what fits a text, the best first; of what fits alike, commands come first, in the order of the help."""
        if typed:
            found = [*self._commands(typed), *self._heads(typed)]
            self._found = sorted(found, key=lambda each: each[0], reverse=True)
        else:
            self._found = [(0, _written(each), each.run) for each in self._listed]
        texts = [Text(written) for _, written, _ in self._found]
        for text in texts:
            text.highlight_words([typed], "bold underline", case_sensitive=False)
        options = [Option(text) for text in texts] or [Option(Text(self._why_none(typed)), disabled=True)]
        self._list.clear_options().add_options(options)
        self._list.highlighted = 0 if texts else None

    def _commands(self, typed: str) -> Iterator[Found]:
        for each in self._every:
            names = (each.name, *ALSO_CALLED.get(each.name, ()))
            fits = {name: fit_of(typed, name, each.description) for name in names}
            name = max(fits, key=fits.__getitem__)
            if fits[name]:
                yield fits[name], _written(replace(each, name=name), typed), each.run

    def _heads(self, typed: str) -> Iterator[Found]:
        """Offer the heads and layers that a text may mean: the named one first, the heads of a named layer last."""
        if self._views is None or self._stores is None:
            return
        outline, shown = self._stores.outline, self._views.session.shown
        named: tuple[Head, ...] = ()
        with suppress(EngineError):
            place = parse_place(typed, outline, shown.selected, ())
            named = (place,) if isinstance(place, Head) else ()
        found = () if is_condition(typed) else self._stores.found(typed, shown)
        inside = (head for layer in named if layer.is_layer for head in outline.layer(layer).head_names())
        every = chain(named, found, inside)
        for head in islice(dict.fromkeys(every), MOST):
            label = self._stores.label(head)
            is_named = any(map(str.isdigit, typed)) or typed.lower() in head.stack
            written = " · ".join(filter(None, (head_text(head, outline.stacks), label)))
            yield NAMED if is_named else fit_of(typed, label), written, partial(self._go, head)

    def _go(self, place: Head | str) -> None:
        if self._views is not None:
            self._views.post_message(PlaceWanted(place))

    def _why_none(self, typed: str) -> str:
        if self._views is not None and self._stores is not None:
            try:
                parse_place(typed, self._stores.outline, self._views.session.shown.selected, ())
            except NoPlaceError:
                pass
            except EngineError as error:
                return str(error)
        return f"nothing matches {quote_text(typed)}; {key_of(self.app, 'palette.leave')} goes back"

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _run(self) -> None:
        """Do what the cursor is on."""
        if self._list.highlighted is not None:
            _, _, run = self._found[self._list.highlighted]
            self.dismiss()
            self.app.call_later(run)

    def _others(self) -> Iterator[Command]:
        """Yield the commands that have no key here: views, what the active view does, measures and themes."""
        known = {word for each in self._listed for word in (each.name, each.description)}
        if self._views is not None and self._stores is not None:
            names = view_names(is_comparing=self._views.is_comparing)
            views = [Command(name, f"{name.capitalize()} view", (), partial(self._go, name)) for name in names]
            for each in (*views, *commands_in_view(self._views)):
                if known.isdisjoint((each.name, each.description)):
                    known |= {each.name, each.description}
                    yield each
            for name in NAMES:
                said = meaning(name, self._views.session.shown.epsilon)
                yield Command(name, said, (), partial(show_measure, self._views, name))
        for name in every_theme():
            run = partial(self.app.run_action, f"app.choose_theme({find_theme(name)!r})")
            yield Command(name, f"{THEME}{name}", (), run)


class _Matches(Menu, can_focus=False):
    """The list, in which the arrows move while the text has the focus."""


def _written(each: Command, typed: str = "") -> str:
    """Write a command's description and keys, after its name where the text matches the name alone."""
    is_said = each.name.replace("-", " ") in each.description.lower()
    is_name = not is_said and fit_of(typed, each.name) > fit_of(typed, each.description)
    return f"{each.name} · " * is_name + each.description + (f"  ({' '.join(each.keys)})" if each.keys else "")
