"""The sentence as coloured text beside its map: what is asked for and drawn when the cursor or the map changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from engine.values.attention import MapLines, is_of_one_text
from engine.values.errors import EngineError
from tui.toolkit.tasks import begin, patiently

if TYPE_CHECKING:
    from tui.parts import Parts
    from tui.reading import Reading
    from tui.views.text_view import TextPane


class Coloured:
    """Keeps the text and the map at one cursor, which is the map's.

    Parameters
    ----------
    app : the explorer.
    """

    def __init__(self, app: Parts) -> None:
        self._app = app
        self._reading: Reading | None = None
        self._pane: TextPane | None = None

    def take(self, reading: Reading) -> None:
        """Show the sentence of an open model."""
        self._reading = reading

    def toggle(self) -> None:
        """Go to the text, or back to the map."""
        views = self._app.views
        if views.return_to("text"):
            return
        if self._pane is not None and views.active is self._pane:
            views.go_to("attention")
        else:
            self.show()

    def show(self, *, takes_focus: bool = True) -> None:
        """Go to the text; the focus goes along unless it is to stay where it is."""
        views = self._app.views
        views.go_to("text", takes_focus=takes_focus)
        self._pane = cast("TextPane", views.active)
        self._app.call_after_refresh(self.follow)

    def point(self, query: int | None, key: int | None) -> None:
        """Move the map's cursor; None leaves that part of it alone."""
        heatmap = self._app.views.attention.heatmap
        heatmap.move_to(*(old if new is None else new for old, new in zip(heatmap.cursor, (query, key), strict=True)))

    def follow(self) -> None:
        """Show what the map's cursor is on, where the text is in view."""
        pane, reading = self._pane, self._reading
        if pane is None or reading is None or not pane.display:
            return
        attention = self._app.views.attention
        pane.is_waiting |= attention.is_waiting
        pooled = attention.heatmap.pooled
        if pooled is None or attention.shown_name is None:
            pane.show_message(attention.title, attention.message, is_waiting=attention.is_waiting)
            return
        query, key = attention.heatmap.cursor
        is_one = is_of_one_text(pooled.name, pooled.query_tokens, pooled.key_tokens)
        place = (query, query if is_one else key)
        if attention.shown is not None:
            self._draw(MapLines.of(attention.shown, *place))
        elif attention.sentence == reading.sentence:  # else the map of another one is about to take its place
            begin(self._app, partial(self._fetch, reading, place), "map lines")

    async def _fetch(self, reading: Reading, place: tuple[int, int]) -> None:
        """Learn a row and a column of a long sentence's map, which stays with the engine."""
        attention = self._app.views.attention
        sentence = attention.sentence
        answer = await patiently(reading.map_lines(place), lambda: None)
        if attention.sentence != sentence:
            return
        if self._pane is not None and isinstance(answer, EngineError):
            self._pane.show_message(attention.title, str(answer))
        elif isinstance(answer, MapLines) and (answer.name, answer.is_signed) == (
            attention.shown_name,
            self._app.session.shown.difference,
        ):
            self._draw(answer)

    def _draw(self, lines: MapLines) -> None:
        """Colour the text."""
        attention = self._app.views.attention
        sentence, heatmap = attention.sentence, attention.heatmap
        if self._pane is None or sentence is None:
            return
        spellings = (sentence.spellings_along(lines.query_tokens), sentence.spellings_along(lines.key_tokens))
        self._pane.show(
            lines,
            spellings,
            attention.title,
            heatmap.scale,
            heatmap.ink,
            heatmap.level_styles,
            is_waiting=attention.is_waiting,
        )
