"""The sentence as coloured text: which tokens the one under the cursor looks at, and which look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType

from engine.mathematics.attention import largest_value
from engine.values.attention import AttentionMap, MapLines, Sentence, Spelling
from engine.values.errors import EngineError
from engine.values.heads import DELTA, no_attention
from engine.values.table import TEXT_COLUMNS, Cell, Table
from tui.drawing.levels import Ink, Levels, Scale, default_scale, legend
from tui.drawing.ramps import pair_levels
from tui.drawing.readout import ITSELF, largest_weights, short_token
from tui.drawing.text import first_fitting, fit
from tui.drawing.titles import Part
from tui.drawing.token_spelling import spell_tokens, token_meaning
from tui.state.maps import map_name, map_query, map_title
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.toolkit.keys import command_binding, key_of
from tui.toolkit.messages import Notice
from tui.views.attention_view import AttentionPane
from tui.views.pane import SentencePane
from tui.widgets.line import Line
from tui.widgets.token_text import TokenText

NARROW = 40
"""Cells below which a line has signs instead of words."""


Spellings = tuple[Spelling, ...]


def lines_table(lines: MapLines, spellings: tuple[Spellings, Spellings]) -> Table:
    """List a row for each token; of two texts, first the keys, then the queries.

    Parameters
    ----------
    lines : a query's row and a key's column of a map.
    spellings : of the queries, and of the keys.
    """
    place: tuple[Cell, ...] = (lines.name.stack, lines.name.layer_label, lines.name.head_label)
    place = (*place, lines.query, lines.key)
    queries = zip(lines.query_tokens, spellings[0], lines.column.tolist(), strict=True)
    keys = zip(lines.key_tokens, spellings[1], lines.row.tolist(), strict=True)
    rows: list[tuple[Cell, ...]] = []
    if lines.is_of_one_text:
        for at, ((token, spelling, weight), (_, _, as_key)) in enumerate(zip(queries, keys, strict=True)):
            rows.append((*place, at, token, spelling.kind, as_key, weight))
    else:
        rows += [(*place, at, token, each.kind, weight, None) for at, (token, each, weight) in enumerate(keys)]
        rows += [(*place, at, token, each.kind, None, weight) for at, (token, each, weight) in enumerate(queries)]
    return Table.of_rows("text", TEXT_COLUMNS, rows)


class TextPane(SentencePane):
    """The keys coloured by a query's row, the queries coloured by a key's column, or both.

    Two texts that are the same sentence have one cursor; else each text has its own.
    """

    view = "text"
    is_of_sentence = True
    is_beside_map = True
    uses = ("selected", "averaging", "text", "waiting_text", "off", "difference", "map_scale", "cell")
    asks = ("maps",)
    follows_cursor = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "views.view('attention')", "Back to the map", show=False, id="text.back"),
        command_binding("text.turn", "turn", "Where it looks, or who looks at it"),
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
        self._spellings: tuple[Spellings, Spellings] = ((), ())
        self._is_of_keys = True
        self._scale: Scale = "linear"
        self._legend: Callable[[int], Text] = lambda width: Text()

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The key to the largest weight."""
        return {"text.follow": "Largest"}

    def focus_view(self) -> None:
        """Give the focus to the text whose cursor moves."""
        self.screen.set_focus(self.keys if self._is_of_keys else self.queries)

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Colour the texts by the row and the column of the map's cursor."""
        title, name, maps = map_title(shown, stores.outline), map_name(shown, stores.outline), stores.maps
        if not self.size or (sentence := self.sentence_of(shown, stores, title)) is None:
            return
        if name.stack.endswith(DELTA):
            self.show_message(title, no_attention(name.stack))
            return
        query, lines = map_query(shown, name), None
        if sentence.is_long and not name.is_rollout:
            place = (min(shown.cell[0], len(sentence.ids) - 1), min(shown.cell[1], len(sentence.ids) - 1))
            lines = maps.lines.get((query, place if name.stack == "cross" else (place[0], place[0])))
        elif isinstance(whole := maps.whole(query), AttentionMap):
            row, column = (min(at, count - 1) for at, count in zip(shown.cell, whole.weights.shape, strict=True))
            is_one = whole.is_of_one_text
            lines = MapLines.of(whole, row, row if is_one else column, largest_value(whole))
        else:
            lines = whole
        if isinstance(lines, MapLines):
            self._colour_texts(lines, sentence, title, shown.map_scale or default_scale(len(lines.key_tokens)))
        else:
            self.show_missing(title, lines, stores.computing, is_late=maps.is_late)

    def _colour_texts(self, lines: MapLines, sentence: Sentence, title: Sequence[Part], scale: Scale) -> None:
        ink, styles = self.keys.ink, self.keys.styles_of_levels(is_signed=lines.is_signed)
        if ink is Ink.COLOUR and not lines.is_signed:  # differences have half as many colours already
            styles = pair_levels(styles)
        self._spellings = sentence.spellings_along(lines.query_tokens), sentence.spellings_along(lines.key_tokens)
        self.shown, self._scale = lines, scale
        self.show_drawn(title)
        levels = Levels("linear" if scale == "sink" else scale, lines.largest, ink, lines.is_signed)
        cursors = (lines.query, lines.query) if lines.is_of_one_text else (lines.query, lines.key)
        texts = (self.queries, lines.query_tokens, lines.column), (self.keys, lines.key_tokens, lines.row)
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
        return self._scale

    def replace_by(self, message: str) -> None:
        """Show why there is no text, or none yet."""
        self.shown = None
        self.keys.show_message(message if self.keys.display else "")
        self.queries.show_message("" if self.keys.display else message)

    def _share_room(self) -> None:
        """Show both texts if they are two sentences, or if both fit; else the one with the cursor.

        The second stands below the first, after a blank line, or has half the room.
        """
        lines = self.shown
        if lines is None or not self.size.height:
            return
        labels = spell_tokens(lines.key_tokens, self._spellings[1])
        needed = self.keys.count_lines(labels, self.size.width, (self.size.height - 5) // 2)
        self.keys.styles.height = "1fr" if needed is None else needed + 1
        both = needed is not None or not lines.is_of_one_text
        self.keys.display = self.keys_line.display = both or self._is_of_keys
        self.queries.display = self.queries_line.display = both or not self._is_of_keys

    def on_resize(self) -> None:
        """Share the new room."""
        if self.shown is not None:
            self._share_room()
            self._write_lines()

    def _write_lines(self) -> None:
        lines = self.shown
        if lines is None:
            return
        width = max(self.size.width - 2, 10)
        self.legend_line.show(self._legend(width))
        verbs = ("→", "←") if width < NARROW else ("looks at", "is looked at by")
        for line, verb, tokens, at, others, weights in (
            (self.keys_line, verbs[0], lines.query_tokens, lines.query, lines.key_tokens, lines.row),
            (self.queries_line, verbs[1], lines.key_tokens, lines.key, lines.query_tokens, lines.column),
        ):
            number = "" if lines.is_of_one_text else f"{at} "  # of one text the readout has it
            name = f"{short_token(tokens[at])} " if number and width >= NARROW else ""
            own = at if lines.is_of_one_text else None
            line.show(largest_weights(f"{number}{name}{verb}", others, weights, width, own))
        is_query = lines.is_of_one_text or not self._is_of_keys
        at, tokens = (lines.query, lines.query_tokens) if is_query else (lines.key, lines.key_tokens)
        spelling = self._spellings[0 if is_query else 1][at]
        between = ITSELF if lines.is_of_one_text else f"{lines.query} → {lines.key}"
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
            self._point(event.token, is_query=self.shown.is_of_one_text or event.text is self.queries)

    def _point(self, token: int, *, is_query: bool) -> None:
        heatmap = self._attention.heatmap
        query, key = heatmap.cursor
        heatmap.move_to(*((token, key) if is_query else (query, token)))

    def on_descendant_focus(self) -> None:
        """Turn to the text that has the focus."""
        focused = self.screen.focused
        if focused in (self.keys, self.queries) and (focused is self.keys) != self._is_of_keys:
            self._is_of_keys = focused is self.keys
            self._write_lines()

    def action_turn(self) -> None:
        """Turn to the other text; where both are in view under one cursor, say what that changes."""
        self._is_of_keys = not self._is_of_keys
        self._share_room()
        self._write_lines()
        self.focus_view()
        if self.keys.display and self.queries.display and self.shown is not None and self.shown.is_of_one_text:
            verb = "that it looks at most" if self._is_of_keys else "that looks at it most"
            self.post_message(Notice(f"{key_of(self.app, 'text.follow')} goes to the token {verb}"))

    @on(TokenText.Entered)
    def action_follow(self) -> None:
        """Go to the token with the largest weight in the text."""
        lines = self.shown
        if lines is None:
            self.post_message(Notice("no weights yet; wait for the map"))
            return
        weights = lines.row if self._is_of_keys else lines.column
        at = int(np.argmax(np.abs(np.nan_to_num(weights))))
        is_query = lines.is_of_one_text or not self._is_of_keys
        if at == (lines.query if is_query else lines.key):
            self.post_message(Notice("this token has the largest weight"))
        else:
            self._point(at, is_query=is_query)

    @property
    def line(self) -> int:
        """The number of the token's row in `table_on_screen`; `EngineError` when nothing is shown yet."""
        if self.shown is None:
            raise EngineError("the text is still empty; nothing was copied")
        if self.shown.is_of_one_text or self._is_of_keys:
            return self.shown.key
        return len(self.shown.row) + self.shown.query

    def table_on_screen(self) -> Table:
        """Give the weights that the texts show, a row for each token (see `lines_table`)."""
        if self.shown is None:
            raise self.nothing_drawn
        return lines_table(self.shown, self._spellings)
