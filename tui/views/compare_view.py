"""The comparison of pinned heads: their spectra, their maps, or the difference of two maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from textual import on

from engine.analysis.attention import attention_table, difference_of_heads_table
from engine.analysis.ranks import spectrum_table
from engine.mathematics.chance import chance_curve
from engine.values.attention import AttentionMap, Sentence
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import DELTA, MATRICES, Head, head_text
from engine.values.spectra import FloatArray, Spectrum
from engine.values.table import AnyTable
from tui.drawing.facts import distance_text
from tui.drawing.levels import Scale
from tui.drawing.numbers import brief_number
from tui.drawing.plots import Curve
from tui.drawing.readout import MASKED, write_weight
from tui.drawing.titles import COMPUTING, LAST, Part, Title, fact_part, off_part
from tui.state.maps import MapQuery, map_of
from tui.state.session import Shown, Side, how_to_pin
from tui.state.stores import Stores
from tui.toolkit.keys import key_of
from tui.views.attention_view import map_source
from tui.views.pane import SentencePane
from tui.widgets.heatmap import Heatmap
from tui.widgets.line import Line
from tui.widgets.map_grid import MapGrid, TitledMap
from tui.widgets.spectra import HeadValue, HeadValues, SpectraView


class ComparePane(SentencePane):
    """The pinned heads and the selected one, with the value of each under the cursor."""

    view = "compare"
    asks = ("spectra", "maps")

    foot_keys: ClassVar[Mapping[str, str]] = {
        "app.compare": "Maps, difference",
        "heatmap.numbers": "Numbers",
        "app.pin": "Pin",
        "app.scale": "Scale",
    }

    def __init__(self) -> None:
        self.graph = SpectraView()
        self.maps = MapGrid()
        self.values = HeadValues()
        self.legend_line = Line(classes="pane-legend")
        super().__init__(self.graph, self.maps, self.values, self.legend_line)
        self.add_class("-table")
        self._names: tuple[str, ...] = ()
        self._curves: tuple[Curve, ...] = ()
        self.side = Side.SPECTRA
        self._show_side(Side.SPECTRA)

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the pinned heads and the selected one: their spectra, their maps or a difference."""
        if not self.size:
            return
        if shown.side is not self.side:
            self._show_side(shown.side)
        heads = shown.compared
        names = [head_text(head, stores.outline.stacks) for head in heads]
        if not shown.pins:
            self.show_message((), how_to_pin(key_of(self.app, "app.pin"), key_of(self.app, "app.compare")))
        elif self.side is Side.SPECTRA:
            self._draw_spectra(shown, stores, heads, names)
        elif (sentence := self.sentence_of(shown, stores, ())) is None:
            return
        elif self.side is Side.MAPS:
            self._draw_maps(shown, stores, sentence, heads, names)
        elif (pair := shown.compared_pair) is None:
            self.show_message((), f"a difference needs two heads; go to another one than {names[0]}, or pin one")
        else:
            self._draw_difference(shown, stores, sentence, pair)

    def _show_side(self, side: Side) -> None:
        self.side = side
        is_graph = side is Side.SPECTRA
        self.graph.display, self.maps.display, self.legend_line.display = is_graph, not is_graph, not is_graph
        self.values.display = side is not Side.DIFFERENCE
        self.is_of_sentence, self.is_waiting, self.is_blank = not is_graph, True, True
        self._names = ()
        if self.is_mounted:
            self.show_title(())
            if self.has_focus_within:
                self.focus_view()

    def focus_view(self) -> None:
        """Give the focus to the spectra, or to the map that leads."""
        self.screen.set_focus(self.graph if self.side is Side.SPECTRA else self.maps.leading)

    def replace_by(self, message: str) -> None:
        """Show a message in the place of the spectra or the maps."""
        self._names, self._curves = (), ()
        self.values.show(())
        if self.side is Side.SPECTRA:
            self.graph.show_message(message)
        else:
            self.maps.show([(Title(), message)])

    def _draw_spectra(self, shown: Shown, stores: Stores, heads: Sequence[Head], names: Sequence[str]) -> None:
        """Draw the heads' spectra, with the chance of the selected head or else of the last."""
        spectra, distance = stores.spectra, shown.distance
        self.graph.scale = shown.spectra_scale
        for head in heads:
            if spectra.known(head, distance) is None and spectra.get(head, distance) is None:
                break  # ask for one layer after the other
        answers = [spectra.known(head, distance) for head in heads]
        found = [each if isinstance(each, Mapping) else {} for each in answers]
        title = [Part(quantity(len(heads), "head"), " "), Part(distance_text(distance, stores.outline), " ")]
        if not any(found):
            why_not = next((str(each) for each in answers if isinstance(each, EngineError)), "")
            if why_not or distance is None:
                self.show_message((), why_not or COMPUTING, is_waiting=not why_not)
            else:
                self.is_waiting = True
                self.show_title(title, (COMPUTING,))  # the curves on screen stay until the next come
            return
        front = heads.index(shown.selected) if shown.selected in heads else len(heads) - 1
        if not heads[front].stack.endswith(DELTA):
            title.append(fact_part(f"chance of {names[front]}"))
        self._names = tuple(names)
        self._curves = tuple(_curve_of_heads(matrix, names, found, found[front]) for matrix in MATRICES)
        self.show_drawn(title)
        self.graph.show(self._curves)
        self._read_out_spectra()

    def _draw_maps(
        self, shown: Shown, stores: Stores, sentence: Sentence, heads: Sequence[Head], names: Sequence[str]
    ) -> None:
        titled = []
        for number, (head, name) in enumerate(zip(heads, names, strict=True)):
            query = MapQuery(sentence.text, map_of(head), shown.off_in_maps)
            map = stores.maps.whole.get(query)
            if map is None:  # ask for one layer after the other
                self.show_missing((), None, is_late=stores.maps.is_late)
                return
            sign, style = self.graph.line_sign(number)
            above = Title((Part(sign, fewer=((LAST, ""),), style=style), Part(name, " ")))
            drawn = str(map) if isinstance(map, EngineError) else map_source(stores.maps, query, map, sentence)
            titled.append((above, drawn))
        self._show_maps([Part(quantity(len(heads), "head"), " "), *_off_parts(shown, stores)], names, titled, shown)

    def _draw_difference(self, shown: Shown, stores: Stores, sentence: Sentence, pair: tuple[Head, Head]) -> None:
        base, other = (head_text(head, stores.outline.stacks) for head in pair)
        is_of_one_stack = pair[0].stack == pair[1].stack
        briefly = ((LAST, f"{pair[1]} less {pair[0]}"),) if is_of_one_stack else ()
        named = Part(f"{other} less {pair[0] if is_of_one_stack else base}", " ", briefly)
        title = [named, *_off_parts(shown, stores)]
        query = difference_query(shown, pair)
        map = stores.maps.whole.get(query)
        if not isinstance(map, AttentionMap):
            self.show_missing(title, map, is_late=stores.maps.is_late)
            return
        above = Title([replace(part, style="bold") for part in title])
        source = map_source(stores.maps, query, map, sentence)
        self._show_maps(title, [above.fit(0).plain], [(above, source)], shown)

    def _show_maps(self, title: Sequence[Part], names: Sequence[str], maps: Sequence[TitledMap], shown: Shown) -> None:
        self._names, self._curves = tuple(names), ()
        self.show_drawn(title)
        self.maps.show(maps, shown.map_scale, is_numbered=shown.is_numbered)
        self._read_out_maps()

    @property
    def table_name(self) -> str:
        """The name of the table of what is drawn."""
        return {Side.SPECTRA: "spectrum", Side.MAPS: "attention", Side.DIFFERENCE: "difference"}[self.side]

    def table_subject(self) -> str:
        """Name the heads, of a difference the one that is subtracted last."""
        shown = self.session.shown
        if self.side is Side.DIFFERENCE:
            return "-less-".join(map(str, reversed(shown.compared_pair or ())))
        return "-".join(map(str, shown.compared))

    async def whole_table(self) -> AnyTable:
        """Give the table of what is drawn: each spectrum with its own chance, or every weight of the maps."""
        shown, stores = self.session.shown, self.known
        heads, pair = shown.compared, shown.compared_pair
        if self.side is Side.SPECTRA:
            found = [spectrum for head in heads for spectrum in stores.spectra.listed(head, shown.distance)]
            if not found:
                raise self.nothing_drawn
            return spectrum_table(found)
        if not self._names:
            raise self.nothing_drawn
        if self.side is Side.DIFFERENCE and pair is not None:
            both = await stores.maps.whole.wait_for(difference_query(shown, pair))
            return difference_of_heads_table(both, map_of(pair[1]))
        queries = [MapQuery(shown.text or "", map_of(head), shown.off_in_maps) for head in heads]
        return attention_table([await stores.maps.whole.wait_for(query) for query in queries])

    @property
    def under_cursor(self) -> list[tuple[str, float]]:
        """The name and the value of each head under the cursor; a difference has one name for both its heads."""
        if self.side is not Side.SPECTRA:
            maps = zip(self._names, self.maps.heatmaps, strict=True) if self._names else ()
            return [(name, each.value) for name, each in maps if each.pooled is not None]
        curve = next((each for each in self._curves if each.matrix == self.graph.matrix), None)
        lines = zip(self._names, curve.lines, strict=True) if curve is not None else ()
        return [(name, float(values[self.graph.index - 1])) for name, (_, values) in lines]

    @property
    def scale(self) -> Scale:
        """The scale of the spectra, or of the maps."""
        return self.graph.scale if self.side is Side.SPECTRA else self.maps.leading.scale

    def toggle_scale(self) -> None:
        """Change to the next scale of the spectra, or of the maps."""
        if self.side is not Side.SPECTRA:
            super().toggle_scale()
            return
        self.session.change(spectra_scale="log" if self.scale == "linear" else "linear")

    def show_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Show what is compared, how far that is, and the scale."""
        scale = fact_part(f"{self.graph.scale} scale" if self.side is Side.SPECTRA else "")
        self.title_line.show_title(Title.of(f"{self.view} {self.side.value}", [*title, scale], state=state))

    @on(SpectraView.CursorMoved)
    def _read_out_spectra(self) -> None:
        if self.side is not Side.SPECTRA or not self.under_cursor:
            return
        values = enumerate(self.under_cursor)
        self.values.show(
            [HeadValue(*self.graph.line_sign(at), name, brief_number(value, 4)) for at, (name, value) in values]
        )
        self.readout_line.show(self.graph.readout(max(self.readout_line.size.width - 2, 20)))

    @on(Heatmap.CursorMoved)
    def _read_out_maps(self) -> None:
        if self.side is Side.SPECTRA or not self._names:
            return
        leading = self.maps.leading
        if self.side is Side.MAPS:
            self.values.show(
                [
                    HeadValue(
                        *self.graph.line_sign(number),
                        name,
                        MASKED if each.is_masked else "" if np.isnan(each.value) else write_weight(each.value),
                    )
                    for number, (name, each) in enumerate(zip(self._names, self.maps.heatmaps, strict=True))
                ]
            )
        self.legend_line.show(leading.legend(self.legend_line.size.width - 2))
        of = f"{self._names[self.maps.heatmaps.index(leading)]}: " if self.side is Side.MAPS else ""
        said = leading.readout(self.readout_line.size.width - len(of))
        self.readout_line.show(f"{of}{said}" if said else "")


def difference_query(shown: Shown, pair: tuple[Head, Head]) -> MapQuery:
    """Name the second head's map less the first one's."""
    base, other = map(map_of, pair)
    return MapQuery(shown.text or "", base, shown.off_in_maps, other)


def _off_parts(shown: Shown, stores: Stores) -> list[Part]:
    return [off_part(shown.off, stores.outline.stacks)] if shown.off.heads else []


def _curve_of_heads(
    matrix: str, names: Sequence[str], found: Sequence[Mapping[str, Spectrum]], front: Mapping[str, Spectrum]
) -> Curve:
    values = [each[matrix].singular_values if each else np.zeros(0) for each in found]
    count = max(len(each) for each in values)
    chance = chance_curve(front[matrix]) if front else None
    lines = tuple((name, _pad(each, count)) for name, each in zip(names, values, strict=True))
    baseline = None if chance is None else _pad(chance, count)
    return Curve(matrix, max(values, key=len), baseline, "", lines, is_drawn=False)


def _pad(values: FloatArray, count: int) -> FloatArray:
    return np.concatenate([values, np.full(count - len(values), np.nan)])
