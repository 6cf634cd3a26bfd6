"""The keys by which one finds one's way: jump, search, back and forward, the palette of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.command import Provider

from tui.key_groups import MOVING, PROGRAM
from tui.messages import ViewActivated
from tui.parts import Parts


def _commands() -> type[Provider]:
    """Import the palette's commands when it is opened first."""
    from tui.screens.palette_commands import Commands

    return Commands


class WayActions(Parts):
    """An application with the keys of finding one's way."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any widget sees them, so that what is typed after them goes where they lead, however fast it comes.
        Binding(
            "g,colon",
            "jump",
            "Go to a head, a layer or a view, or do what is named",
            False,
            priority=True,
            id="app.jump",
            group=MOVING,
        ),
        Binding("slash", "search", "Search in the tree", show=False, id="app.search", group=MOVING),
        Binding("n", "match(1)", "Next match", show=False, id="app.next_match", group=MOVING),
        Binding("N", "match(-1)", "Previous match", show=False, id="app.previous_match", group=MOVING),
        Binding(
            "H,backspace,ctrl+o,alt+left", "visited(-1)", "Back to where you were", False, id="app.back", group=MOVING
        ),
        Binding("L,alt+right", "visited(1)", "Forward again", show=False, id="app.forward", group=MOVING),
        Binding(
            "ctrl+p", "command_palette", "Every command, by name", False, priority=True, id="app.palette", group=PROGRAM
        ),
    ]

    def action_jump(self) -> None:
        """Ask where to go."""
        from tui.screens.questions import WhereTo

        ways = self.conductor.ways
        if ways is not None:
            self.prompt.ask(WhereTo(ways))

    def action_command_palette(self) -> None:
        """Offer every command by its name."""
        from tui.screens.palette import Palette
        from tui.state.places import example

        ways = self.conductor.ways
        self.push_screen(Palette("L0H0" if ways is None else str(example(ways.outline))))

    def action_search(self) -> None:
        """Ask what to search in the tree."""
        from tui.screens.questions import Search

        ways = self.conductor.ways
        if ways is not None:
            self.prompt.ask(Search(ways))

    def action_match(self, step: int) -> None:
        """Go on to the next match of the search, or back to the one before."""
        ways = self.conductor.ways
        if ways is not None:
            self.key_line.say(ways.go_on(step))

    def action_visited(self, step: int) -> None:
        """Go back to the place visited before, or forward again."""
        ways = self.conductor.ways
        if ways is not None and not ways.step(step):
            self.key_line.say("nothing to go back to" if step < 0 else "nothing to go forward to")

    @on(ViewActivated)
    def _view_activated(self, event: ViewActivated) -> None:
        """Take notice of another view."""
        if self.is_ready and self.conductor.ways is not None:
            self.conductor.ways.arrive(is_beside=event.is_beside)
