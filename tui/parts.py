"""What the explorer is made of: the engine, the views, the lines around them, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from tui.main_screen import MainScreen
from tui.sentence_input import SentenceInput
from tui.start import Start
from tui.state.session import Session
from tui.toolkit.application import TerminalApp
from tui.toolkit.messages import Advanced
from tui.tree import HeadTree
from tui.widgets.key_line import KeyLine
from tui.widgets.line import Line

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.progress import Progress
    from tui.views.switcher import Views
    from tui.ways import Ways


class Parts(TerminalApp):
    """An application with the explorer's parts.

    Attributes
    ----------
    engine : what answers.
    tree_widget, sentence_input : where the focus can go from anywhere.
    model_line : the model's facts at the top.
    failure : why the program was left, where that has a reason.
    key_line : the keys at the foot, in whose place a word can be said.
    start : what was asked for on the command line.
    session : what is shown of the open model.
    ways : through the open model, once there is one.
    is_ready : whether the views are there.
    """

    engine: Engine
    tree_widget: HeadTree
    sentence_input: SentenceInput
    model_line: Line
    key_line: KeyLine
    start: Start

    def __init__(self) -> None:
        super().__init__()
        self.failure = ""
        self.session = Session()
        self.ways: Ways | None = None
        self.is_ready = False
        self._views: Views | None = None

    @property
    def views(self) -> Views:
        """The views, once the first frame is painted."""
        assert self._views is not None, "the views are made after the first frame"
        return self._views

    @property
    def is_idle(self) -> bool:
        """Whether a model is open and nothing more is awaited from the engine."""
        return False

    def get_default_screen(self) -> MainScreen:
        """Make the screen."""
        return MainScreen(self.choose_focus, id="_default")

    def choose_focus(self, chain: Sequence[Widget]) -> Widget | None:
        """Say which of the widgets that can have the focus gets it, where nobody has."""
        raise NotImplementedError

    def fill_focus(self) -> None:
        """Have somebody get the focus of the main screen, where nobody has it."""
        screen = self.screen_stack[0]
        if screen.focused is None:
            screen.set_focus(None)

    @property
    def is_settled(self) -> bool:
        """Whether the screen or view that a key has just opened is there, and has the focus."""
        return super().is_settled and (self._views is None or self._views.has_opened.is_set())

    def on_typed(self) -> None:
        """Take away what was said since the last key."""
        self.key_line.hush()

    def report(self, progress: Progress) -> None:
        """Pass on how far long work is; may be called on the engine thread."""
        self.post_message(Advanced(progress))

    def fail(self, message: str) -> None:
        """Leave, and say why once the terminal is back."""
        self.failure = message
        self.exit(return_code=1)

    def choose_theme(self, name: str) -> None:
        """Take a theme by its full name, and say so."""
        raise NotImplementedError
