"""The maps of several heads side by side, and the difference of two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rich.text import Text

from engine.analysis.attention import attention_table, block_table, difference_of_heads_table
from engine.service.engine import Engine
from engine.values.attention import AttentionMap, MapName, MapQuery, MapWindow, PooledMap, Sentence
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head, Off
from engine.values.table import AnyTable
from tui.drawing.spelling import map_with_parts
from tui.toolkit.tasks import Run, patiently
from tui.views.compare_view import ComparePane
from tui.widgets.large_map import LargeMap
from tui.widgets.map_grid import Titled

NOTHING = "the compare view shows nothing yet; nothing was written"

Shown = TypeVar("Shown", AttentionMap, PooledMap, LargeMap, AttentionMap | LargeMap)

Read = tuple[str, Off]
"""A sentence, and the heads that are switched off while it is read."""

Pair = tuple[Head, Head]
"""Two heads, of which the second one's map less the first one's is looked at."""


class ComparedMaps:
    """What is known of several heads' maps; those of a long sentence stay with the engine.

    Parameters
    ----------
    engine : who reads.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    draw : called when more has become known.
    """

    def __init__(
        self,
        engine: Engine,
        run: Run,
        draw: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._run = run
        self._draw = draw
        self._read: Read | None = None
        self._sentence: Sentence | EngineError | None = None
        self._maps: dict[Head, AttentionMap | LargeMap | EngineError] = {}
        self._differences: dict[Pair, LargeMap] = {}
        self._drawn: dict[Head, PooledMap] = {}
        self._order: tuple[Head | Pair, ...] = ()

    def forget(self) -> None:
        """Let go of everything: another sentence is read, or other heads are switched off."""
        self._read = self._sentence = None
        self._maps.clear()
        self._differences.clear()
        self._drawn.clear()

    def draw(self, pane: ComparePane, heads: Sequence[Head], names: Sequence[str], text: str, off: Off) -> None:
        """Draw the heads' maps, or ask for them."""
        self._order = tuple(heads)
        if not self._has(pane, heads, (text, off)):
            return
        maps = []
        for number, (head, name) in enumerate(zip(heads, names, strict=True)):
            found = self._maps[head]
            title = Text().append(*pane.graph.line_sign(number)).append(f" {name}")
            maps.append(Titled(title, str(found) if isinstance(found, EngineError) else self._spelled(found)))
        pane.show_maps(f"{quantity(len(heads), 'head')}{_without(off)}", maps)

    def draw_difference(
        self, pane: ComparePane, pair: tuple[Head, Head], names: tuple[str, str], text: str, off: Off
    ) -> None:
        """Draw by how much the second head's weights are larger than the first one's, or say why they are not."""
        self._order = (pair,)
        if not self._has(pane, pair, (text, off)):
            return
        less = str(pair[0]) if pair[0].stack == pair[1].stack else names[0]
        title = f"{names[1]} less {less}{_without(off)}"
        try:
            shown = self._spelled(self._difference(pane, pair, names))
        except EngineError as error:
            pane.show_message(title, str(error))
        else:
            pane.show_maps(title, [Titled(Text(title, "bold"), shown)])

    def _spelled(self, shown: Shown) -> Shown:
        """Write the tokens along a map as every map does; those of a long one come with what is in view."""
        if isinstance(shown, LargeMap) or not isinstance(self._sentence, Sentence):
            return shown
        return map_with_parts(shown, self._sentence)

    def _difference(self, pane: ComparePane, pair: Pair, names: tuple[str, str]) -> AttentionMap | LargeMap:
        """Put two heads' maps together, or say where their difference is to be asked for.

        Raises
        ------
        EngineError : when there is no difference to draw.
        """
        both = self._both(pair, names)
        if both is not None:
            return both
        if pair not in self._differences:
            assert isinstance(self._sentence, Sentence)  # else no map would be known
            assert self._read is not None
            name, minuend = map(_map_of, pair)
            self._differences = {pair: self._large(pane, pair, name, self._sentence, self._read, minuend)}
        return self._differences[pair]

    def _both(self, pair: Pair, names: tuple[str, str]) -> AttentionMap | None:
        """Put two heads' maps together; None where they stay with the engine.

        Raises
        ------
        EngineError : when they have no difference.
        """
        base, other = (self._maps[head] for head in pair)
        for found in (base, other):
            if isinstance(found, EngineError):
                raise found
        if not isinstance(base, AttentionMap) or not isinstance(other, AttentionMap):
            return None
        if (base.query_tokens, base.key_tokens) != (other.query_tokens, other.key_tokens):
            raise EngineError(f"the maps of {names[0]} and {names[1]} have other tokens along their sides")
        return replace(base, other=other.weights)

    def _has(self, pane: ComparePane, heads: Sequence[Head], read: Read) -> bool:
        """Say whether the maps of some heads are known; ask for them where they are not."""
        self._read = read
        if isinstance(self._sentence, EngineError):
            pane.show_message("", str(self._sentence))
            return False
        if self._sentence is not None and all(head in self._maps for head in heads):
            return True
        self._run(partial(self._fetch, pane, heads, read), "compare maps")
        return False

    async def _fetch(self, pane: ComparePane, heads: Sequence[Head], read: Read) -> None:
        """Read the sentence, and learn the maps of heads, a layer at a time."""
        text, off = read

        def waiting() -> None:
            pane.show_message("", "computing …", is_waiting=True)

        sentence = await patiently(self._engine.read(text, "compare", off), waiting)
        found: dict[Head, AttentionMap | LargeMap | EngineError] = {}
        if isinstance(sentence, Sentence) and sentence.is_long:
            found = {
                head: self._maps.get(head) or self._large(pane, head, _map_of(head), sentence, read) for head in heads
            }
        elif isinstance(sentence, Sentence):
            found = {head: self._maps[head] for head in heads if head in self._maps}
            for layer in dict.fromkeys(head.whole_layer for head in heads if head not in found):
                asked = self._engine.attention(text, layer.stack, layer.layer, "compare", off)
                answer = await patiently(asked, waiting)
                for head in heads:
                    if head.whole_layer == layer:
                        one = answer if isinstance(answer, EngineError) else _alone(answer.select(head.head))
                        found[head] = one
        if read == self._read:
            self._sentence, self._maps = sentence, found
            self._draw()

    def _large(
        self,
        pane: ComparePane,
        of: Head | Pair,
        name: MapName,
        sentence: Sentence,
        read: Read,
        minuend: MapName | None = None,
    ) -> LargeMap:
        """Make a map of which only what is in view comes here."""
        view = f"compare {name.stack} {of}" if minuend is None else "compare difference"

        def ask(window: MapWindow) -> None:
            self._run(partial(fetch, window), view)

        async def fetch(window: MapWindow) -> None:
            asked = self._engine.pooled(MapQuery(read[0], name, read[1], minuend), window, view)
            pooled = await patiently(asked, lambda: None)
            if read != self._read or of not in self._order:
                return
            if isinstance(pooled, EngineError):
                pane.maps.show_error(self._order.index(of), str(pooled))
                return
            if isinstance(of, Head):
                self._drawn[of] = pooled
            pane.maps.receive(self._order.index(of), self._spelled(pooled))

        return LargeMap(name, sentence.tokens, sentence.tokens, ask, is_signed=minuend is not None)

    def table(self, heads: Sequence[Head]) -> AnyTable:
        """List every weight of the heads' maps; of a long sentence's the blocks that are drawn.

        Raises
        ------
        EngineError : when nothing is drawn yet.
        """
        found = [self._maps.get(head) for head in heads]
        whole = [each for each in found if isinstance(each, AttentionMap)]
        if whole:
            return attention_table(whole)
        drawn = [self._drawn[head] for head in heads if head in self._drawn]
        if len(drawn) < len(heads):
            raise EngineError(NOTHING)
        return block_table(drawn)

    async def difference_table(self, pair: Pair | None) -> AnyTable:
        """List the weights of two heads' maps and their differences, every one of them however long the sentence is.

        Raises
        ------
        EngineError : when no difference is drawn, or the maps cannot be had any more.
        """
        if pair is None or self._read is None or any(head not in self._maps for head in pair):
            raise EngineError(NOTHING)
        both, name = self._both(pair, (str(pair[0]), str(pair[1]))), _map_of(pair[1])
        if both is None:
            text, off = self._read
            asked = self._engine.whole_map(MapQuery(text, _map_of(pair[0]), off, name))
            both = await asyncio.wrap_future(asked)
        return difference_of_heads_table(both, name)


def _map_of(head: Head) -> MapName:
    """Name a head's map."""
    return MapName(head.stack, head.layer, head.head)


def _alone(attention: AttentionMap) -> AttentionMap:
    """Copy a map out of its layer's, which are then let go of."""
    return replace(attention, weights=attention.weights.copy())


def _without(off: Off) -> str:
    """Say which heads are switched off, in a title."""
    return f" · with {off}" if off.heads else ""
