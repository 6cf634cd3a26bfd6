"""The sentence as coloured text: which tokens the one under the cursor looks at, and which look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType

from engine.values.attention import AttentionMap, Sentence, Spelling
from engine.values.heads import DELTA, no_attention
from engine.values.table import AnyTable
from tui.drawing.levels import Ink, Levels, Scale, default_scale, legend
from tui.drawing.ramps import pair_levels
from tui.drawing.readout import ITSELF, largest_weights, short_token
from tui.drawing.text import first_fitting, fit
from tui.drawing.titles import Part
from tui.drawing.token_spelling import spell_tokens, token_meaning
from tui.state.maps import map_name, map_query, map_title
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.toolkit.messages import Notice
from tui.views.attention_view import AttentionPane
from tui.views.pane import SentencePane
from tui.widgets.line import Line
from tui.widgets.token_text import TokenText

NARROW = 40
"""Cells below which a line has signs instead of words."""


@dataclass(frozen=True, eq=False)
class MapLines:
    """A map's row of a query and column of a key, by their positions."""

    map: AttentionMap
    query: int
    key: int

    @property
    def row(self) -> NDArray[np.float32]:
        """The weights of the query on each key."""
        return self.map.part(self.query, slice(None))

    @property
    def column(self) -> NDArray[np.float32]:
        """The weights of each query on the key."""
        return self.map.part(slice(None), self.key)


