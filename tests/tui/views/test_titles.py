"""Titles, legends and readouts say what is there and matters, in any room, and the same thing by the same word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, MapName, MapWindow, VisibleKeys
from engine.values.heads import Head, Off
from engine.values.outline import LayerOutline, ModelOutline
from engine.values.table import RANK_COLUMNS
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import low_rank, write_adapter
from tests.tui.explorer import (
    active,
    active_table,
    drawn_lines,
    explorer,
    notices,
    outline_of,
    press,
    press_slowly,
    screen_text,
    see,
    shown,
    title,
    until,
    words,
)
from tui.drawing.facts import model_facts
from tui.drawing.numbers import fit_number, short_number
from tui.drawing.plots import Curve, FurtherCurve, read_value
from tui.drawing.readout import largest_weights, measure_readout, number_readout, weight_readout
from tui.drawing.text import fit
from tui.drawing.titles import (
    Part,
    Title,
    cell_part,
    difference_part,
    fact_part,
    head_part,
    layer_part,
    map_part,
    mean_part,
    off_part,
)
from tui.toolkit.line_filters import ascii_cells
from tui.views.compare_view import ComparePane
from tui.views.text_view import TextPane

TEXT = "the cat sat on the mat."


def outline_with(*stacks: str) -> ModelOutline:
    layers = tuple(
        LayerOutline(stack, layer, 8, 8, 64, 64, 64, 64, 8, 8, "") for stack in stacks for layer in range(12)
    )
    return ModelOutline("model", "", "gpt2", layers, "float32", 0, 0, None)


WHOLE = {
    "0.1250", "0.5000",
    "0.4229", "0.423", "0.42", "0.296", "0.30", "0.3",
    "-0.0142212345", "-0.01422", "-0.0142", "-0.014", "0.03125", "0.0312", "0.031",
    "1.125", "1.12", "1.250", "1.25", "1.43", "24.04", "100.00",
}  # fmt: skip
"""What stands for the numbers below: all their digits, or fewer, and none of which a part is cut off."""


@pytest.mark.parametrize("width", range(22, 80))
def test_every_readout_names_chance_and_cuts_no_number(width: int) -> None:
    weights, tokens = np.array([[1, 0], [0.125, 0.875]], np.float32), ("<|start|>", " something")
    visible = VisibleKeys(np.zeros(2, np.int64), np.arange(2))
    causal = AttentionMap(MapName("decoder", 0, 0), tokens, tokens, weights, None, visible)
    block = pool(causal, MapWindow(1, range(2), range(2))).at(1, 0)
    curve = Curve("QK", np.array([2.0, 1.125]), np.array([1.5, 1.25]), "")
    lines = (
        weight_readout(block, tokens, tokens, width),
        measure_readout("L11H3", 0.4229, 0.296, "3/32", "", width),
        number_readout("qk_symmetry", -0.0142212345, 0.03125, width),
        read_value(curve, 1, width),
        read_value(replace(curve, baseline=None, lines=(FurtherCurve("other", np.array([3.0, 0.03125])),)), 1, width),
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


def one(layer: int, head: int) -> Part:
    return head_part(Head("decoder", layer, head), outline_with("decoder"))


def map_of(layer: int | None, head: int | None) -> Part:
    return map_part(MapName("decoder", layer, head), outline_with("decoder"))


def off(*heads: tuple[int, int], by_mean: bool = False, is_difference: bool = False, gap: str = " · ") -> Part:
    named = Off(tuple(Head("decoder", *each) for each in heads), by_mean)
    return off_part(named, ("decoder",), gap, is_difference=is_difference)


NINE = [(0, number) for number in range(9)]
ACROSS = Head("cross", 1, 2), outline_with("encoder", "cross")
CELL = cell_part((120, 0), "<s>", "a  b · c")


@pytest.mark.parametrize(
    ("view", "parts", "width", "seen"),
    [
        ("attention", [map_of(0, 1), off((0, 1))], 24, "attention L0H1 · 1 off"),
        ("attention", [map_of(10, 11), off((0, 1), (0, 2), (0, 3))], 43, "attention L10H11 · L0H1, L0H2, L0H3 off"),
        (
            "attention", [map_of(1, 2), off((2, 1), by_mean=True, is_difference=True)], 46,
            "attention L1H2 · L2H1 off by mean less all on",
        ),
        ("attention", [map_of(None, None), difference_part()], 24, "mean of all · other−this"),
        ("heads", [layer_part(1), fact_part("3 of 8 heads", " · "), off(*NINE)], 23, "heads L1 · 9 heads off"),
        ("explain", [head_part(*ACROSS), CELL], 45, 'explain cross L1H2 q 120 "<s>" k 0 "a  b · c"'),
        ("explain", [head_part(*ACROSS), CELL], 22, "cross L1H2 q 120 k 0"),
        (
            "explain", [one(0, 2), mean_part(MapName("decoder", 0, None), CELL)], 37,
            "explain L0H2 not the mean: q 120 k 0",
        ),
        ("circuits", [one(1, 2), Part("Δ = 1234, past the context", " ")], 20, "L1H2 Δ = 1234, past…"),
        ("overview", [Part("qk_identity_distance", " "), fact_part("ε 0.01")], 28, "qk_identity_distance"),
    ],
)  # fmt: skip
def test_a_title_drops_its_view_last_and_no_digits(view: str, parts: Sequence[Part], width: int, seen: str) -> None:
    assert Title.of(view, parts).fit(width).plain == seen


SWEPT = "3 of 12 layers, stopped, 9 goes on"

ABLATION = Title.of(
    "ablation",
    [off((1, 2), gap=" "), fact_part("token ' a'")],
    state=(SWEPT, "stopped, 9 goes on", "stopped"),
    count=("20 of 48 so far", "20/48"),
    words="change > 0",
    columns=2,
)
RANKS = Title.of(
    "ranks",
    [Part("L0", " ")],
    state=("energy rank, ε 0.01", "energy rank", ""),
    count=("9 of 54", "9/54"),
    words="matrix = OV",
)
COMPOSITION = Title.of("composition", [one(1, 0)], words="from_layer > 0 and from_layer < 5")


@pytest.mark.parametrize(
    ("title", "width", "seen"),
    [
        (ABLATION, 110, f"ablation with L1H2 off  {SWEPT}  token ' a'  20 of 48 so far  change > 0  → 2 more"),
        (ABLATION, 90, f"ablation L1H2 off  {SWEPT}  20 of 48 so far  change > 0"),
        (ABLATION, 54, "ablation L1H2 off  stopped  20 of 48 so far  change >…"),
        (ABLATION, 23, "1 off  stopped  20/48"),
        (RANKS, 60, "ranks L0  energy rank, ε 0.01  9 of 54  matrix = OV"),
        (RANKS, 40, "ranks L0  energy rank  9 of 54  matrix …"),
        (RANKS, 13, "L0  9/54"),
        (COMPOSITION, 26, "composition L1H0  from_la…"),
    ],
)
def test_a_title_keeps_its_state_longest_then_its_count_filter_and_facts(title: Title, width: int, seen: str) -> None:
    assert fit(title.fit(width).plain, width).rstrip() == seen


async def test_the_title_names_a_filter_even_over_a_message(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0") as (_, pilot):
        await press(pilot, *"5/kind = K", "enter")
        await see(pilot, text=" of ")
        await see(pilot, *":L0H0", "enter", titled="composition L0H0  kind = K", text="no earlier layer feeds this one")


@pytest.mark.parametrize("width", range(12, 60))
def test_a_long_token_does_not_cut_the_largest_weight(width: int) -> None:
    row = np.array([0.25, 0.625, 0.125], np.float32)
    line = largest_weights("→", ("a", "<|endoftext|>", "b"), row, width, None)
    assert line.startswith("→ 1 ")
    assert " 0.625" in line
    assert cell_len(line) <= width


async def test_every_line_of_the_coloured_text_fits_its_numbers_on_the_smallest_terminal(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with explorer(tiny_model("bert"), text=TEXT, head="L0H0", size=(40, 12), ascii_only=True) as (app, pilot):
        await press(pilot, "T", "l")
        pane = active(app, TextPane)
        assert pane.shown is not None
        legend = shown(pane.legend_line)
        assert cell_len(legend) <= pane.legend_line.content_size.width
        assert float(legend.split()[-1]) == pytest.approx(pane.shown.largest, rel=0.05)
        text = drawn_lines(app, pane.keys)
        ends = [f"[{ascii_cells(pane.keys.ink.cells[level])}]" for level in pane.keys._levels.tolist()]
        assert all(any(end in line for line in text) for end in ends[:2]), "each level stands apart from its token"
        await see(pilot, "2", text=" ranks L0  stable rank ")


async def test_the_measure_of_the_map_and_of_the_tree_is_one(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(160, 50)) as (app, pilot):
        app.session.change(measure="energy_rank")
        for keys, of_map, of_tree in (
            (("w", "m", "m"), "qk_effective_rank", "effective_rank"),
            (("M",), "ov_effective_rank", "effective_rank"),
            (("2", "m"), "ov_stable_rank", "stable_rank"),
            (("w", "unbound:app.previous_measure"), "ov_effective_rank", "effective_rank"),
            ("M" * 6, "qk_symmetry", "effective_rank"),  # the last group
            (("2", "m"), "qk_symmetry", "stable_rank"),
        ):
            await press_slowly(pilot, *keys)
            assert (app.session.shown.overview, app.session.shown.measure) == (of_map, of_tree), keys


async def test_the_graph_says_in_full_why_the_other_model_has_no_spectra(tiny_model: TinyModel, tmp_path: Path) -> None:
    factors = low_rank("model.layers.0.self_attn.q_proj", 32, 32)
    adapter = write_adapter(tmp_path / "adapter", str(tiny_model("llama")), factors)
    async with explorer(adapter, text=TEXT, head="decoder-delta.L0H0", size=(118, 50), other="base") as (app, pilot):
        said = app.views.spectra.left_out_line
        await until(pilot, lambda: "decoder-delta holds" in shown(said))
        assert shown(said).rstrip().replace("\n", " ") in words(app)
        await press_slowly(pilot, "P", "]", "P", "C")
        assert title(app) == "compare spectra 2 heads  log scale", "and no chance of a change"
        await press(pilot, "C")
        assert [each.value for each in active(app, ComparePane).values.entries] == ["", ""], "no map has no weight"


ONE_HEAD = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}

WRONG = re.compile(r"\b1 (?!Δ)[a-z]{3,}s\b(?!:)|\b(\d+) to \1\b")
"""One of several, and a range of one number."""


async def test_one_head_of_one_layer_is_in_the_singular(tiny_model: TinyModel, folder: Path) -> None:
    seen: list[str] = []
    async with explorer(tiny_model("llama", **ONE_HEAD), text="the", size=(160, 50)) as (app, pilot):
        filtered = ["4", *"/head = 0", "enter"]
        commands = ([*":L0H3", "enter"], ["escape", *":L9", "enter"])
        for keys in (["P", "C"], ["A"], ["3", "Y"], ["2"], filtered, ["e", "v"], *commands):
            await press(pilot, *keys)
            seen += [screen_text(app), *notices(app)]
        seen.append(model_facts(outline_of(app)))
    everything = "\n".join(seen)
    for said in ("1 layer × 1 head ", "compare spectra 1 head ", "1 row, ", "has head 0 alone"):
        assert said in everything, said
    assert [found.group() for found in WRONG.finditer(everything)] == []


async def test_what_the_mask_hides_is_masked_in_the_rollout_too() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (_, pilot):
        await see(pilot, *"3aaaagg", "right", slowly=True, title="attention rollout")
        await see(pilot, reads='q 0 "<|start|>" → k 1 "t"  masked   ⏎ 0 "<|start|>" 1.00')


async def test_a_search_for_an_absent_label_does_not_promise_it(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await see(pilot, *"/induction", text="no match; heads get labels when a sentence is read")
        await press(pilot, "escape", "i", *"cats", "enter")
        stores = app.main.stores
        assert stores is not None
        await until(pilot, lambda: stores.labels.is_known)
        assert "induction" not in stores.labels.by_head.values()
        await see(pilot, "escape", *"/induction", text="there is no head induction", no_text="when a sentence is read")


async def test_an_empty_label_is_explained_and_a_column_without_notes_is_hidden() -> None:
    async with explorer("demo", text=TEXT, head="L0H1") as (app, pilot):
        await press(pilot, "7")
        active_table(app).grid.go_to_column("label")
        await see(pilot, reads="L0H1  label is empty: the head has no clear pattern")
        assert "note" not in active_table(app).grid.columns


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_the_tree_names_the_measure_and_has_its_numbers_in_every_view(size: tuple[int, int]) -> None:
    async with explorer("demo", text=TEXT, head="L0H1", size=size) as (app, pilot):
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


@pytest.mark.parametrize("width", range(9, 60))
def test_a_narrow_readout_of_a_measure_names_the_head_before_all_else(width: int) -> None:
    line = measure_readout("decoder L10H7", 29, 30.9, "4/32", "previous", width)
    assert len(line) <= width
    assert "L10H7" in line
    assert "29" in line
