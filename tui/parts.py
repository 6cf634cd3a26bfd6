"""What the explorer's keys reach for: the engine, the views, and what decides what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.frame import Frame
from tui.key_line import KeyLine
from tui.panes.line import Line
from tui.screens.prompt import Prompt
from tui.sentence_input import SentenceInput
from tui.start import Start
from tui.state.session import Session
from tui.tree import HeadTree

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from tui.conductor import Conductor
    from tui.sentences import Sentences
    from tui.views import Views


class Parts(Frame):
    """An application with the explorer's parts, which classes of keys are made of.

    Attributes
    ----------
    engine : what answers.
    ascii_only : whether only ASCII characters are drawn.
    tree_widget, sentence_input : where the focus can go from anywhere.
    model_line : the model's facts at the top.
    failure : why the program was left, where that has a reason.
    key_line : the keys at the foot, in whose place a word can be said.
    prompt : the question at the foot.
    keys_pressed : how many keys have been pressed.
    start : what was asked for on the command line.
    session : what is shown of the open model.
    sentences : what was typed in this run and before, once the first frame is painted.
    """

    engine: Engine
    ascii_only: bool
    tree_widget: HeadTree
    sentence_input: SentenceInput
    model_line: Line
    key_line: KeyLine
    prompt: Prompt
    start: Start

    def __init__(self) -> None:
        super().__init__()
        self.keys_pressed = 0
        self.failure = ""
        self.session = Session()
        self._views: Views | None = None
        self._conductor: Conductor | None = None
        self.sentences: Sentences | None = None

    @property
    def views(self) -> Views:
        """The views, once the first frame is painted."""
        assert self._views is not None, "the views are made after the first frame"
        return self._views

    @property
    def conductor(self) -> Conductor:
        """What decides what is shown, once the first frame is painted."""
        assert self._conductor is not None, "the conductor is made after the first frame"
        return self._conductor

    @property
    def waiting_text(self) -> str | None:
        """The sentence that is read or is to be, once there is a model to read it."""
        return None if self._conductor is None else self._conductor.text

    @property
    def is_ready(self) -> bool:
        """Whether the views are there."""
        return self._conductor is not None

    @property
    def is_waiting_with_act(self) -> bool:
        """Whether what a key asked for is done only once something has been worked out."""
        return self.is_ready and self.views.is_waiting_with_act

    def on_unmount(self) -> None:
        """Keep no thread beyond the screens: it would keep the explorer, and with it the model."""
        if self.sentences is not None:
            self.sentences.close()

    def fail(self, message: str) -> None:
        """Leave, and say why once the terminal is back."""
        self.failure = message
        self.exit(return_code=1)

    async def make_views(self, start: Start) -> None:
        """Make the views, and what decides what they show of the model that is opened next."""
        raise NotImplementedError

    def choose_theme(self, name: str) -> None:
        """Take a theme by its full name, and say so."""
        raise NotImplementedError
