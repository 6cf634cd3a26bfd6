"""Plots of singular values as a terminal shows them, and their cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from textual.pilot import Pilot

from tests.tui.painted import PaintedApp, press, resize
from tui.drawing.plots import Curve
from tui.widgets.spectra import SpectraView


async def test_a_plot_has_its_name_its_summary_its_numbers_and_its_bars() -> None:
    async with spectra_of([Curve("QK", np.array([8.0, 4.0, 1.0]), None, "rank 2/3")], size=(40, 4)) as (app, pilot):
        await make_linear(pilot)
        assert [app.picture.line(row).rstrip() for row in range(4)] == [
            " QK  rank 2/3",
            " │⠉⠉⠉⠑⠒⠒⠢⠤⠤⢄⣀⣀⡀",
            "5┤│           ⠈⠉⠉⠑⠒⠒⠢⠤⠤⠤⢄⣀⣀⣀⡀",
            "0┤│                         ⠈⠉⠉⠉⠑⠒⠒⠒⠢⠤⠤",
        ]
    async with spectra_of([Curve("QK", np.array([8.0, 4.0, 0.5]), None, "rank 2/3")], size=(40, 2)) as (app, _):
        assert app.picture.line(0).rstrip() == " QK  0.1…8 rank 2/3", "with one row the numbers stand beside the name"


@pytest.mark.parametrize(
    ("environment", "ascii_only"),
    [({}, False), ({"COLORTERM": "", "TERM": "xterm"}, False), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": "1"}, True)],
)
async def test_chance_can_be_told_from_the_values_and_be_left_out(
    environment: dict[str, str], ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with spectra_of(curves(), ascii=ascii_only) as (app, pilot):
        seen = []
        for _ in range(3):
            seen.append(dict(app.picture.cells))
            app.view.has_baseline = not app.view.has_baseline
            await press(pilot)
        with_chance, without, again = seen
        changed = [cell for cell in with_chance if with_chance[cell] != without[cell]]
        assert len(changed) > 60
        assert all(with_chance[cell][0] != without[cell][0] for cell in changed)
        assert again == with_chance
        assert app.text().replace("\n", "").isascii() == ascii_only


@pytest.mark.parametrize("size", [(1, 1), (40, 8), (56, 16), (154, 60)])
async def test_any_number_of_values_can_be_walked_in_any_pane(size: tuple[int, int]) -> None:
    async with spectra_of(curves(), size=size) as (app, pilot):
        for count in (1, 64, 2000):
            await show(pilot, curves(count))
            await press(pilot, "right", "end", "down", "down", "left", "pageup", "up", "home", *"jjjjjl")
            assert app.view.matrix == "OV"
        await make_linear(pilot)


async def test_a_pane_too_small_for_six_plots_shows_the_selected_one() -> None:
    async with spectra_of(curves(), size=(24, 5)) as (app, pilot):
        assert app.picture.line(0).startswith(" Q  rank 64/64")
        await press(pilot, "down")
        assert app.picture.line(0).startswith(" K  rank 63/64")
        await resize(pilot, 80, 24)
        assert app.text().count("rank") == 6


WALKS = {
    "right": ("K", 13), "l": ("K", 13), "left": ("K", 11), "h": ("K", 11), "pagedown": ("K", 22), "pageup": ("K", 2),
    "pageup pageup": ("K", 1), "home": ("K", 1), "gg": ("K", 1), "end": ("K", 64), "G right": ("K", 64),
    "up": ("Q", 12), "k k": ("Q", 12), "down": ("QK", 12), "j j": ("V", 12), "j j j j j j j j j": ("OV", 12),
}  # fmt: skip
"""Keys, and where they lead from the twelfth value of K."""


async def test_every_key_moves_the_cursor_where_it_says() -> None:
    shown = {curve.matrix: curve.values for curve in curves()}
    async with spectra_of(curves()) as (app, pilot):
        for keys, (matrix, index) in WALKS.items():
            await press(pilot, "home", *"kkkkkj", *"l" * 11)
            assert (app.view.matrix, app.view.index) == ("K", 12)
            await press(pilot, *keys.split())
            assert (app.view.matrix, app.view.index) == (matrix, index), keys
            assert app.moves[-1] == (matrix, index, float(shown[matrix][index - 1])), keys


async def test_the_mouse_chooses_the_matrix_and_the_value() -> None:
    async with spectra_of(curves(8)) as (app, pilot):
        left = app.picture.line(1).index("┤") + 1
        app.set_focus(None)
        for offset, place in (
            ((left + 5 * 3, 4), ("Q", 4)), ((40 + left + 5 * 7, 20), ("OV", 8)), ((3, 8), ("K", 8)),
            ((39, 4), ("Q", 8)),
        ):  # fmt: skip
            await pilot.click(offset=offset)
            assert (app.view.matrix, app.view.index) == place
            assert app.focused is app.view


async def test_the_cursor_is_drawn_in_the_selected_plot_only() -> None:
    async with spectra_of(curves(8, baseline=False)) as (app, pilot):
        await press(pilot, "down", "right", "right")
        cursor = "38;2;78;191;113"
        at = {cell for cell, (_, style) in app.picture.cells.items() if cursor in style}
        left = app.picture.line(10).index("┤") + 1
        assert {column for row, column in at if row == 8} == {0, 1, 2}
        assert {column for row, column in at if row != 8} == {left + 10}
        assert {row for row, _ in at} <= set(range(8, 16))


async def test_stepping_from_head_to_head_keeps_the_matrix_and_the_index() -> None:
    async with spectra_of(curves()) as (app, pilot):
        await press(pilot, *"jjjjj", "end")
        other = curves(seed=1)
        await show(pilot, other)
        assert app.moves[-1] == ("OV", 64, float(other[5].values[63]))
        await show(pilot, curves(12))
        assert app.view.index == 12
        app.view.show_message("reading")
        await show(pilot, curves())
        assert (app.view.matrix, app.view.index) == ("OV", 64)


MATRICES = ("Q", "K", "V", "O", "QK", "OV")


def curves(count: int = 64, *, seed: int = 0, baseline: bool = True) -> list[Curve]:
    """Make six falling curves of different slopes."""
    rng = np.random.default_rng(seed)
    made = []
    for number, matrix in enumerate(MATRICES):
        values = np.sort(rng.uniform(0.5, 1.0, count) * np.exp(-np.arange(count) / (10 + 5 * number)))[::-1] * 8
        chance = np.linspace(values[0] * 0.8, values[0] * 0.2, count)
        made.append(Curve(matrix, values, chance if baseline else None, f"rank {count - number}/{count}"))
    return made


class SpectraApp(PaintedApp):
    """Six plots and nothing else, with a list of where their cursor went."""

    def __init__(self, *, ascii: bool = False) -> None:
        self.view = SpectraView()
        super().__init__(self.view, ascii_only=ascii)
        self.moves: list[tuple[str, int, float]] = []

    def on_spectra_view_cursor_moved(self) -> None:
        self.moves.append((self.view.matrix, self.view.index, self.view.value))


@asynccontextmanager
async def spectra_of(
    shown: Sequence[Curve], *, size: tuple[int, int] = (80, 24), ascii: bool = False
) -> AsyncIterator[tuple[SpectraApp, Pilot[None]]]:
    """Show curves in an application of their own."""
    app = SpectraApp(ascii=ascii)
    async with app.painted(size) as pilot:
        await show(pilot, shown)
        yield app, pilot


async def show(pilot: Pilot[None], shown: Sequence[Curve]) -> None:
    """Show curves; nothing stale may be left of others."""
    assert isinstance(pilot.app, SpectraApp)
    pilot.app.view.show(shown)
    await press(pilot)


async def make_linear(pilot: Pilot[None]) -> None:
    assert isinstance(pilot.app, SpectraApp)
    pilot.app.view.scale = "linear"
    await show(pilot, pilot.app.view._curves)
