"""Attention maps to look at, and an application that shows one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from numpy.typing import ArrayLike
from textual.pilot import Pilot

from engine.values.attention import AttentionMap, MapName, PooledMap, VisibleKeys
from tests.tui.painted import PaintedApp, press
from tui.drawing import map_layout
from tui.drawing.levels import Scale
from tui.drawing.map_layout import axes_of
from tui.drawing.ramps import ramp
from tui.toolkit.messages import Notice, NumbersToggled
from tui.widgets.heatmap import Heatmap, MapSource


def keep_cells_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every cell take two columns of a line, whatever there is room for, or what a number takes."""
    axes_of.cache_clear()
    monkeypatch.setattr(map_layout, "LARGEST", 1)
    monkeypatch.setattr(Heatmap, "has_half_blocks", False)


WORDS = ["The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", "."]


def attention(
    queries: int = 10, keys: int | None = None, *, tokens: Sequence[str] = WORDS, seed: int = 0, causal: bool = True
) -> AttentionMap:
    """Make a map whose rows sum to one; with a causal mask where it is square."""
    keys = queries if keys is None else keys
    scores = np.random.default_rng(seed).normal(0, 2, (queries, keys))
    if causal and queries == keys:
        scores = np.where(np.tri(queries, dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)
    names = [tokens[place % len(tokens)] for place in range(max(queries, keys))]
    return AttentionMap(
        MapName("decoder", 0, seed), tuple(names[:queries]), tuple(names[:keys]), weights.astype(np.float32)
    )


def map_of(
    weights: ArrayLike, queries: Sequence[str] = "ab", keys: Sequence[str] = "cd", visible: VisibleKeys | None = None
) -> AttentionMap:
    """Make a map of given weights."""
    rows = np.array(weights, dtype=np.float32)
    return AttentionMap(MapName("decoder", 0, 0), tuple(queries), tuple(keys), rows, None, visible)


CURSOR_STYLE = "1;7;38;2;78;191;113;48;2;18;18;18"
"""Of the default theme, in truecolor."""


class HeatmapApp(PaintedApp):
    """A heatmap and nothing else, with a list of where its cursor went and of what it said."""

    def __init__(self, *, ascii: bool = False) -> None:
        self.heatmap = Heatmap()
        super().__init__(self.heatmap, ascii_only=ascii)
        self.shown: AttentionMap | None = None
        self.scale: Scale | None = None
        self.is_numbered = False
        self.moves: list[tuple[int, int, float]] = []
        self.said: list[str] = []

    @property
    def pooled(self) -> PooledMap:
        """What is drawn."""
        assert self.heatmap.pooled is not None
        return self.heatmap.pooled

    @property
    def block(self) -> int:
        """How many queries, and keys, a cell stands for."""
        return self.pooled.window.block

    def colour_of(self, query: int, key: int) -> tuple[int, int, int]:
        """Work out the background of a weight on the linear scale."""
        assert self.shown is not None
        weights = self.shown.weights
        level = min(int(weights[query, key] / float(weights.max()) * 16), 15)
        return ramp(self.heatmap.background_colors[1].rgb, "truecolor")[level].get_truecolor()

    def on_heatmap_cursor_moved(self) -> None:
        self.moves.append((*self.heatmap.cursor, self.heatmap.value))

    def on_notice(self, message: Notice) -> None:
        self.said.append(message.text)

    def on_numbers_toggled(self, message: NumbersToggled) -> None:
        self.is_numbered = message.is_numbered
        self.draw()

    def draw(self, shown: AttentionMap | None = None) -> None:
        """Show a map, or the same one in another way."""
        self.shown = self.shown if shown is None else shown
        if self.shown is not None:
            self.heatmap.show(MapSource(id(self.shown), self.shown), self.scale, is_numbered=self.is_numbered)


@asynccontextmanager
async def heatmap_of(
    shown: AttentionMap | None = None, *, size: tuple[int, int] = (60, 20), ascii: bool = False
) -> AsyncIterator[tuple[HeatmapApp, Pilot[None]]]:
    """Show a map in an application of its own."""
    app = HeatmapApp(ascii=ascii)
    async with app.painted(size) as pilot:
        await show(pilot, shown)
        yield app, pilot


async def show(pilot: Pilot[None], shown: AttentionMap | None = None, scale: Scale | None = None) -> None:
    """Show a map, the first one with the cursor in its corner; nothing stale may be left of another."""
    app = pilot.app
    assert isinstance(app, HeatmapApp)
    app.scale = scale or app.scale
    app.draw(shown)
    if shown is not None and not app.moves:
        app.heatmap.move_to(0, 0)
    await press(pilot)


def rgb(style: str) -> tuple[int, ...]:
    """Read the background from a style's codes."""
    codes = [int(code) for code in style.split(";")]
    at = codes.index(48)
    assert codes[at + 1] == 2
    return tuple(codes[at + 2 : at + 5])