class TextPane(SentencePane):
    """The keys coloured by a query's row, and below them the queries coloured by a key's column.

    Two texts that are the same sentence have one cursor; else each text has its own.
    """

    view = "text"
    is_of_sentence = True
    is_beside_map = True
    uses = ("selected", "averaging", "text", "waiting_text", "off", "difference", "map_scale", "cell")
    asks = ("maps",)
    follows_cursor = True
    foot_keys: ClassVar[Mapping[str, str]] = {"text.follow": "Largest"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "views.view('attention')", "Back to the map", show=False, id="text.back"),
        Binding("enter", "follow", "To the token with the largest weight", show=False, id="text.follow"),
    ]

    def __init__(self, attention: AttentionPane) -> None:
        self._attention = attention
        self.keys = TokenText()
        self.queries = TokenText()
        self.keys_line = Line(classes="pane-legend")
        self.queries_line = Line(classes="pane-legend")
        self.legend_line = Line(classes="pane-legend")
        super().__init__(self.keys_line, self.keys, self.queries_line, self.queries, self.legend_line)
        self.shown: MapLines | None = None
        self._spellings: tuple[tuple[Spelling, ...], tuple[Spelling, ...]] = ((), ())
        self._legend: Callable[[int], Text] = lambda width: Text()

    @property
    def _is_of_keys(self) -> bool:
        """Whether Enter and the cursor of two texts are the keys', not the queries'."""
        return not self.queries.has_focus

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Colour the texts by the row and the column of the map's cursor."""
        title, name, maps = map_title(shown, stores.outline), map_name(shown, stores.outline), stores.maps
        if not self.size or (sentence := self.sentence_of(shown, stores, title)) is None:
            return
        if name.stack.endswith(DELTA):
            self.show_message(title, no_attention(name.stack))
            return
        map = maps.whole.get(map_query(shown, name))
        if not isinstance(map, AttentionMap):
            self.show_missing(title, map, is_late=maps.is_late)
            return
        row, column = (min(at, count - 1) for at, count in zip(shown.cell, map.weights.shape, strict=True))
        self._colour_texts(MapLines(map, row, row if map.is_of_one_text else column), sentence, title)

    def _colour_texts(self, lines: MapLines, sentence: Sentence, title: Sequence[Part]) -> None:
        map = lines.map
        ink, styles = self.keys.ink, self.keys.styles_of_levels(is_signed=map.is_signed)
        if ink is Ink.COLOUR and not map.is_signed:  # differences have half as many colours already
            styles = pair_levels(styles)
        self._spellings = sentence.spellings_along(map.query_tokens), sentence.spellings_along(map.key_tokens)
        self.shown = lines
        self.show_drawn(title)
        levels = Levels("linear" if self.scale == "sink" else self.scale, map.largest, ink, map.is_signed)
        cursors = (lines.query, lines.query) if map.is_of_one_text else (lines.query, lines.key)
        texts = (self.queries, map.query_tokens, lines.column), (self.keys, map.key_tokens, lines.row)
        for (text, tokens, weights), spelling, cursor in zip(texts, self._spellings, cursors, strict=True):
            labels = spell_tokens(tokens, spelling)
            special = frozenset(at for at, each in enumerate(spelling) if each.kind != "text")
            text.show(labels, special, levels.of(weights), levels.cells, styles, cursor)
        self._legend = partial(legend, levels, styles)
        self._share_room()
        self._write_lines()

    @property
    def scale(self) -> Scale:
        """How weights become colours."""
        keys = 0 if self.shown is None else len(self.shown.map.key_tokens)
        return self.session.shown.map_scale or default_scale(keys)

    def replace_by(self, message: str) -> None:
        """Show why there is no text, or none yet."""
        self.shown = None
        self.keys.show_message(message)
        self.queries.show_message("")

    def _share_room(self) -> None:
        """Put the second text below the first, after a blank line; where both do not fit, each has half the room."""
        lines = self.shown
        if lines is None or not self.size.height:
            return
        labels = spell_tokens(lines.map.key_tokens, self._spellings[1])
        needed = self.keys.count_lines(labels, self.size.width, (self.size.height - 5) // 2)
        self.keys.styles.height = "1fr" if needed is None else needed + 1

    def _write_lines(self) -> None:
        lines = self.shown
        if lines is None:
            return
        map = lines.map
        width = max(self.size.width - 2, 10)
        self.legend_line.show(self._legend(width))
        verbs = ("→", "←") if width < NARROW else ("looks at", "is looked at by")
        for line, verb, tokens, at, others, weights in (
            (self.keys_line, verbs[0], map.query_tokens, lines.query, map.key_tokens, lines.row),
            (self.queries_line, verbs[1], map.key_tokens, lines.key, map.query_tokens, lines.column),
        ):
            number = "" if map.is_of_one_text else f"{at} "  # of one text the readout has it
            name = f"{short_token(tokens[at])} " if number and width >= NARROW else ""
            own = at if map.is_of_one_text else None
            line.show(largest_weights(f"{number}{name}{verb}", others, weights, width, own))
        is_query = map.is_of_one_text or not self._is_of_keys
        at, tokens = (lines.query, map.query_tokens) if is_query else (lines.key, map.key_tokens)
        spelling = self._spellings[0 if is_query else 1][at]
        between = ITSELF if map.is_of_one_text else f"{lines.query} → {lines.key}"
        weight = f"{between} {lines.row[lines.key]:.3f}"  # the cursor covers the colour of this weight
        token, gap = short_token(tokens[at]), " · "
        named = first_fitting(
            width,
            gap.join((f"token {at} of {len(tokens)}", weight, token)),
            gap.join((f"{at} {token}", weight)),
            gap.join((str(at), weight)),
            weight,
        )
        self.readout_line.show(fit(gap.join(filter(None, (named, token_meaning(spelling, tokens[at])))), width))

    @on(TokenText.Moved)
    def _moved(self, event: TokenText.Moved) -> None:
        """Move the map's cursor, which this view follows."""
        event.stop()
        if self.shown is not None:
            self._point(event.token, is_query=self.shown.map.is_of_one_text or event.text is self.queries)

    def _point(self, token: int, *, is_query: bool) -> None:
        heatmap = self._attention.heatmap
        query, key = heatmap.cursor
        heatmap.move_to(*((token, key) if is_query else (query, token)))

    def on_descendant_focus(self) -> None:
        """Read out the token of the text that has the focus."""
        self._write_lines()

    @on(TokenText.Entered)
    def action_follow(self) -> None:
        """Go to the token with the largest weight in the text."""
        lines = self.shown
        if lines is None:
            self.post_message(Notice("no weights yet; wait for the map"))
            return
        weights = lines.row if self._is_of_keys else lines.column
        at = int(np.argmax(np.abs(np.nan_to_num(weights))))
        is_query = lines.map.is_of_one_text or not self._is_of_keys
        if at == (lines.query if is_query else lines.key):
            self.post_message(Notice("this token has the largest weight"))
        else:
            self._point(at, is_query=is_query)

    # --- what can be taken away: the map whose row and column the texts show

    @property
    def table_name(self) -> str:
        """The name of the map's table."""
        return self._attention.table_name

    def table_subject(self) -> str:
        """Name the map."""
        if self.shown is None:
            raise self.nothing_drawn
        return self._attention.table_subject()

    async def whole_table(self) -> AnyTable:
        """Give a row for every weight of the map."""
        return await self._attention.whole_table()
