"""Tables in the explorer, and their filter line: what is shown is what is exported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from textual import events

import engine
from engine.analysis.tables import table_states
from engine.architectures import tensors
from engine.checkpoints.source import FolderSource
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.table import CHANCE, Table
from engine.values.views import CIRCUITS, VIEWS, WEIGHTS, Query
from tests.conftest import TinyModel
from tests.exporting import as_exported, exported, refusal, run, written
from tests.opening import edited_weights, open_folder, open_on_thread, worked_out
from tests.tui.explorer import (
    active_table,
    explorer,
    filter_table,
    press,
    resize,
    screen_text,
    settle,
    shown,
    titled,
    until,
)
from tui.drawing.numbers import fit_number
from tui.drawing.titles import Part
from tui.views.switcher import WEIGHTS_WIDTH
from tui.widgets.table_grid import TableGrid

KEYS = {"circuits": "4", "composition": "5", "directions": "6", "patterns": "7"}


def asked(model: Path, view: str, query: Query) -> list[tuple[object, ...]]:
    """Work a table out beside the explorer."""
    return rows(worked_out(open_on_thread(model), view, query))


def rows(table: Table | None) -> list[tuple[object, ...]]:
    assert table is not None
    return [tuple(row) for row in table]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a_key_shows_the_table_of_the_selected_head(tiny_model: TinyModel, size: tuple[int, int]) -> None:
    model = tiny_model("llama")
    by_layer = Query(layer=Head("decoder", 1))
    async with explorer(model, size=size, head="L1H2") as (app, pilot):
        for view, key in KEYS.items():
            await press(pilot, key)
            query = by_layer if view in ("circuits", "patterns") else replace(by_layer, head=2)
            assert rows(active_table(app).shown) == asked(model, view, query)
            feeding = "  from layer 0" if view == "composition" else ""  # in which all rows agree
            assert titled(active_table(app).title_line) == f"{view} L1H2{feeding}"
            text = screen_text(app)
            assert app.focused is active_table(app).grid
            assert next(name for name in VIEWS[view].columns if name not in ("stack", "layer", "head")) in text
            if size[0] == 160:
                has_room = active_table(app).grid.wanted_width <= app.views.size.width - WEIGHTS_WIDTH
                assert ("ranks layer 1" in text) == has_room, "the weights stay at the left of a narrow table"
                assert "attention L1H2" not in text


async def test_a_selected_layer_has_its_eigenvalues_too(tiny_model: TinyModel) -> None:
    model, layer = tiny_model("gpt2"), Head("decoder", 1)
    async with explorer(model, head="L1") as (app, pilot):
        await press(pilot, "4")
        found = rows(active_table(app).shown)
    assert found == asked(model, "circuits", Query(layer=layer, whole_layers=True, eigenvalues=True))
    place = VIEWS["circuits"].columns.index("qk_positive_mass")
    assert isinstance(found[-1][place], float)


async def test_the_cursor_is_on_the_selected_heads_row_and_a_column_explains_itself(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await press(pilot, "4")
        pane = active_table(app)
        assert next(iter(pane.grid.row or ())) == "2"
        await pilot.press("home")
        await pilot.pause()
        assert shown(pane.explanation_line).startswith("tr(M²)/‖M‖² of M = QK")
        table = rows(pane.shown)
        place = next(row for row in table if row[2] == "2")
        assert shown(pane.readout_line) == f"L1H2  qk_symmetry {place[3]:.4g}  chance 0.03125"
        assert "qk_symmetry_chance" not in pane.grid.columns
        assert "qk_symmetry_chance" in pane.table_on_screen().columns, "files have what chance gives"
        await pilot.press("r", "l")
        await pilot.pause()
        assert shown(pane.explanation_line).startswith("chance, Gaussian factors")


async def test_another_head_has_its_own_table_and_enter_goes_to_the_head_that_feeds(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await press(pilot, "5")
        pane = active_table(app)
        first = rows(pane.shown)
        await press(pilot, "]")
        assert {row[2] for row in rows(pane.shown)} == {"3"}
        await press(pilot, "[")
        assert rows(pane.shown) == first
        await press(pilot, "enter")
        assert app.session.shown.selected == Head("decoder", int(str(first[0][4])), int(str(first[0][5])))


async def test_one_key_writes_the_rows_as_they_are_sorted(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await press(pilot, "4", "home", "o")
        await press(pilot, "home", "o", "e", "v")
        assert written(folder, "*circuits.csv") == as_exported(active_table(app).table_on_screen())


async def test_directions_have_a_command_that_folds_the_gains_of_norms_in(tiny_copy: TinyModel, folder: Path) -> None:
    model = tiny_copy("llama", with_head=True)
    with edited_weights(model) as tensors:
        tensors |= {name: 1.0 + torch.rand(each.shape) for name, each in tensors.items() if each.ndim == 1}
    query = Query(layer=Head("decoder", 1), head=2)
    plain, folded = (asked(model, "directions", replace(query, fold_norm=is_folded)) for is_folded in (False, True))
    assert plain != folded
    async with explorer(model, size=(160, 50), head="L1H2") as (app, pilot):
        await press(pilot, "2", "unbound:table.fold", "6")
        assert rows(active_table(app).shown) == plain
        await press(pilot, "unbound:table.fold")
        assert rows(active_table(app).shown) == folded
        assert titled(active_table(app).title_line).startswith("directions L1H2  norms folded in")
        for keys in (["e", "v"], ["e", "w"]):
            await press(pilot, *keys)
        await press(pilot, "unbound:table.fold")
        assert rows(active_table(app).shown) == plain
    for name, options in (("L1H2", ["--head", "L1H2"]), ("all", [])):
        file = folder / f"{model.name}-{name}-folded-directions.csv"
        assert file.read_bytes() == run(model, "directions", *options, "--fold-norm").stdout_bytes


async def test_a_view_without_a_table_for_the_selection_says_what_to_choose(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1") as (app, pilot):
        await press(pilot, "6")
        assert "choose a head" in screen_text(app)
        await press(pilot, "e", "v")
        assert "directions is still empty; nothing was written" in screen_text(app)
        await pilot.press("escape")
        await press(pilot, "5")
        assert {row[1] for row in rows(active_table(app).shown)} == {1}


async def test_a_table_that_fails_says_why_and_others_still_work(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[Table] = Future()
    answer.set_exception(EngineError("there are no rows for this one"))
    async with explorer(tiny_model("t5"), head="encoder.L0H0") as (app, pilot):
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "table", lambda *_, **__: answer)
            await press(pilot, "4")
            assert "there are no rows for this one" in screen_text(app)
        await press(pilot, "5")
        assert active_table(app).view == "composition"
        await pilot.press("3")
        await pilot.pause()
        assert app.views.active is app.views.attention


async def test_the_title_counts_the_columns_to_the_right(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2", size=(80, 24)) as (app, pilot):
        await press(pilot, "4")
        pane = active_table(app)
        beyond = pane.grid.columns_beyond
        assert shown(pane.title_line) == f"circuits L1H2  → {beyond} more columns"
        assert pane.grid.columns == (
            "head",
            *(name for name in CIRCUITS.columns[3:] if not name.endswith(CHANCE)),
        )
        head = screen_text(app).splitlines()[3].split("head")[1].split()
        seen = len(pane.grid.columns) - 1 - beyond
        assert len(head) in (seen, seen + 1), "one may be cut"
        await pilot._post_mouse_events([events.MouseScrollRight], TableGrid, (20, 5))
        await until(pilot, lambda: pane.grid.columns_beyond < beyond)
        await settle(pilot)
        assert f"→ {pane.grid.columns_beyond} more" in shown(pane.title_line)
        await press(pilot, "end")
        assert shown(pane.title_line) == "circuits L1H2"
        await pilot.press("home")
        await resize(pilot, 120, 24)
        assert pane.grid.columns_beyond < beyond
        assert shown(pane.title_line) == f"circuits L1H2  → {pane.grid.columns_beyond} more columns"


async def test_the_readout_follows_the_cursor_while_a_filter_is_typed() -> None:
    async with explorer("demo", head="L0H0", size=(80, 24)) as (app, pilot):
        await press(pilot, "4")
        pane = active_table(app)
        before = shown(pane.readout_line)
        table = pane.shown
        assert table is not None
        at, of = table.columns.index("head"), table.columns.index(pane.grid.column)
        third = next(row for row in rows(table) if str(row[at]) == "3")
        await press(pilot, "slash", *"head = 3")
        assert shown(pane.explanation_line) == "1 of 8 rows"
        assert f" {third[of]:.4g} " in shown(pane.readout_line) != before
        await press(pilot, "ctrl+u", *"head > 77")
        assert shown(pane.readout_line) == ""


@pytest.mark.parametrize(
    ("size", "walk"),
    [
        (
            (40, 12),
            {
                "3 x": "value", "9": "change", "5": "composition", "8": "probability", " z": "probability",
                "z unbound:app.weights": "bytes", "z": "norm",
            },
        ),
        ((80, 24), {"9 r": "change_chance", "8": "probability", "8 8": "contribution", "6 r": "projection_chance"}),
    ],
)  # fmt: skip
async def test_what_a_table_is_about_is_seen_in_little_room(size: tuple[int, int], walk: dict[str, str]) -> None:
    async with explorer("demo", size=size, text="Mia saw a blue fox", head="L1H0") as (app, pilot):
        for keys, measure in walk.items():
            for key in keys.split():
                await press(pilot, key)
            grid, lines = active_table(app).grid, screen_text(app).splitlines()
            region = grid.region
            place = grid.all_columns.index(measure)
            for number, row in enumerate(grid.rows[: grid.rows_in_view]):
                line = lines[region.y + grid.head + number][region.x : region.right]
                value = row[place]
                assert isinstance(value, int | float)
                written = {fit_number(value, digits, digits=2) for digits in range(4, 10)}
                assert written & set(re.findall(r"[-+.e\d]+", line)), line
            assert measure != "value" or "weight" in shown(active_table(app).readout_line)
        if size[0] == 80:
            await filter_table(pilot, "projection > 0.2")
            assert grid.column == "projection"
            assert re.search(r"token +projection +chance", screen_text(app)), "of what a row is stays beside it"


NORMS = Query(norms=True)


def named(table: Table) -> dict[str, dict[str, Any]]:
    """Name the rows by their parameters, and the cells by their columns."""
    return {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table}


@pytest.mark.parametrize(("model_type", "dtype"), [("gpt2", torch.bfloat16), ("t5", torch.float32)])
def test_norms_are_those_of_transformers_tensors_however_small_the_parts(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch, model_type: str, dtype: torch.dtype
) -> None:
    folder = tiny_copy(model_type, with_head=True)
    with edited_weights(folder) as stored:
        stored |= {name: tensor.to(dtype) for name, tensor in stored.items()}
    monkeypatch.setattr(tensors, "PART", 1000)
    found = named(worked_out(open_on_thread(folder), "weights", NORMS))
    kind = transformers.GPT2LMHeadModel if model_type == "gpt2" else transformers.T5ForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=dtype)
    own = dict(model.named_parameters(remove_duplicate=False))
    assert found.keys() == own.keys()
    for name, row in found.items():
        assert row["norm"] == pytest.approx(own[name].detach().double().norm().item(), rel=1e-12)
        assert row["bytes"] == (0 if row["tied_to"] else own[name].nbytes)
        assert row["note"] is None
    assert sum(row["bytes"] for row in found.values()) == sum(tensor.nbytes for tensor in stored.values())


def test_no_part_of_a_tensor_is_larger_than_asked(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(tiny_model("llama"))[0]
    monkeypatch.setattr(tensors, "PART", 100)
    name = next(iter(source.anatomy.modules.values())).weights["Q"]
    parts = list(source.parts(name))
    assert {len(part) for part in parts[:-1]} == {100}
    assert torch.equal(torch.cat(parts), source.tensors.read(name).flatten())


@pytest.mark.parametrize(
    ("added", "note"),
    [(0, "stored a second time"), (1, "stored separately, and different from transformer.wte.weight")],
)
def test_notes_name_tensors_stored_twice_and_tensors_without_a_norm(
    tiny_copy: TinyModel, added: int, note: str
) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    with edited_weights(folder) as tensors:
        unembedding = tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + added
        tensors["transformer.h.0.attn.steps"] = torch.arange(4)
    rows = named(worked_out(open_on_thread(folder), "weights", NORMS))
    head, steps = rows["lm_head.weight"], rows["transformer.h.0.attn.steps"]
    assert (head["note"], head["tied_to"], head["bytes"]) == (note, "transformer.wte.weight", unembedding.nbytes)
    assert head["norm"] == pytest.approx(unembedding.double().norm().item(), rel=1e-12)
    assert (steps["norm"], steps["note"]) == (None, "int64 numbers, which are no weights")


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_the_weights_of_a_layer_are_those_of_its_stack(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    stored = [name for name in load_file(folder / "model.safetensors") if re.match(r"\w+\.\w+\.1\.", name)]
    cross = {name for name in stored if "EncDecAttention" in name or "encoder_attn." in name}
    listed = {
        stack: {row["name"] for row in exported(folder, "weights", "--layer", f"{stack}.L1")}
        for stack in ("encoder", "decoder", "cross")
    }
    assert listed["encoder"] == {name for name in stored if name.startswith("encoder.")}
    assert listed["encoder"] | listed["decoder"] | listed["cross"] == set(stored)
    assert len(stored) == sum(map(len, listed.values()))
    assert cross <= listed["cross"]
    assert {row["name"] for row in exported(folder, "weights", "--layer", "1")} == set(stored)
    assert "give a number from 0" in refusal(folder, "weights", "--layer", "encoder.L1H0", code=2)


def test_equal_matrices_that_are_not_tied_are_noticed_and_numbers_without_a_norm(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama", with_head=True, tie_word_embeddings=False)
    with edited_weights(folder) as tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors["model.norm.weight"][0] = torch.nan
    notes = {name: row["note"] for name, row in named(worked_out(open_on_thread(folder), "weights", NORMS)).items()}
    assert {name: note for name, note in notes.items() if note} == {
        "model.embed_tokens.weight": "same numbers as lm_head.weight, not tied",
        "model.norm.weight": "NaN, infinite or far too large numbers",
    }


def test_weights_are_listed_before_any_is_read_and_none_is_read_twice(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    parts = FolderSource.parts

    def counting(source: FolderSource, name: str) -> Iterator[torch.Tensor]:
        read.append(name)
        yield from parts(source, name)

    monkeypatch.setattr(FolderSource, "parts", counting)
    monkeypatch.setattr("engine.analysis.tables.PAUSE", 0.0)
    monkeypatch.setattr("engine.analysis.tables.SHARE", 0)
    folder = tiny_model("gpt2", with_head=True)
    ours = open_on_thread(folder)
    states = (each for each in table_states(ours, "weights", NORMS) if isinstance(each, tuple))
    first, _ = next(states)
    assert {name: row["norm"] for name, row in named(first).items()} == dict.fromkeys(
        load_file(folder / "model.safetensors")
    )
    for _ in range(5):
        next(states)
    del states
    assert 0 < len(read) < len(named(first))
    whole = worked_out(ours, "weights", NORMS)
    assert sorted(read) == sorted(load_file(folder / "model.safetensors"))
    assert all(row["norm"] is not None for row in named(whole).values())


def test_a_live_module_has_the_table_of_its_numbers_as_they_are_now(tiny_model: TinyModel) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(tiny_model("gpt2", with_head=True))
    opened = engine.open_module(model)
    before = {row["name"]: row for row in opened.table("weights", NORMS).to_dicts()}
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(2)
    after = {row["name"]: row for row in opened.table("weights", NORMS).to_dicts()}
    name = "transformer.ln_f.weight"
    assert after[name]["norm"] == pytest.approx(2 * before[name]["norm"], rel=1e-12)
    assert after["lm_head.weight"]["tied_to"] == "transformer.wte.weight"
    assert {each: row for each, row in after.items() if each != name} == {
        each: row for each, row in before.items() if each != name
    }


async def test_the_weights_are_those_of_the_export_and_are_filtered_while_a_filter_is_typed(
    tiny_model: TinyModel, folder: Path
) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, head="L1H2", engine=Engine(EngineOptions(use_cache=False))) as (app, pilot):
        await press(pilot, "unbound:app.weights")
        pane, table = active_table(app), exported(model, "weights", "--norms")
        assert as_exported(pane.table_on_screen()) == table
        assert tuple(table[0]) == WEIGHTS.columns
        await pilot.press("slash", *"c_att", "j")
        await pilot.pause()
        assert titled(pane.title_line) == f"weights 0 of {len(table)}  c_attj"
        await pilot.press("backspace", *" an")
        await pilot.pause()
        assert shown(pane.explanation_line) == "no column or number 'c_att'"
        assert titled(pane.title_line) == "weights", "no filter holds that was never finished"
        await press(pilot, *"d par", "tab", *" > 1000", "enter", "end", "o", "e", "v")
        assert app.focused is pane.grid
    kept = exported(model, "weights", "--norms", "--where", "c_att and parameters > 1000")
    assert sorted(map(str, written(folder, "*-weights.csv"))) == sorted(map(str, kept))
    assert [row["name"] for row in kept] == [f"transformer.h.{layer}.attn.c_attn.weight" for layer in range(2)]


async def test_the_filter_line_says_what_is_wrong_goes_to_columns_and_is_cleared(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1") as (app, pilot):
        await press(pilot, "4")
        pane = active_table(app)
        count = len(list(pane.shown or ()))
        await pilot.press("slash", *"head = al", "enter", "slash", "end", *"l", "enter", "unbound:app.tree")
        await pilot.pause()
        assert titled(pane.title_line) == f"circuits L1  1 of {count}  head = all"
        await pilot.press("4", "slash", *"ov_over", "tab")
        await pilot.pause()
        assert shown(pane.explanation_line).startswith("Enter goes to ov_overlap: mean cos²")
        await pilot.press("tab", "shift+tab")
        assert app.main.prompt.input.value == "ov_overlap"
        await pilot.press("enter")
        await pilot.pause()
        assert (pane.grid.column, app.main.prompt.display) == ("ov_overlap", False)
        assert titled(pane.title_line) == f"circuits L1  1 of {count}  head = all"
        await pilot.press("slash", *"qk_symetry < 1", "enter")
        await pilot.pause()
        assert app.main.prompt.input.has_focus, "what cannot be read is there to be mended"
        assert "did you mean qk_symmetry?" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert pane.grid.has_focus
        assert titled(pane.title_line) == f"circuits L1  1 of {count}  head = all"
        await pilot.press("escape")
        await pilot.pause()
        assert titled(pane.title_line) == "circuits L1"
        assert screen_text(app).rstrip().endswith("? Help  q Quit"), "what there is no room for is left out before"
        assert len(pane.grid.order) == count
        await pilot.press("slash", "enter")
        await pilot.pause()
        assert (pane.grid.has_focus, app.main.prompt.display) == (True, False)
        await pilot.press("slash", *"zzz", "enter")
        await pilot.pause()
        assert pane.grid.why_none == "no row matches; / changes the filter, esc shows all rows"
        assert " ".join(screen_text(app).split()).count("no row matches; / changes the filter, esc shows all rows") == 1
        table = pane.shown
        assert table is not None
        for so_far in (" so far", ""):  # whether it is still being worked out
            pane.show([Part("L1", " ")], table.with_frame(table.frame), None, is_growing=bool(so_far))
            await pilot.pause()
            assert titled(pane.title_line) == f"circuits L1  0 of {count}{so_far}  zzz"
            assert f"no row matches{so_far}; /" in screen_text(app)
