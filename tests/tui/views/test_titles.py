"""Titles, legends and readouts say what is there and matters, in any room, and the same thing by the same word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, MapName, MapWindow, VisibleKeys
from engine.values.heads import Head, Off
from engine.values.table import RANK_COLUMNS
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, press_slowly, resize, screen_text
from tui.drawing.numbers import fit_number, short_number
from tui.drawing.plots import Curve, read_value
from tui.drawing.readout import measure_readout, number_readout, weight_readout
from tui.drawing.text import fit
from tui.drawing.titles import Title, fact_part, off_part

TEXT = "the cat sat on the mat."


WHOLE = {
    "0.1250", "0.5000",
    "0.4229", "0.423", "0.42", "0.296", "0.30", "0.3",
    "-0.0142212345", "-0.01422", "-0.0142", "-0.014", "0.03125", "0.0312", "0.031",
    "1.125", "1.12", "1.250", "1.25", "1.43", "24.04", "100.00",
}  # fmt: skip
"""What stands for the numbers below: all their digits, or fewer, and none of which a part is cut off."""


def test_every_readout_names_chance_and_cuts_no_number() -> None:
    weights, tokens = np.array([[1, 0], [0.125, 0.875]], np.float32), ("<|start|>", " something")
    visible = VisibleKeys(np.zeros(2, np.int64), np.arange(2))
    causal = AttentionMap(MapName("decoder", 0, 0), tokens, tokens, weights, None, visible)
    block = pool(causal, MapWindow(1, range(2), range(2))).at(1, 0)
    curve = Curve("QK", np.array([2.0, 1.125]), np.array([1.5, 1.25]), "")
    of_two = replace(curve, baseline=None, lines=(("other", np.array([3.0, 0.03125])),))
    for width in range(22, 80):
        lines = (
            weight_readout(block, tokens, tokens, width),
            measure_readout("L11H3", 0.4229, 0.296, "3/32", "", width),
            number_readout("qk_symmetry", -0.0142212345, 0.03125, width),
            read_value(curve, 1, width),
            read_value(of_two, 1, width),
        )
        for line in lines:
            assert cell_len(line) <= width
            assert {word for word in line.split() if "." in word} <= WHOLE
            assert "vs" not in line.split(), "which is another model"
        assert all("chance" in line for line in lines[1:4]), "at the smallest terminal too"


def test_numbers_in_few_cells_keep_their_power_of_ten() -> None:
    for value in (42751.2, 346240.0, -0.0012345, 0.00012345, -99.96, 9999.7, 1e-300):
        for width in (7, 8, 9):
            assert len(fit_number(value, width)) <= width
            assert float(fit_number(value, width)) == pytest.approx(value, rel=0.2)
        assert len(short_number(abs(value))) <= 9


SWEPT = "3 of 12 layers, stopped, 9 goes on"

ABLATION = Title.of(
    "ablation",
    [off_part(Off((Head("decoder", 1, 2),)), ("decoder",), " "), fact_part("token ' a'")],
    state=(SWEPT, "stopped, 9 goes on", "stopped"),
    count=("20 of 48 so far", "20/48"),
    words="change > 0",
    columns=2,
)


@pytest.mark.parametrize(
    ("width", "seen"),
    [
        (110, f"ablation with L1H2 off  {SWEPT}  token ' a'  20 of 48 so far  change > 0  → 2 more"),
        (90, f"ablation L1H2 off  {SWEPT}  20 of 48 so far  change > 0"),
        (54, "ablation L1H2 off  stopped  20 of 48 so far  change >…"),
        (23, "1 off  stopped  20/48"),
    ],
)
def test_a_title_keeps_its_state_longest_then_its_count_filter_and_facts(width: int, seen: str) -> None:
    assert fit(ABLATION.fit(width).plain, width).rstrip() == seen


async def test_the_tree_has_the_measure_of_the_map_its_name_and_its_numbers_in_every_view(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H1", size=(160, 50)) as (app, pilot):
        app.session.change(measure="energy_rank")
        for keys, of_map, of_tree in (
            ("wmm", "qk_effective_rank", "effective_rank"),
            ("M", "ov_effective_rank", "effective_rank"),
            ("2m", "ov_stable_rank", "stable_rank"),
        ):
            await press_slowly(pilot, *keys)
            assert (app.session.shown.overview, app.session.shown.measure) == (of_map, of_tree), keys
        await resize(pilot, 80, 24)
        assert app.views.stores is not None
        head = Head("decoder", 0, 1)
        app.session.change(measure="energy_rank")
        rows = app.views.stores.spectra.measures([head], app.session.shown.epsilon)[head]
        for keys, column in ("3", "energy_rank"), ("m", "numerical_rank"), ("w1", "numerical_rank"):
            await press(pilot, *keys)
            lines = [line[: app.main.tree_widget.region.right].rstrip() for line in screen_text(app).splitlines()]
            assert column.replace("_", " ").startswith(lines[1].partition("…")[0].partition(" QK")[0].strip())
            (said,) = [line.partition("H1 ")[2].split() for line in lines if "H1 " in line]
            numbers = [float(str(rows[matrix][RANK_COLUMNS.index(column)])) for matrix in ("QK", "OV")]
            assert [float(each) for each in said] == pytest.approx(numbers[: len(said)], rel=0.05)
