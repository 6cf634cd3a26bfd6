"""Rows to look at, and an application that shows them in a table."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.pilot import Pilot

from engine.values.filters import Filter, parse_filter
from engine.values.table import Cell
from tests.tui.painted import PaintedApp
from tui.widgets.table_grid import TableGrid

COLUMNS = ("head", "first", "second", "third", "fourth", "name")


class TableApp(PaintedApp):
    """A table and nothing else."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.grid = TableGrid(ascii_only=ascii_only)
        self.chosen: list[tuple[Cell, ...]] = []

    def compose(self) -> ComposeResult:
        yield self.grid

    def on_mount(self) -> None:
        self.grid.focus()

    def on_table_grid_chosen(self, message: TableGrid.Chosen) -> None:
        self.chosen.append(tuple(self.grid.row or ()))


def rows(count: int) -> list[tuple[Cell, ...]]:
    """Make rows whose columns rise, fall, and go up and down."""
    return [(f"H{n}", n, -n / 2, (n * 7) % count, 1e-6 * n, f"word {n}") for n in range(count)]


def ordered(app: TableApp) -> list[tuple[Cell, ...]]:
    """Give the rows as they stand on the screen."""
    return [tuple(app.grid.rows[place]) for place in app.grid.order]


def painted(app: TableApp) -> str:
    """Give everything that is on the terminal."""
    return "\n".join(app.picture.line(row) for row in range(app.size.height))


def of_rows(made: list[tuple[Cell, ...]], kept: list[int]) -> Filter:
    """Make a filter that leaves some of the rows, by their first cell."""
    words = [f"part = '{made[place][0]}'" for place in kept]
    return parse_filter(" or ".join(words) or "part = 'none'", ("part",))


async def arranged(pilot: Pilot[None]) -> None:
    """Wait until the rows are in order and drawn."""
    assert isinstance(pilot.app, TableApp)
    await pilot.pause()
    while not pilot.app.grid.is_arranged:
        await pilot.pause(0.005)
    await pilot.pause()


async def show(pilot: Pilot[None], made: list[tuple[Cell, ...]], frozen: int = 1) -> TableApp:
    app = pilot.app
    assert isinstance(app, TableApp)
    app.grid.show(COLUMNS, made, frozen)
    await arranged(pilot)
    return app
