"""Tables in the explorer, and their filter line: what is shown is what is exported."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from engine.architectures import tensors
from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.table import Table
from engine.values.views import VIEWS, WEIGHTS, Query
from tests.conftest import TinyModel
from tests.exporting import as_exported, exported, refusal, run, written
from tests.opening import edited_weights, open_on_thread, worked_out
from tests.tui.explorer import active_table, explorer, press, resize, screen_text, see, shown, shown_table, title
from tui.views.switcher import WEIGHTS_WIDTH

KEYS = {"circuits": "4", "composition": "5", "directions": "6", "patterns": "7"}


def asked(model: Path, view: str, query: Query) -> list[tuple[object, ...]]:
    """Work a table out beside the explorer."""
    return rows(worked_out(open_on_thread(model), view, query))


def rows(table: Table) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table]


async def test_a_key_shows_the_table_of_the_selected_head(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    by_layer = Query(layer=Head("decoder", 1))
    async with explorer(model, head="L1H2") as (app, pilot):
        for view, key in KEYS.items():
            await resize(pilot, 80, 24)
            first = next(name for name in VIEWS[view].columns if name not in ("stack", "layer", "head"))
            await see(pilot, key, view=view, text=first)
            query = by_layer if view in ("circuits", "patterns") else replace(by_layer, head=2)
            assert rows(shown_table(app)) == asked(model, view, query)
            assert app.focused is active_table(app).grid
            await resize(pilot, 160, 50)
            has_room = active_table(app).grid.wanted_width <= app.views.size.width - WEIGHTS_WIDTH
            assert ("ranks layer 1" in screen_text(app)) == has_room, "the weights stay left of a narrow table"
            assert "attention L1H2" not in screen_text(app)


async def test_the_cursor_is_on_the_selected_heads_row_a_column_explains_itself_and_a_layer_has_its_eigenvalues(
    tiny_model: TinyModel, folder: Path
) -> None:
    model, layer = tiny_model("gpt2"), Head("decoder", 1)
    async with explorer(model, head="L1H2") as (app, pilot):
        await press(pilot, "4")
        pane = active_table(app)
        assert next(iter(pane.grid.row or ())) == "2"
        (value,) = (row[3] for row in shown_table(app) if row[2] == "2")
        await see(pilot, "home", readout=f"L1H2  qk_symmetry {value:.4g}  chance 0.03125")
        assert shown(pane.explanation_line).startswith("tr(M²)/‖M‖² of M = QK")
        await press(pilot, "r", "l")
        assert shown(pane.explanation_line).startswith("chance, Gaussian factors")
        await press(pilot, "home", "o")
        await press(pilot, "home", "o", "e", "v")
        assert written(folder, "*circuits.csv") == as_exported(pane.table_on_screen()), "as it is sorted"
        await press(pilot, *":L1", "enter")
        found = rows(shown_table(app))
        await see(pilot, "6", text="choose a head")
        await press(pilot, *":L1H2", "enter", *":epsilon 0.1", "enter", "w", "w", "slash", *"qk_energy_rank", "enter")
        assert shown(active_table(app).explanation_line).endswith("90 % of the energy")
    assert found == asked(model, "circuits", Query(layer=layer, whole_layers=True, eigenvalues=True))
    assert isinstance(found[-1][VIEWS["circuits"].columns.index("qk_positive_mass")], float)


async def test_directions_have_a_command_that_folds_the_gains_of_norms_in(tiny_copy: TinyModel, folder: Path) -> None:
    model = tiny_copy("llama", with_head=True)
    with edited_weights(model) as tensors:
        tensors |= {name: 1.0 + torch.rand(each.shape) for name, each in tensors.items() if each.ndim == 1}
    query = Query(layer=Head("decoder", 1), head=2)
    plain, folded = (asked(model, "directions", replace(query, fold_norm=is_folded)) for is_folded in (False, True))
    assert plain != folded
    async with explorer(model, size=(160, 50), head="L1H2") as (app, pilot):
        await press(pilot, "2", "unbound:table.fold", "6")
        assert rows(shown_table(app)) == plain
        await press(pilot, "unbound:table.fold")
        assert rows(shown_table(app)) == folded
        assert title(app).startswith("directions L1H2  norms folded in")
        for keys in (["e", "v"], ["e", "w"]):
            await press(pilot, *keys)
        await press(pilot, "unbound:table.fold")
        assert rows(shown_table(app)) == plain
    for name, options in (("L1H2", ["--head", "L1H2"]), ("all", [])):
        file = folder / f"{model.name}-{name}-folded-directions.csv"
        assert file.read_bytes() == run(model, "directions", *options, "--fold-norm").stdout_bytes


NORMS = Query(norms=True)


def named(table: Table) -> dict[str, dict[str, Any]]:
    """Name the rows by their parameters, and the cells by their columns."""
    return {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table}


def weights_of(folder: Path) -> dict[str, dict[str, Any]]:
    return named(worked_out(open_on_thread(folder), "weights", NORMS))


@pytest.mark.parametrize(("model_type", "dtype"), [("gpt2", torch.bfloat16), ("t5", torch.float32)])
def test_norms_are_those_of_transformers_tensors_however_small_the_parts(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch, model_type: str, dtype: torch.dtype
) -> None:
    folder = tiny_copy(model_type, with_head=True)
    with edited_weights(folder) as stored:
        stored |= {name: tensor.to(dtype) for name, tensor in stored.items()}
    monkeypatch.setattr(tensors, "PART", 1000)
    found = weights_of(folder)
    kind = transformers.GPT2LMHeadModel if model_type == "gpt2" else transformers.T5ForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=dtype)
    own = dict(model.named_parameters(remove_duplicate=False))
    assert found.keys() == own.keys()
    assert tuple(next(iter(found.values())))[:5] == ("name", "shape", "dtype", "parameters", "tied_to")
    for name, row in found.items():
        assert row["shape"] == "x".join(map(str, own[name].shape))
        assert row["parameters"] == own[name].numel() or row["tied_to"]
        assert row["norm"] == pytest.approx(own[name].detach().double().norm().item(), rel=1e-12)
        assert row["bytes"] == (0 if row["tied_to"] else own[name].nbytes)
        assert row["note"] is None
    assert sum(row["bytes"] for row in found.values()) == sum(tensor.nbytes for tensor in stored.values())


@pytest.mark.parametrize(
    ("added", "note"),
    [(0, "stored a second time"), (1, "stored separately, and different from transformer.wte.weight")],
)
def test_notes_name_tensors_stored_twice_and_those_without_a_norm(tiny_copy: TinyModel, added: int, note: str) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    with edited_weights(folder) as tensors:
        unembedding = tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + added
        tensors["transformer.h.0.attn.steps"] = torch.arange(4)
        tensors["transformer.ln_f.weight"][0] = torch.nan
    rows = weights_of(folder)
    head, steps = rows["lm_head.weight"], rows["transformer.h.0.attn.steps"]
    assert (head["note"], head["tied_to"], head["bytes"]) == (note, "transformer.wte.weight", unembedding.nbytes)
    assert head["norm"] == pytest.approx(unembedding.double().norm().item(), rel=1e-12)
    assert (steps["norm"], steps["note"]) == (None, "int64 numbers, which are no weights")
    assert rows["transformer.ln_f.weight"]["note"] == "NaN, infinite or far too large numbers"


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_the_weights_of_a_layer_are_those_of_its_stack(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    stored = [name for name in load_file(folder / "model.safetensors") if re.match(r"\w+\.\w+\.1\.", name)]
    cross = {name for name in stored if "EncDecAttention" in name or "encoder_attn." in name}
    layers = ("encoder.L1", "decoder.L1", "cross.L1", "1")
    encoder, decoder, of_cross, every = (
        [row["name"] for row in exported(folder, "weights", "--layer", layer)] for layer in layers
    )
    assert set(encoder) == {name for name in stored if name.startswith("encoder.")}
    assert sorted(encoder + decoder + of_cross) == sorted(every) == sorted(stored)
    assert cross <= set(of_cross)
    assert "give a number from 0" in refusal(folder, "weights", "--layer", "encoder.L1H0", code=2)


async def test_weights_are_as_exported_and_filtered_while_one_types(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, head="L1H2", engine=Engine(EngineOptions(use_cache=False))) as (app, pilot):
        await press(pilot, "unbound:app.weights")
        pane, table = active_table(app), exported(model, "weights", "--norms")
        assert as_exported(pane.table_on_screen()) == table
        assert tuple(table[0]) == WEIGHTS.columns
        await see(pilot, *"/c_attj", titled=f"weights 0 of {len(table)}  c_attj")
        await press(pilot, "backspace", *" an")
        assert shown(pane.explanation_line) == "no column or number 'c_att'"
        await see(pilot, titled="weights")  # no filter holds that was never finished
        await press(pilot, *"d par", "tab", *" > 1000", "enter", "end", "o", "e", "v")
        assert app.focused is pane.grid
    kept = exported(model, "weights", "--norms", "--where", "c_att and parameters > 1000")
    assert sorted(map(str, written(folder, "*-weights.csv"))) == sorted(map(str, kept))
    assert [row["name"] for row in kept] == [f"transformer.h.{layer}.attn.c_attn.weight" for layer in range(2)]


async def test_the_filter_line_says_what_is_wrong_goes_to_columns_and_is_cleared(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1") as (app, pilot):
        await press(pilot, "4")
        pane, table = active_table(app), shown_table(app)
        count = len(list(table))
        filtered = f"circuits L1  1 of {count}  head = all"
        await see(pilot, *"/head = al", "enter", *"/", "end", *"l", "enter", titled=filtered)
        await press(pilot, *"/ov_over", "tab")
        assert shown(pane.explanation_line).startswith("Enter goes to ov_overlap: mean cos²")
        await press(pilot, "tab", "shift+tab")
        await see(pilot, "enter", titled=filtered)
        assert (pane.grid.column, app.main.prompt.display) == ("ov_overlap", False)
        await see(pilot, *"/qk_symetry < 1", "enter", text="did you mean qk_symmetry?")
        assert app.main.prompt.input.has_focus, "what cannot be read is there to be mended"
        await see(pilot, "escape", titled=filtered)
        assert pane.grid.has_focus
        await see(pilot, "escape", titled="circuits L1", text="? Help  q Quit")  # what has no room is left out before
        none = "no row matches; / changes the filter, esc shows all rows"
        await see(pilot, *"/zzz", "enter", titled=f"circuits L1  0 of {count}  zzz")
        assert " ".join(screen_text(app).split()).count(none) == 1
