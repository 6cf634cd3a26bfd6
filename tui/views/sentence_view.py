"""What the views of a sentence share: they wait for it, say why it is not there, and draw maps on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.app import App

from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.outline import ModelOutline
from tui.drawing.levels import SCALES, Scale
from tui.drawing.titles import Part
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.toolkit.keys import key_of
from tui.toolkit.messages import RoomChanged
from tui.views.pane import Pane


def no_sentence(app: App[Any], outline: ModelOutline, shown: Shown) -> tuple[str, bool]:
    """Say how a sentence is typed, why the model reads none, or that one waits for its turn; and whether one does."""
    if outline.unreadable:
        return outline.unreadable, False
    if shown.waiting_text is not None:
        return "the sentence is read after the first head …", True
    return f"press {key_of(app, 'app.sentence')} and type a sentence", False


class SentencePane(Pane):
    """A view of a sentence's maps."""

    has_scale = True

    def on_resize(self) -> None:
        """Have it drawn for the room that there is now; there is none before it has been laid out."""
        self.post_message(RoomChanged())

    def sentence_of(self, shown: Shown, stores: Stores, title: Sequence[Part]) -> Sentence | None:
        """Give the sentence as the model reads it; where there is none, say why, or what it waits for."""
        maps = stores.maps
        if shown.text is None:
            how, is_waiting = no_sentence(self.app, stores.outline, shown)
            self.show_message(title, "\n".join(filter(None, (how, maps.warning))), is_waiting=is_waiting)
            return None
        sentence = maps.sentence(shown)
        if isinstance(sentence, Sentence):
            return sentence
        self.show_missing(title, sentence, maps.reading, is_late=maps.is_read_late(shown))
        return None

    def show_missing(self, title: Sequence[Part], answer: object, message: str, *, is_late: bool) -> None:
        """Say why something cannot be had, or that it is waited for; what is on screen stays for a moment.

        Parameters
        ----------
        title : what is shown.
        answer : an `EngineError`; anything else, where it is waited for.
        message : what is said then.
        is_late : whether a moment has passed.
        """
        if isinstance(answer, EngineError):
            self.show_message(title, str(answer))
        elif is_late or self.is_blank:
            self.show_message(title, message, is_waiting=True)
        else:
            self.is_waiting = True

    def show_message(self, title: Sequence[Part], message: str, *, is_waiting: bool = False) -> None:
        """Say why there is nothing to draw, or nothing yet."""
        raise NotImplementedError

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing on screen that could stay for a moment."""
        raise NotImplementedError

    @property
    def scale(self) -> Scale:
        """The scale that maps are drawn on."""
        raise NotImplementedError

    def toggle_scale(self) -> None:
        """Go on to the next scale, in all maps."""
        self.session.change(map_scale=SCALES[(SCALES.index(self.scale) + 1) % len(SCALES)])
